"""Draft models as GGUF files: read as numbers, and written with some matrices in place of others."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from app.forge.files.copying import write_copy
from app.forge.files.reading import Matrix
from models.errors import ModelFileError
from models.gguf.file import parts_of

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
            for part in parts_of(path)
            for tensor in GGUFReader(part).tensors
        }
    except (NotImplementedError, KeyError) as error:
        raise ModelFileError(
            f"The weights of {path.name} can't be read as numbers.", cause=str(error), hint="Use a copy in Q8_0."
        ) from error


def write_model(path: Path, source: Path, changed: Mapping[str, Matrix], kind: str) -> None:
    """Write a model as another one, with changed matrices of the type `kind`: "q8_0", "q4_0" or "f32".

    Rows that are no whole blocks of that type are written as f32. Raises OSError, and then leaves no file.
    """
    from gguf import GGMLQuantizationType
    from gguf.quants import quantize

    packed = GGMLQuantizationType[kind.upper()]

    def change(name: str, data: Any, stored: Any) -> tuple[str, Any, Any]:
        if name not in changed:
            return name, data, stored
        values = changed[name]
        used = packed if values.shape[-1] % 32 == 0 else GGMLQuantizationType.F32
        return name, quantize(values, used), used

    write_copy(path, source, {"general.file_type": _FILE_TYPES[kind]}, change)
