"""Identity of a model's cache: equal where a state that one process has written is right for another."""

import hashlib
from dataclasses import fields
from pathlib import Path

from models.gguf.fingerprint import fingerprint
from models.llama.bindings import VERSION, kernels
from models.llama.model import LlamaModel
from models.system.machine import machine_id

_NEUTRAL = frozenset(
    {"context_size", "threads", "batch_threads", "batch_size", "max_rows", "screens", "heads", "lock", "texts"}
)
"""Options that change no number in a cache."""


def identity_of(model: LlamaModel) -> bytes:
    """Return the identity of what a model writes into its cache: file, engine, kernels, machine and options.

    An option that is not known to be neutral counts. Raises ModelFileError for a file that is gone.
    """
    options = [
        (field.name, _stamp(getattr(model.options, field.name)))
        for field in fields(model.options)
        if field.name not in _NEUTRAL
    ]
    parts = (
        fingerprint(model.path).digest,
        VERSION,
        machine_id(),
        sorted(kernels().types),
        [str(kind) for kind in model.cache_types],
        sorted(options),
    )
    return hashlib.sha256(repr(parts).encode()).digest()


def _stamp(value: object) -> str:
    """Return a value as text, files in it with size and time of change: a file may be replaced under its name."""
    if isinstance(value, Path):
        try:
            found = value.stat()
        except OSError:
            return f"{value} (missing)"
        return f"{value} {found.st_size} {found.st_mtime_ns}"
    if isinstance(value, tuple | list):
        return repr([_stamp(one) for one in value])
    return repr(value)
