"""Draft models as GGUF files: read as numbers, and written with some matrices in place of others."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from app.forge.files.reading import Matrix
from models.errors import ModelFileError

_FILE_TYPES = {"q8_0": 7, "q4_0": 2, "f32": 0}
"""Numbers of `general.file_type`."""


def numbers_of(path: Path) -> dict[str, Matrix]:
    """Return all tensors of a file as numbers, by their names; raises ModelFileError for types of another program."""
    from gguf import GGUFReader
    from gguf.quants import dequantize

    try:
        return {
            # Copies, as a tensor that holds numbers as they are would be a view of the file.
            tensor.name: np.array(dequantize(tensor.data, tensor.tensor_type), np.float32)
            for tensor in GGUFReader(path).tensors
        }
    except (NotImplementedError, KeyError) as error:
        raise ModelFileError(
            f"The weights of {path.name} can't be read as numbers.", cause=str(error), hint="Use a copy in Q8_0."
        ) from error


def write_model(path: Path, source: Path, changed: Mapping[str, Matrix], kind: str) -> None:
    """Write a model as another one, with changed matrices of the type `kind`: "q8_0", "q4_0" or "f32".

    Rows that are no whole blocks of that type are written as f32. Raises OSError, and then leaves no file.
    """
    from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter
    from gguf.quants import quantize

    reader, packed = GGUFReader(source), GGMLQuantizationType[kind.upper()]
    partial = path.with_suffix(".partial")
    file = GGUFWriter(partial, str(reader.fields["general.architecture"].contents()))
    try:
        _copy_keys(file, reader)
        file.add_uint32("general.file_type", _FILE_TYPES[kind])
        for tensor in reader.tensors:
            if tensor.name not in changed:
                file.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
                continue
            values = changed[tensor.name]
            used = packed if values.shape[-1] % 32 == 0 else GGMLQuantizationType.F32
            file.add_tensor(tensor.name, quantize(values, used), raw_dtype=used)
        file.write_header_to_file()
        file.write_kv_data_to_file()
        file.write_tensors_to_file()
        file.close()
        partial.replace(path)
    except BaseException:
        with suppress(OSError):
            file.close()
        partial.unlink(missing_ok=True)
        raise


def _copy_keys(file: Any, reader: Any) -> None:
    """Copy all keys of a file but those that are written anew."""
    for name, field in reader.fields.items():
        if not name.startswith(("GGUF.", "general.architecture", "general.file_type", "general.alignment")):
            inner = field.types[-1] if len(field.types) > 1 else None
            file.add_key_value(name, field.contents(), field.types[0], sub_type=inner)
