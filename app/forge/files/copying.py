"""Files that are a part of another model: its keys, some of them changed, and some of its tensors, bit by bit."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from models.gguf.file import parts_of

Change = Callable[[str, Any], tuple[str, Any] | None]
"""Takes name and data of a tensor as stored, shape (..., rows, bytes or numbers); returns both, or None: left out."""
_NOT_COPIED = ("GGUF.", "split.", "general.architecture", "general.alignment")
"""Beginnings of keys that the writer writes itself, and of those that do not hold for the copy."""


def write_copy(path: Path, source: Path, values: Mapping[str, Any], change: Change) -> None:
    """Write a copy of a model, of a split one as a single file; raises OSError, and then leaves no file.

    `values` are keys with other values: whole numbers, or lists of what the key has in the source, or of whole numbers
    where it is new.
    """
    from gguf import GGUFReader, GGUFValueType, GGUFWriter

    readers = [GGUFReader(part) for part in parts_of(source)]
    fields = readers[0].fields
    partial = path.with_suffix(".partial")
    file = GGUFWriter(partial, fields["general.architecture"].contents())
    try:
        for name, field in fields.items():
            if not name.startswith(_NOT_COPIED):
                inner = field.types[-1] if len(field.types) > 1 else None
                value = values[name] if name in values else field.contents()
                file.add_key_value(name, value, field.types[0], sub_type=inner)
        for name in values.keys() - fields.keys():
            file.add_key_value(name, values[name], GGUFValueType.ARRAY, sub_type=GGUFValueType.INT32)
        for tensor in (each for reader in readers for each in reader.tensors):
            if (changed := change(tensor.name, tensor.data)) is not None:
                file.add_tensor(*changed, raw_dtype=tensor.tensor_type)
        file.write_header_to_file()
        file.write_kv_data_to_file()
        file.write_tensors_to_file()
        file.close()
        partial.replace(path)
    except BaseException:
        file.close()
        partial.unlink(missing_ok=True)
        raise
