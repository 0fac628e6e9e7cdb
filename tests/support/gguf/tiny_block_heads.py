"""Tiny heads that draft a block in one pass: DFlash, DFlash2, DSpark, with random weights or with computed ones.

The computed head drafts its first token by the pending token alone: each token of a block attends to the token before
it, and the values of that attention are a linear prediction of the target's last hidden row from an embedding. Where a
target's own layers add little, that is right rather often.
"""

from collections.abc import Sequence
from math import sqrt
from pathlib import Path

import numpy as np
import tiny_gguf as tiny
from closed_form_head import Matrix, copy_vocabulary, embedding, normed, recorded, regression
from gguf import GGUFReader

BLOCK = 8
"""Tokens of a block: the pending one, and up to seven to draft."""
MASK = 268
"""Token that stands for each token to draft: one of the vocabulary's last, as such files have it."""
_CANDIDATES, _RANK, _KERNEL, _GROUP = 7, 8, 3, 16
_SHARP = 60.0
"""Largest score of the computed attention: it falls by half at the neighbour."""


def write_block_head(
    path: Path,
    target: Path,
    layers: Sequence[int],
    *,
    kind: str = "dflash",
    seed: int = 2,
    n_ctx: int = 512,
    n_layer: int = 2,
    n_embd: int = 64,
    sections: bool = False,
    after: bool = False,
    kept: Sequence[int] = (),
) -> Path:
    """Write a head of random weights for a target; return `path`.

    `kind` is dflash, dflash2 or dspark. With `sections` its positions have four parts; with `after` the first draft
    token of a DSpark head is at the first mask; with `kept` it drafts these tokens alone.
    """
    with tiny._tiny_file(path, "dflash", seed=seed) as file:
        _keys(file, target, layers, n_ctx, n_layer, n_embd)
        if sections:
            file.keys.add_rope_dimension_sections([n_embd // tiny._HEADS // 2, 0, 0, 0])
        if after:
            file.keys.add_bool("dflash.sample_from_anchor", False)
        _ends(file, len(layers), n_embd)
        for layer in (f"blk.{index}" for index in range(n_layer)):
            _attention(file, layer, n_embd)
            tiny._feed_forward(file, layer, n_embd)
            for part in "qk":
                file.norm(f"{layer}.attn_{part}_norm", n_embd // tiny._HEADS, gain=1.5)
            if kind == "dflash2":
                _convolutions(file, layer, n_embd)
        vocabulary = len(kept) or _vocabulary(target)
        if kept:
            file.matrix("output", vocabulary, n_embd)
            file.keys.add_tensor("d2t", np.array(kept, np.int64))
        if kind == "dspark":
            file.matrix("markov_w1", _vocabulary(target), _RANK, gain=2)
            file.matrix("markov_w2", vocabulary, _RANK, gain=2)
        if kind == "dflash2":
            _selector(file, vocabulary, n_embd)
    return path


def write_computed_block_head(path: Path, target: Path, tokens: Sequence[int], layers: Sequence[int]) -> Path:
    """Write the DFlash head of a target that predicts its rows from embeddings, by some tokens; return `path`."""
    _, hidden = recorded(target, tokens, layers)
    table = embedding(target)
    width, size = table.shape[1], table.shape[1] // tiny._HEADS
    constant = table.copy()
    # The key of the computed attention is this number, which all tokens have.
    constant[:, 0] = np.sqrt(np.mean(table**2))
    predicted = regression(normed(constant[np.asarray(tokens[: len(hidden)])]), hidden)
    with tiny._tiny_file(path, "dflash", seed=3) as file:
        _keys(file, target, layers, 1024, 1, width, kv=tiny._HEADS)
        # What the target's layers give has no such number, so it gets a score of 0.
        without = np.ones(width, np.float32)
        without[0] = 0
        file.values("enc.output_norm.weight", without)
        file.matrix("fc", width, len(layers) * width)
        file.values("output_norm.weight", np.ones(width, np.float32))
        file.values("token_embd.weight", constant)
        file.values("output.weight", table)
        _neighbour_attention(file, predicted, size)
        for name, shape in {"ffn_gate": (width, width), "ffn_up": (width, width), "ffn_down": (width, width)}.items():
            file.values(f"blk.0.{name}.weight", np.zeros(shape, np.float32))
        file.norm("blk.0.ffn_norm", width)
    return path


def _neighbour_attention(file: tiny._TinyFile, predicted: Matrix, size: int) -> None:
    """Let each token attend to the one before it, and hand on what that one's embedding predicts."""
    width = len(predicted)
    key, query = np.zeros((width, width), np.float32), np.zeros((width, width), np.float32)
    for head in range(0, width, size):
        key[head, 0] = 1
        # Turned by one place, the first pair of numbers of a query is that of a key.
        query[head, 0], query[head + size // 2, 0] = np.cos(-1), np.sin(-1)
    file.values("blk.0.attn_k.weight", key)
    file.values("blk.0.attn_q.weight", query)
    file.values("blk.0.attn_v.weight", np.eye(width, dtype=np.float32))
    file.values("blk.0.attn_output.weight", 100 * predicted)
    file.norm("blk.0.attn_norm", width)
    for part in "qk":
        # Both are normed to a mean square of 1, and their product is divided by the root of their size.
        file.norm(f"blk.0.attn_{part}_norm", size, gain=sqrt(_SHARP / sqrt(size)))


def _keys(
    file: tiny._TinyFile,
    target: Path,
    layers: Sequence[int],
    n_ctx: int,
    n_layer: int,
    n_embd: int,
    kv: int = tiny._HEADS_KV,
) -> None:
    file.sizes(n_ctx, n_layer, n_embd)
    file.heads(kv)
    file.keys.add_feed_forward_length(n_embd if kv == tiny._HEADS else 2 * n_embd)
    file.keys.add_rope_dimension_count(n_embd // tiny._HEADS)
    file.keys.add_array("dflash.target_layers", list(layers))
    file.keys.add_uint32("dflash.block_size", BLOCK)
    copy_vocabulary(file.keys, target)
    file.keys.add_mask_token_id(MASK)


def _attention(file: tiny._TinyFile, layer: str, n_embd: int) -> None:
    n_kv = n_embd // tiny._HEADS * tiny._HEADS_KV
    file.norm(f"{layer}.attn_norm", n_embd)
    file.matrix(f"{layer}.attn_q", n_embd, n_embd, gain=1.5)
    file.matrix(f"{layer}.attn_k", n_kv, n_embd, gain=1.5)
    file.matrix(f"{layer}.attn_v", n_kv, n_embd)
    # Else the mask's own embedding would win at every place.
    file.matrix(f"{layer}.attn_output", n_embd, n_embd, gain=40)


def _ends(file: tiny._TinyFile, layers: int, n_embd: int) -> None:
    file.matrix("fc", n_embd, layers * n_embd)
    file.norm("enc.output_norm", n_embd)
    file.norm("output_norm", n_embd, gain=0.5)


def _convolutions(file: tiny._TinyFile, layer: str, n_embd: int) -> None:
    projected = 2 * _KERNEL * (n_embd // _GROUP)
    for part in ("attn", "ffn"):
        base = np.zeros((2, _KERNEL, n_embd), np.float32)
        base[:, 0] = 1
        file.values(f"{layer}.{part}_conv_base", base)
        file.matrix(f"{layer}.{part}_conv_proj", projected, n_embd, gain=0.2)


def _selector(file: tiny._TinyFile, vocabulary: int, n_embd: int) -> None:
    keys = file.keys
    keys.add_uint32("dflash.conv_kernel_size", _KERNEL)
    keys.add_uint32("dflash.conv_group_size", _GROUP)
    keys.add_uint32("dflash.selector_rank", _RANK)
    keys.add_uint32("dflash.selector_top_k", _CANDIDATES)
    file.matrix("selector_predecessor", vocabulary, _RANK, gain=sqrt(_RANK))
    file.matrix("selector_successor", vocabulary, _RANK, gain=sqrt(_RANK))
    file.matrix("selector_hidden", _RANK, n_embd, gain=3)


def _vocabulary(target: Path) -> int:
    return len(GGUFReader(target).fields["tokenizer.ggml.tokens"].data)
