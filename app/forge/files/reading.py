"""Tensors and vocabularies of GGUF files, read by the gguf package."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.gguf.file import parts_of

Matrix = NDArray[np.float32]


def matrix_of(path: Path, *names: str) -> Matrix:
    """Return the first of some tensors that a file has, as numbers; shape (rows, columns). Raises KeyError."""
    from gguf import GGUFReader
    from gguf.quants import dequantize

    tensors = {tensor.name: tensor for part in parts_of(path) for tensor in GGUFReader(part).tensors}
    for name in names:
        if name in tensors:
            # A copy, as rows of a file that holds numbers as they are would be a view of the file.
            found: Matrix = np.array(dequantize(tensors[name].data, tensors[name].tensor_type), np.float32)
            return found
    raise KeyError(names[0])


def copy_vocabulary(file: Any, target: Path) -> None:
    """Copy the tokenizer of a target's file."""
    from gguf import GGUFReader

    for name, field in GGUFReader(target).fields.items():
        if name.startswith("tokenizer.ggml."):
            inner = field.types[-1] if len(field.types) > 1 else None
            file.add_key_value(name, field.contents(), field.types[0], sub_type=inner)
