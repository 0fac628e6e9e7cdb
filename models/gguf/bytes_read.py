"""Bytes of a model that one token reads: decoding is bound by memory, so they determine the cost of a token."""

import re

from models.gguf.header import Header, Tensor

_LOOKED_UP = re.compile(r"(?:per_layer_)?token_embd\.weight|position_embd\.weight|token_types\.weight")
"""Tables of which a token reads one row."""
_TIED = "token_embd.weight"
_OUTPUT = "output.weight"
_EXPERTS = re.compile(r"_exps\.(?:weight|bias)$")
"""Tensors that hold all experts of a layer, of which a token reads some."""


def bytes_a_token(header: Header) -> float:
    """Return the bytes of weights that a one-token pass reads: no table of embeddings, and only the experts it uses."""
    return sum(read_a_token(header).values())


def read_a_token(header: Header) -> dict[Tensor, float]:
    """Return the bytes that a one-token pass reads of each tensor."""
    tied = all(tensor.name != _OUTPUT for tensor in header.tensors)
    used = _share_of_experts(header)
    return {tensor: _share_read(tensor, used, tied=tied) * tensor.size for tensor in header.tensors}


def _share_read(tensor: Tensor, used: float, *, tied: bool) -> float:
    if tied and tensor.name == _TIED:
        # It is the output's matrix as well, and that is read whole.
        return 1.0
    if _LOOKED_UP.fullmatch(tensor.name):
        return 0.0
    return used if _EXPERTS.search(tensor.name) else 1.0


def _share_of_experts(header: Header) -> float:
    architecture = header.text("general.architecture")
    every = header.number(f"{architecture}.expert_count") or 0
    used = header.number(f"{architecture}.expert_used_count") or 0
    return used / every if 0 < used < every else 1.0
