"""Shape of heads that draft a block of tokens in one pass: DFlash, DFlash2, DSpark and Medusa, by their headers."""

from collections.abc import Sequence
from dataclasses import dataclass

from models.gguf.header import Header

KIND, MEDUSA = "dflash", "medusa"
"""Architectures of their files."""
_MOST_HEADS = 16
"""Medusa heads beyond which a header is wrong."""
_USUAL_BLOCK = 16
"""Block size of a file that names none."""
_ACTIVATIONS = ("", "silu", "gelu", "gelu_pytorch_tanh")


@dataclass(frozen=True, slots=True)
class BlockShape:
    """What such a head reads and returns in one pass."""

    longest: int
    """Most tokens of a draft."""
    mask: int
    """Token that stands for each token to draft."""
    from_anchor: bool
    """Whether the pending token's place predicts the first draft token; else the first mask's place does (DFlash)."""
    causal: bool
    """Whether tokens of a block attend to earlier ones of it alone."""
    candidates: int
    """Tokens that a selector scores at each place (DFlash2); 0: there is a row of logits for each place."""
    sections: int
    """Positions of each row of the target: 4 where its rotary embedding has sections, else 1."""


def block_shape(header: Header) -> BlockShape:
    """Return the shape of a head in such a file."""
    chained = _has(header, "markov_w1.weight")
    from_anchor = chained and header.truth(f"{KIND}.sample_from_anchor") is not False
    size = header.number(f"{KIND}.block_size") or _USUAL_BLOCK
    return BlockShape(
        longest=size if from_anchor else size - 1,
        mask=header.number("tokenizer.ggml.mask_token_id") or 0,
        from_anchor=from_anchor,
        causal=header.truth(f"{KIND}.attention.causal") is True,
        candidates=(header.number(f"{KIND}.selector_top_k") or 0) if _has(header, "selector_hidden.weight") else 0,
        sections=4 if any(header.whole_numbers(f"{KIND}.rope.dimension_sections")) else 1,
    )


def medusa_shape(header: Header) -> BlockShape:
    """Return the shape of Medusa heads: one for each place of a draft, and no tokens to read."""
    return BlockShape(
        header.number(f"{MEDUSA}.heads") or 0, mask=0, from_anchor=True, causal=False, candidates=0, sections=1
    )


def medusa_faults(header: Header, width: int) -> list[str]:
    """Return why Medusa heads can't be used with any target; `width` are the numbers of a hidden row."""
    tensors, heads = {tensor.name: tensor for tensor in header.tensors}, header.number(f"{MEDUSA}.heads") or 0
    faults = []
    if not 1 <= heads <= _MOST_HEADS or not width:
        faults.append(f"it says that it has {heads} heads for rows of {width} numbers")
    wanted = {"heads.weight": 2 * heads * width * width, "heads.bias": heads * width, "output_norm.weight": width}
    faults += [
        f"its tensor {name} does not have the size that its header says"
        for name, elements in wanted.items()
        if name not in tensors or tensors[name].elements != elements
    ]
    if "d2t" not in tensors or tensors["d2t"].type != "I64" or not tensors["d2t"].elements:
        faults.append("it names no tokens that it drafts (d2t)")
    if not header.text(f"{MEDUSA}.target_fingerprint"):
        faults.append(f"it does not name its target ({MEDUSA}.target_fingerprint)")
    return faults


def block_title(header: Header) -> str:
    """Return the name of the method of such a file."""
    if _has(header, "markov_w1.weight"):
        return "a DSpark head"
    return "a DFlash2 head" if _has(header, "selector_hidden.weight") else "a DFlash head"


def block_faults(header: Header, layers: Sequence[int], width: int) -> list[str]:
    """Return why a head can't be used with any target: what llama.cpp asserts, or does not support.

    `layers` are those of the target that it reads, `width` the numbers of its own hidden rows.
    """
    faults = []
    if (header.number(f"{KIND}.hyper_connection.count") or 0) > 0:
        faults.append("DSpark heads of DeepSeek-V4 are not supported")
    if not layers:
        faults.append("it names no layers of its target")
    if min(layers, default=0) < 0:
        faults.append("it names a layer below 0")
    if header.number("tokenizer.ggml.mask_token_id") is None:
        faults.append("it names no mask token (tokenizer.ggml.mask_token_id)")
    if block_shape(header).longest < 1:
        faults.append("its blocks have no room for a draft")
    if _has(header, "markov_w1.weight") and header.number(f"{KIND}.block_size") is None:
        faults.append("it names no block size")
    if header.text(f"{KIND}.hidden_activation") not in _ACTIVATIONS:
        faults.append(f"its activation {header.text(f'{KIND}.hidden_activation')} is not supported")
    fused = next((tensor for tensor in header.tensors if tensor.name == "fc.weight"), None)
    if fused is None or not width or fused.elements != len(layers) * width * width:
        faults.append("its matrix fc.weight does not have the size that its header says")
    if not _has(header, "enc.output_norm.weight") or not _has(header, "output_norm.weight"):
        faults.append("its norms are missing")
    key, value = (header.number(f"{KIND}.attention.{part}_length") for part in ("key", "value"))
    if key != value:
        faults.append("the keys and values of its attention have different sizes")
    return faults


def _has(header: Header, name: str) -> bool:
    return any(tensor.name == name for tensor in header.tensors)
