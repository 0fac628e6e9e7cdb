"""Tiny LoRA adapters for the files of `tiny_gguf`, and files that only look like one."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from gguf import GGUFWriter

RANK = 4


def write_adapter(
    path: Path,
    *,
    architecture: str = "llama",
    seed: int = 0,
    n_embd: int = 64,
    gain: float = 0.5,
    matrices: Sequence[str] = ("blk.0.attn_q", "blk.1.attn_output"),
    parts: str = "ab",
    kind: str = "lora",
    general: str = "adapter",
    columns: int = 0,
) -> Path:
    """Write an adapter that changes square matrices of a model; return `path`."""
    keys, draw = GGUFWriter(path, architecture), np.random.default_rng(seed)
    keys.add_type(general)
    keys.add_string("adapter.type", kind)
    keys.add_float32("adapter.lora.alpha", RANK)
    for name in matrices:
        first = draw.standard_normal((RANK, columns or n_embd)) / np.sqrt(n_embd)
        second = draw.standard_normal((n_embd, RANK)) * gain
        for part, values in (("a", first), ("b", second)):
            if part in parts:
                keys.add_tensor(f"{name}.weight.lora_{part}", values.astype(np.float32))
    keys.write_header_to_file()
    keys.write_kv_data_to_file()
    keys.write_tensors_to_file()
    keys.close()
    return path
