"""Failures of a compiler, remembered beside the library that it could not make: it would fail again at each start."""

import hashlib
import shlex
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from models.kernels.compilers import CompilerError
from models.system.sealed import UntrustedError, read_trusted, remove_sealed
from models.system.whole_file import write_whole

_RETRY_SECONDS = 86_400
"""Time after which a compiler that could not is tried again: what it lacked may be there by now."""
_LONGEST_FAILURE = 1 << 14
"""Bytes of what a compiler said, as it is remembered."""


def failure_of(library: Path, compiler: Sequence[str]) -> Path:
    """Return the file for the failure of this compiler at a library."""
    return library.with_name(f"{library.stem}-{_stamp(compiler)}.failed")


def check_untried(failure: Path) -> None:
    """Raise CompilerError where this compiler failed at these sources not long ago: it would take as long again."""
    try:
        if time.time() - failure.lstat().st_mtime > _RETRY_SECONDS:
            return
        failure_text = read_trusted(failure, _LONGEST_FAILURE).decode("utf-8", errors="replace")
    except (UntrustedError, OSError):
        return
    hint = f"To try again at once: rm {shlex.quote(str(failure))}. Or name another compiler: CXX=g++ or CXX=clang++."
    raise CompilerError(f"That was tried before, and is not again within a day: {failure_text}", hint=hint)


def remember_failure(failure: Path, cause: str) -> None:
    """Remember what a compiler said; where that can't be written, it is tried again at the next start."""
    with suppress(OSError):
        remove_sealed(failure)
        write_whole(failure, cause)


def _stamp(compiler: Sequence[str]) -> str:
    """Return a short name for a compiler, another one when it is replaced."""
    digest = hashlib.sha256(shlex.join(compiler).encode())
    for word in compiler:
        with suppress(OSError):
            file = Path(shutil.which(word) or word).stat()
            digest.update(f"{file.st_size} {file.st_mtime_ns}".encode())
    return digest.hexdigest()[:8]
