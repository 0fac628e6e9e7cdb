"""Sizes of a draft model that can be trained, read from its header, with every reason against one that can't be."""

import re
from pathlib import Path

from app.forge.training.projections import PROJECTIONS
from models.gguf.header import Header, read_model

ARCHITECTURES = ("llama", "qwen2")
"""Architectures whose graph the training knows."""
_PARTS = "|".join((*PROJECTIONS, "attn_norm", "ffn_norm"))
_KNOWN = re.compile(
    rf"token_embd\.weight|output\.weight|output_norm\.weight|rope_freqs\.weight|blk\.\d+\.(?:{_PARTS})\.(?:weight|bias)"
)
"""Names of tensors that it knows."""


def reasons_against(path: Path) -> list[str]:
    """Return why a draft model can't be trained; [] for one that can."""
    header = read_model(path)
    architecture = header.text("general.architecture")
    if architecture not in ARCHITECTURES:
        return [f"its architecture is {architecture}; {' and '.join(ARCHITECTURES)} can be trained"]
    reasons = []
    if len(header.parts) > 1:
        reasons.append(f"it is split into {len(header.parts)} files")
    if other := [tensor.name for tensor in header.tensors if _KNOWN.fullmatch(tensor.name) is None]:
        reasons.append(f"it has tensors that are not understood, such as {other[0]}")
    if any(len(set(_each(header, key))) > 1 for key in ("attention.head_count", "attention.head_count_kv")):
        reasons.append("its layers have different numbers of heads")
    return reasons


def parameters_of(path: Path) -> int:
    """Return the number of a model's weights."""
    return sum(tensor.elements for tensor in read_model(path).tensors)


def number(header: Header, key: str, usual: float) -> float:
    """Return a number of a header under its architecture, or the usual one."""
    value = header.values.get(f"{header.text('general.architecture')}.{key}")
    return float(value) if isinstance(value, int | float) and value > 0 else usual


def _each(header: Header, key: str) -> list[int]:
    return header.whole_numbers(f"{header.text('general.architecture')}.{key}")
