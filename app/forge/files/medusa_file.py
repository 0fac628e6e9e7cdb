"""Medusa heads as a GGUF file of localspec's own kind, written by the gguf package and put in place whole.

llama.cpp has no architecture `medusa`. Keys and tensors are those that `models.heads.medusa.network` reads.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from app.forge.files.writing import whole_gguf
from models.gguf.block_heads import MEDUSA
from models.heads.medusa.network import BIASES, KEPT, MATRICES, NORM

Matrix = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class MedusaFile:
    """Contents of a file: K heads for rows of E numbers."""

    linear: Matrix
    """Matrices beside the gates, shape (K, E, E)."""
    gates: Matrix
    """Matrices within the gates, shape (K, E, E)."""
    biases: Matrix
    """Shape (K, E)."""
    norm: Matrix
    """Weights of the target's last norm, by which its rows are read, shape (E,)."""
    epsilon: float
    kept: NDArray[np.int64]
    """Tokens that they draft, ascending."""
    layers: int
    """Layers of the target."""
    scale: float = 1.0
    """Factor of the logits, which makes up for a norm that is not the target's own."""


def write_medusa(path: Path, heads: MedusaFile, digest: str, kind: str) -> None:
    """Write heads for the target with a fingerprint; `kind` is "q8_0", "q4_0" or "f32" for the matrices.

    Raises OSError, and then leaves no file.
    """
    from gguf import GGMLQuantizationType
    from gguf.quants import quantize

    packed, (count, width) = GGMLQuantizationType[kind.upper()], heads.biases.shape
    matrices = np.stack((heads.linear, heads.gates), axis=1).reshape(2 * count * width, width).astype(np.float32)
    with whole_gguf(path, MEDUSA) as file:
        file.add_embedding_length(width)
        file.add_layer_norm_rms_eps(heads.epsilon)
        file.add_uint32(f"{MEDUSA}.heads", count)
        file.add_float32(f"{MEDUSA}.logit_scale", heads.scale)
        file.add_array(f"{MEDUSA}.target_layers", [heads.layers])
        file.add_uint32(f"{MEDUSA}.target_hidden_size", width)
        file.add_string(f"{MEDUSA}.target_fingerprint", digest)
        file.add_tensor(MATRICES, quantize(matrices, packed), raw_dtype=packed)
        file.add_tensor(BIASES, heads.biases.astype(np.float32))
        file.add_tensor(NORM, heads.norm.astype(np.float32))
        file.add_tensor(KEPT, heads.kept.astype(np.int64))
