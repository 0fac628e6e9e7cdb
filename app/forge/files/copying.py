"""Files that are a part of another model: its keys, some of them changed, and some of its tensors, bit by bit."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from app.forge.files.writing import whole_gguf
from models.gguf.file import parts_of

Change = Callable[[str, Any, Any], tuple[str, Any, Any] | None]
"""Takes a tensor: name, data as stored, shape (..., rows, bytes or numbers), type. Returns them, None: left out."""
_NOT_COPIED = ("GGUF.", "split.", "general.architecture", "general.alignment")
"""Beginnings of keys that the writer writes itself, and of those that do not hold for the copy."""


def write_copy(path: Path, source: Path, values: Mapping[str, Any], change: Change) -> None:
    """Write a copy of a model, of a split one as a single file; raises OSError, and then leaves no file.

    `values` are keys with other values: whole numbers, or lists of what the key has in the source, or of whole numbers
    where it is new.
    """
    from gguf import GGUFReader, GGUFValueType

    readers = [GGUFReader(part) for part in parts_of(source)]
    fields = readers[0].fields
    with whole_gguf(path, fields["general.architecture"].contents()) as file:
        for name, field in fields.items():
            if not name.startswith(_NOT_COPIED):
                inner = field.types[-1] if len(field.types) > 1 else None
                value = values[name] if name in values else field.contents()
                file.add_key_value(name, value, field.types[0], sub_type=inner)
        for name in values.keys() - fields.keys():
            file.add_key_value(name, values[name], GGUFValueType.ARRAY, sub_type=GGUFValueType.INT32)
        for tensor in (each for reader in readers for each in reader.tensors):
            if (changed := change(tensor.name, tensor.data, tensor.tensor_type)) is not None:
                name, data, kind = changed
                file.add_tensor(name, data, raw_dtype=kind)
