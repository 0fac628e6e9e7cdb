"""Child process of a probe: it loads a model, decodes, and reads its vocabulary, within limits of memory and files.

It tells how far it came, one JSON object a line, in the file that REPORT names: standard output may be written by any
library.
"""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from models.errors import LocalspecError, MemoryLimitError, ModelFileError

REPORT = "LOCALSPEC_PROBE_REPORT"
"""The variable that names the file of what a child tells; without it the child says nothing."""
_ROOM = 2 << 30
"""Bytes of addresses beyond twice the file: caches, graphs, and what libraries reserve."""
_ROOM_OF_A_THREAD = 160 << 20
"""Bytes of addresses that a thread reserves: its stack, and an arena of glibc's."""
_MOST_WRITTEN = 64 << 20
"""Bytes of a file that a child may write: a library that complains without end would fill the disk."""
_PIECES_AT_ONCE = 64
_SMALL = 256 << 20
"""Bytes of a file that one thread tries in a moment; several would wait for each other where other programs compute."""
_SHARE_OF_GPUS = 0.8
"""Share of the free memory of GPUs that weights may take; the rest is for a small cache and a pass."""


def main(path: Path, *, extra_buffers: bool | None) -> int:
    """Try a model; return 0, or the exit code of the error that was told."""
    try:
        _try(path, extra_buffers=extra_buffers)
    except LocalspecError as error:
        return _failed(error)
    except MemoryError:
        return _failed(MemoryLimitError(f"{path.name} does not fit in memory.", cause="A test decode ran out of it."))
    return 0


def _failed(error: LocalspecError) -> int:
    tell(error=type(error).__name__, title=error.title, cause=error.cause, hint=error.hint)
    return error.exit_code


def tell(**what: object) -> None:
    """Add a line to the report, where one is wanted."""
    if name := os.environ.get(REPORT):
        with Path(name).open("a", encoding="utf-8") as report:
            report.write(json.dumps(what) + "\n")


def _try(path: Path, *, extra_buffers: bool | None) -> None:
    from models.llama.bindings import kernels, llama_cpp
    from models.llama.devices import finds_gpu
    from models.llama.load import LlamaOptions
    from models.llama.model import LlamaModel

    llama_cpp()
    kernels()
    # From here on time and memory depend on the file; before, on the machine alone.
    tell(ready=os.getpid())
    if not finds_gpu():
        # A driver reserves addresses by the terabyte.
        _limit_memory(path)
    options = LlamaOptions(
        context_size=256,
        batch_size=64,
        threads=1 if _size(path) < _SMALL else 0,
        extra_buffers=extra_buffers,
        gpu_layers=-1 if _fits_on_gpus(path) else 0,
    )
    model = LlamaModel(path, options)
    # One wide and one narrow pass: they take different kernels.
    last = min(1, model.vocab.size - 1)
    model.decode([last] * 32, rows=4)
    model.decode([last], rows=1)
    spell(model.vocab)
    model.close()


def _fits_on_gpus(path: Path) -> bool:
    """Return whether all of a model may go to GPUs; of a larger one the processor's way is tried."""
    from models.llama.devices import gpus

    return _size(path) < _SHARE_OF_GPUS * sum(gpu.free for gpu in gpus())


def _size(path: Path) -> int:
    """Return the bytes of a model, all parts of a split one together."""
    from models.gguf.file import parts_of

    return sum(part.stat().st_size for part in parts_of(path))


def spell(vocab: Any) -> None:
    """Turn every token into bytes, and those and every single byte into tokens: an exception in C++ ends the process.

    Raises ModelFileError for a vocabulary whose tokens come back beyond its size.
    """
    pieces = [vocab.piece(token) for token in range(vocab.size)]
    for token in range(vocab.size):
        vocab.text(token)
    groups = [pieces[start : start + _PIECES_AT_ONCE] for start in range(0, len(pieces), _PIECES_AT_ONCE)]
    for text in (*(bytes([byte]) for byte in range(256)), *map(b"".join, groups)):
        ids = vocab.tokenize_bytes(text)
        if ids and not 0 <= min(ids) <= max(ids) < vocab.size:
            raise ModelFileError("Its vocabulary is damaged.", cause=f"{text[:20]!r} has the tokens {ids[:20]}.")


def _limit_memory(path: Path) -> None:
    """Allow as many addresses as a file of this size can need; a system without such a limit has none."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        from models.system.machine import physical_cores

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        most = used + 2 * _size(path) + _ROOM + physical_cores() * _ROOM_OF_A_THREAD
        for kind, limit in ((resource.RLIMIT_AS, most), (resource.RLIMIT_FSIZE, _MOST_WRITTEN)):
            hard = resource.getrlimit(kind)[1]
            resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), extra_buffers=None if sys.argv[2] == "1" else False))
