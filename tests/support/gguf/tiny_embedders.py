"""Tiny models for embeddings with random weights: a llama that pools, and a bert."""

from math import sqrt
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import tiny_gguf as tiny
from gguf import PoolingType, TokenType

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_START = "\N{LOWER ONE EIGHTH BLOCK}"
_WORDS = (*_SPECIAL, *(f"{_START}{letter}" for letter in ascii_lowercase), *ascii_lowercase)


def write_pooled(path: Path, pooling: int, *, n_ctx: int = 512, n_layer: int = 2, n_embd: int = 64) -> Path:
    """Write a llama whose header names a pooling; return `path`."""
    with tiny._tiny_file(path, "llama", seed=3) as file:
        file.sizes(n_ctx, n_layer, n_embd)
        file.heads()
        file.keys.add_feed_forward_length(2 * n_embd)
        file.keys.add_rope_dimension_count(n_embd // tiny._HEADS)
        file.keys.add_pooling_type(PoolingType(pooling))
        tiny._tokenizer(file.keys)
        for layer in (f"blk.{index}" for index in range(n_layer)):
            tiny._attention(file, layer, n_embd)
            tiny._feed_forward(file, layer, n_embd)
        file.ends(len(tiny.TOKENS), n_embd, gain=sqrt(n_embd))
    return path


def write_bert(path: Path, *, n_ctx: int = 128, n_layer: int = 2, n_embd: int = 64) -> Path:
    """Write a bert, which reads letters and pools its first token; return `path`."""
    with tiny._tiny_file(path, "bert", seed=4) as file:
        keys = file.keys
        keys.add_context_length(n_ctx)
        keys.add_block_count(n_layer)
        keys.add_embedding_length(n_embd)
        keys.add_feed_forward_length(2 * n_embd)
        keys.add_head_count(tiny._HEADS)
        keys.add_layer_norm_eps(1e-12)
        keys.add_causal_attention(False)
        keys.add_pooling_type(PoolingType.CLS)
        keys.add_token_type_count(2)
        _words(file)
        file.matrix("token_embd", len(_WORDS), n_embd)
        file.kernel("token_types", 2, n_embd)
        file.kernel("position_embd", n_ctx, n_embd)
        _norm(file, "token_embd_norm", n_embd)
        for layer in (f"blk.{index}" for index in range(n_layer)):
            _layer(file, layer, n_embd)
    return path


def _words(file: tiny._TinyFile) -> None:
    keys = file.keys
    keys.add_tokenizer_model("bert")
    keys.add_token_list(_WORDS)
    keys.add_token_types([TokenType.CONTROL if token in _SPECIAL else TokenType.NORMAL for token in _WORDS])
    keys.add_pad_token_id(0)
    keys.add_unk_token_id(1)
    keys.add_bos_token_id(2)
    keys.add_sep_token_id(3)
    keys.add_mask_token_id(4)


def _layer(file: tiny._TinyFile, layer: str, n_embd: int) -> None:
    for part in ("q", "k", "v", "output"):
        file.matrix(f"{layer}.attn_{part}", n_embd, n_embd)
    file.matrix(f"{layer}.ffn_up", 2 * n_embd, n_embd)
    file.matrix(f"{layer}.ffn_down", n_embd, 2 * n_embd)
    _norm(file, f"{layer}.attn_output_norm", n_embd)
    _norm(file, f"{layer}.layer_output_norm", n_embd)


def _norm(file: tiny._TinyFile, name: str, size: int) -> None:
    file.norm(name, size)
    file.values(f"{name}.bias", np.zeros(size, np.float32))
