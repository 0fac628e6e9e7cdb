"""Tensors of a GGUF file as they are stored there, read without the engine."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.errors import ModelFileError
from models.gguf.header import Header, Tensor, read_header, read_model
from models.gguf.quantisation import TENSOR_TYPES

_CODES = {kind.name: code for code, kind in TENSOR_TYPES.items()}
_PLAIN = {"F32": np.float32, "I32": np.int32, "I64": np.int64}
"""Types whose numbers are stored as they are."""


@dataclass(frozen=True, slots=True)
class StoredMatrix:
    """A matrix in the blocks of its file."""

    code: int
    """Number of its type, as in the file."""
    length: int
    """Numbers of a row."""
    blocks: NDArray[np.uint8]
    """Shape (rows, bytes of a row)."""

    def chosen(self, rows: NDArray[np.int64]) -> "StoredMatrix":
        """Return a copy of some rows, in their order."""
        return StoredMatrix(self.code, self.length, np.ascontiguousarray(self.blocks[rows]))


def stored_matrix(path: Path, *names: str) -> StoredMatrix:
    """Return the first of some matrices that a model has, a view of its file; raises ModelFileError for none.

    A split model is looked through part by part.
    """
    for name in names:
        for part in read_model(path).parts:
            header = read_header(part)
            tensor = next((each for each in header.tensors if each.name == name), None)
            if tensor is not None:
                return _matrix(header, tensor)
    raise ModelFileError(f"{path.name} has no tensor {names[0]}.", hint="Fetch another copy of it.")


def stored_numbers(path: Path, name: str) -> NDArray[np.generic]:
    """Return the numbers of a tensor of type F32, I32 or I64, of one dimension; raises ModelFileError for none."""
    header = read_header(path)
    tensor = next((each for each in header.tensors if each.name == name), None)
    if tensor is None or tensor.type not in _PLAIN:
        raise ModelFileError(f"{path.name} has no tensor {name} of plain numbers.", hint="Make it again.")
    return _bytes(header, tensor).view(_PLAIN[tensor.type])


def _matrix(header: Header, tensor: Tensor) -> StoredMatrix:
    kind = TENSOR_TYPES[_CODES[tensor.type]]
    length = tensor.elements // tensor.rows
    blocks = _bytes(header, tensor).reshape(tensor.rows, length // kind.block * kind.size)
    return StoredMatrix(_CODES[tensor.type], length, blocks)


def _bytes(header: Header, tensor: Tensor) -> NDArray[np.uint8]:
    start = header.weights + tensor.offset
    try:
        return np.memmap(header.path, np.uint8, "r", start, tensor.size)
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{header.path} can't be read.", cause=str(error), hint="Try again.") from error
