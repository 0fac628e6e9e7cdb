"""Copies of a model in another quantisation, made by llama.cpp in a child process: a failed assertion kills the child.

Only for draft models: a copy of a target would change the text, a copy of a draft model only its drafts.
"""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from models.abort import AbortFlag
from models.errors import Cancelled, LocalspecError
from models.gguf.file import check_file
from models.llama.bindings import llama_cpp, recent_errors
from models.system.children import end, start
from models.system.machine import physical_cores


class Kind(NamedTuple):
    """What llama.cpp calls a quantisation, in numbers."""

    file_type: int
    """Of most matrices (enum llama_ftype)."""
    output_type: int
    """Of the output matrix (enum ggml_type): llama.cpp would take six or eight bits, for the sake of a target. A draft
    model reads all of it for each draft token, and where it is small that is half of its time."""


_Q4_0, _IQ4_NL = 2, 20
KINDS = {"Q4_K_M": Kind(15, _Q4_0), "IQ4_NL": Kind(25, _IQ4_NL), "Q4_0": Kind(2, _Q4_0)}
"""Quantisations by name, the one that loses least first. No output matrix is too narrow for the types chosen here."""
_POLL = 0.05
_HOUR = 3600
_LOCKS = sys.platform != "win32"
UNFINISHED = ".partial"
"""Ending of a copy that is being written."""
Progress = Callable[[float], None]
"""Receives the share that was written, an estimate."""


def requantise(
    source: Path,
    destination: Path,
    kind: str,
    *,
    abort: AbortFlag | None = None,
    on_progress: Progress | None = None,
    command: Sequence[str] | None = None,
    finish: Callable[[Path, Path], object] = Path.replace,
) -> None:
    """Write `source` in quantisation `kind` (see KINDS) to `destination`, which appears when it is whole.

    Where a matrix is too narrow for a K quantisation llama.cpp takes another for it. `command` starts the child; by
    default it is this module. `finish` puts what was written in its place. Raises LocalspecError when it can't be done,
    ModelFileError for a source that is none, Cancelled when the abort flag is raised; nothing is left behind then.
    """
    check_file(source)
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        remove_unfinished(destination.parent)
        handle, name = tempfile.mkstemp(prefix=destination.stem, suffix=UNFINISHED, dir=destination.parent)
    except OSError as error:
        raise _failed(source, kind, f"{destination.parent} can't be written: {error.strerror}") from error
    partial = Path(name)
    try:
        # Held as long as this process lives, the lock tells others that the file is no leftover.
        _lock(handle)
        _check_room(source, destination.parent)
        # -P: without it a folder "models" in the user's own project would be imported, and run, in place of this one.
        command = command or (sys.executable, "-P", "-m", "models.llama.requantise")
        _run([*command, str(source), str(partial), kind], source, partial, abort or AbortFlag(), on_progress)
        os.fsync(handle)
        finish(partial, destination)
    finally:
        os.close(handle)
        partial.unlink(missing_ok=True)


def remove_unfinished(folder: Path) -> None:
    """Remove what a process that was killed left of its copies; what another one writes stays."""
    for partial in folder.glob(f"*{UNFINISHED}"):
        with suppress(OSError):
            handle = os.open(partial, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
            try:
                stale = _lock(handle) if _LOCKS else time.time() - partial.stat().st_mtime > _HOUR
                if stale:
                    partial.unlink()
            finally:
                os.close(handle)


def _lock(handle: int) -> bool:
    """Take the lock of a file; False where another process has it. Where locks bar its own child, none is taken."""
    if _LOCKS:
        import fcntl

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def _check_room(source: Path, folder: Path) -> None:
    """Refuse before minutes are spent: a copy is hardly ever larger than its source."""
    needed, free = source.stat().st_size, shutil.disk_usage(folder).free
    if needed > free:
        raise LocalspecError(
            f"There is no room for another copy of {source.name}.",
            cause=f"It may need {needed / 2**20:,.0f} MiB; {free / 2**20:,.0f} MiB are free in {folder}.",
            hint="Make room there, or use the draft model as it is.",
        )


def _run(command: Sequence[str], source: Path, partial: Path, abort: AbortFlag, on_progress: Progress | None) -> None:
    """Wait for the child, watching the file grow; end it when the user wants to stop."""
    size, kind = source.stat().st_size, command[-1]
    # A file takes what the child says: a pipe without a reader would fill up and stop it.
    with tempfile.TemporaryFile() as complaint:
        child = start(command, out=subprocess.DEVNULL, err=complaint)
        try:
            while child.poll() is None:
                if abort.is_set:
                    raise Cancelled("Stopped.")
                if on_progress is not None:
                    on_progress(min(1.0, partial.stat().st_size / size))
                time.sleep(_POLL)
        finally:
            end(child)
        if child.returncode != 0:
            if abort.is_set:
                # Ctrl-C reaches the child too: it may be gone before the flag was looked at.
                raise Cancelled("Stopped.")
            complaint.seek(0)
            words = complaint.read().decode("utf-8", errors="replace").strip().splitlines()
            ended = f"The child process ended with code {child.returncode}."
            raise _failed(source, kind, words[-1] if words else ended)


def _failed(source: Path, kind: str, cause: str) -> LocalspecError:
    hint = "Use the draft model as it is."
    return LocalspecError(f"{source.name} can't be written as {kind}.", cause=cause, hint=hint)


def _quantise(source: str, destination: str, kind: str) -> str:
    """Write the copy in this process; return what went wrong, "" for nothing."""
    api = llama_cpp()
    params = api.llama_model_quantize_default_params()
    params.nthread = physical_cores()
    params.ftype, params.output_tensor_type = KINDS[kind]
    # Drafts are mostly quantised already; the second loss costs an accepted token now and then.
    params.allow_requantize = True
    code = api.llama_model_quantize(os.fsencode(source), os.fsencode(destination), ctypes.byref(params))
    return "" if code == 0 else recent_errors() or f"llama.cpp gave code {code}."


if __name__ == "__main__":
    sys.exit(_quantise(*sys.argv[1:4]) or 0)
