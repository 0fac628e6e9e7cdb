"""Files of EAGLE-3 heads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from app.forge.files.reading import Matrix, copy_vocabulary
from app.forge.files.writing import whole_gguf

_NORMS = ("output_norm", "blk.0.attn_norm", "blk.0.attn_norm_2", "blk.0.ffn_norm")


@dataclass(frozen=True, slots=True)
class HeadSizes:
    """Sizes and settings of a head's file."""

    width: int
    """Numbers of a hidden row, of the target too."""
    feed_forward: int
    heads: int
    context: int
    epsilon: float
    base: float
    """Base of the rotary embedding."""
    layers: tuple[int, int, int]
    """Layers of the target whose inputs it reads."""


def write_head(
    path: Path,
    target: Path,
    sizes: HeadSizes,
    tensors: Mapping[str, Matrix],
    kept: Sequence[int],
    kind: str,
) -> None:
    """Write a head's tensors, by their names without ".weight"; `kept` are the tokens of its output matrix.

    `kind` is "q8_0" or "q4_0" for the matrices. Raises OSError, and then leaves no file.
    """
    from gguf import GGMLQuantizationType
    from gguf.quants import quantize

    packed = GGMLQuantizationType[kind.upper()]
    with whole_gguf(path, "eagle3") as file:
        file.add_block_count(1)
        file.add_context_length(sizes.context)
        file.add_embedding_length(sizes.width)
        file.add_feed_forward_length(sizes.feed_forward)
        file.add_head_count(sizes.heads)
        file.add_head_count_kv(sizes.heads)
        file.add_rope_dimension_count(sizes.width // sizes.heads)
        file.add_rope_freq_base(sizes.base)
        file.add_layer_norm_rms_eps(sizes.epsilon)
        file.add_array("eagle3.target_layers", list(sizes.layers))
        file.add_uint32("eagle3.target_hidden_size", sizes.width)
        copy_vocabulary(file, target)
        for name, values in tensors.items():
            if name in _NORMS:
                file.add_tensor(f"{name}.weight", values.astype(np.float32))
            else:
                file.add_tensor(f"{name}.weight", quantize(values.astype(np.float32), packed), raw_dtype=packed)
        file.add_tensor("d2t", np.array(kept, np.int64))
