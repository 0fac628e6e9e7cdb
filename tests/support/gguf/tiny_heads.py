"""Tiny targets with a layer that drafts further tokens, and such layers in files of their own, with random weights.

With `copies` the drafting layer hands the embedding of its token through, and the target's own layers add little: both
then predict nearly the same, and many drafts are accepted.
"""

from math import sqrt
from pathlib import Path

import numpy as np
import tiny_gguf as tiny

_STATE, _KEY_HEADS, _VALUE_HEADS, _CONV = 32, 2, 4, 4


def write_hybrid_with_head(
    path: Path,
    *,
    seed: int = 0,
    n_ctx: int = 512,
    n_layer: int = 2,
    n_embd: int = 64,
    copies: bool = True,
    head_alone: bool = False,
    chat_template: str = "",
) -> Path:
    """Write a qwen35: recurrent layers, a layer of attention, and one that drafts; return `path`.

    With `head_alone` the drafting layer has the file for itself, beside the embedding.
    """
    gain = 0.15 if copies else 2.0
    with tiny._tiny_file(path, "qwen35", seed=seed) as file:
        keys = file.keys
        file.sizes(n_ctx, n_layer + 1, n_embd)
        file.heads()
        keys.add_feed_forward_length(2 * n_embd)
        keys.add_uint32("qwen35.nextn_predict_layers", 1)
        if chat_template:
            keys.add_chat_template(chat_template)
        keys.add_uint32("qwen35.full_attention_interval", 2)
        keys.add_key_length(n_embd // tiny._HEADS)
        keys.add_value_length(n_embd // tiny._HEADS)
        keys.add_rope_dimension_count(n_embd // tiny._HEADS)
        keys.add_rope_dimension_sections([3, 3, 2, 0])
        keys.add_ssm_conv_kernel(_CONV)
        keys.add_ssm_inner_size(_STATE * _VALUE_HEADS)
        keys.add_ssm_state_size(_STATE)
        keys.add_ssm_time_step_rank(_VALUE_HEADS)
        keys.add_ssm_group_count(_KEY_HEADS)
        tiny._tokenizer(keys)
        for index in () if head_alone else range(n_layer):
            (_gated_attention if index % 2 else _delta_net)(file, f"blk.{index}", n_embd, gain)
            _rest_of_layer(file, f"blk.{index}", n_embd, gain)
        _drafting_layer(file, f"blk.{n_layer}", n_embd, copies=copies)
        file.ends(len(tiny.TOKENS), n_embd, gain=sqrt(n_embd))
    return path


def _gated_attention(file: tiny._TinyFile, layer: str, n_embd: int, gain: float) -> None:
    n_kv = n_embd // tiny._HEADS * tiny._HEADS_KV
    file.matrix(f"{layer}.attn_q", 2 * n_embd, n_embd, gain=1.5)
    file.matrix(f"{layer}.attn_k", n_kv, n_embd, gain=1.5)
    file.matrix(f"{layer}.attn_v", n_kv, n_embd)
    file.matrix(f"{layer}.attn_output", n_embd, n_embd, gain=gain)
    file.norm(f"{layer}.attn_q_norm", n_embd // tiny._HEADS, gain=1.5)
    file.norm(f"{layer}.attn_k_norm", n_embd // tiny._HEADS, gain=1.5)


def _delta_net(file: tiny._TinyFile, layer: str, n_embd: int, gain: float) -> None:
    inner, keys = _STATE * _VALUE_HEADS, _STATE * _KEY_HEADS
    file.matrix(f"{layer}.attn_qkv", 2 * keys + inner, n_embd, gain=2)
    file.matrix(f"{layer}.attn_gate", inner, n_embd, gain=2)
    file.kernel(f"{layer}.ssm_conv1d", 2 * keys + inner, _CONV)
    file.values(f"{layer}.ssm_dt.bias", np.zeros(_VALUE_HEADS, np.float32))
    file.values(f"{layer}.ssm_a", -np.linspace(0.1, 1.0, _VALUE_HEADS, dtype=np.float32))
    file.matrix(f"{layer}.ssm_beta", _VALUE_HEADS, n_embd)
    file.matrix(f"{layer}.ssm_alpha", _VALUE_HEADS, n_embd)
    file.norm(f"{layer}.ssm_norm", _STATE)
    file.matrix(f"{layer}.ssm_out", n_embd, inner, gain=gain)


def _rest_of_layer(file: tiny._TinyFile, layer: str, n_embd: int, gain: float) -> None:
    file.norm(f"{layer}.attn_norm", n_embd)
    file.norm(f"{layer}.post_attention_norm", n_embd)
    _dense(file, layer, n_embd, gain)


def _drafting_layer(file: tiny._TinyFile, layer: str, n_embd: int, *, copies: bool) -> None:
    gain = 0.15 if copies else 2.0
    _gated_attention(file, layer, n_embd, gain)
    _rest_of_layer(file, layer, n_embd, gain)
    _joining(file, layer, n_embd, copies=copies)


def _joining(file: tiny._TinyFile, layer: str, n_embd: int, *, copies: bool) -> None:
    """Add what joins a token's embedding and a hidden row."""
    file.norm(f"{layer}.nextn.enorm", n_embd)
    file.norm(f"{layer}.nextn.hnorm", n_embd)
    if copies:
        both = np.concatenate((np.eye(n_embd), 0.1 * np.eye(n_embd)), axis=1) * sqrt(n_embd)
        file.values(f"{layer}.nextn.eh_proj.weight", both)
    else:
        file.matrix(f"{layer}.nextn.eh_proj", n_embd, 2 * n_embd)


_EXPERTS, _USED = 4, 2


def write_experts_with_head(
    path: Path, *, seed: int = 0, n_ctx: int = 512, n_embd: int = 64, copies: bool = True
) -> Path:
    """Write a glm4moe: a dense layer, one of experts, and one of experts that drafts; return `path`."""
    gain = 0.15 if copies else 2.0
    with tiny._tiny_file(path, "glm4moe", seed=seed) as file:
        keys = file.keys
        file.sizes(n_ctx, 3, n_embd)
        file.heads()
        keys.add_feed_forward_length(2 * n_embd)
        keys.add_uint32("glm4moe.nextn_predict_layers", 1)
        keys.add_rope_dimension_count(n_embd // tiny._HEADS)
        keys.add_expert_count(_EXPERTS)
        keys.add_expert_used_count(_USED)
        keys.add_expert_feed_forward_length(n_embd)
        keys.add_expert_shared_count(1)
        keys.add_leading_dense_block_count(1)
        tiny._tokenizer(keys)
        for index in range(3):
            layer = f"blk.{index}"
            tiny._attention(file, layer, n_embd)
            file.norm(f"{layer}.post_attention_norm", n_embd)
            (_experts if index else _dense)(file, layer, n_embd, gain)
        _joining(file, "blk.2", n_embd, copies=copies)
        file.ends(len(tiny.TOKENS), n_embd, gain=sqrt(n_embd))
    return path


def _dense(file: tiny._TinyFile, layer: str, n_embd: int, gain: float) -> None:
    file.matrix(f"{layer}.ffn_gate", 2 * n_embd, n_embd, gain=2)
    file.matrix(f"{layer}.ffn_up", 2 * n_embd, n_embd)
    file.matrix(f"{layer}.ffn_down", n_embd, 2 * n_embd, gain=gain / 2)


def _experts(file: tiny._TinyFile, layer: str, n_embd: int, gain: float) -> None:
    file.kernel(f"{layer}.ffn_gate_inp", _EXPERTS, n_embd)
    file.values(f"{layer}.exp_probs_b.bias", np.zeros(_EXPERTS, np.float32))
    for part in ("gate", "up", "down"):
        file.matrices(f"{layer}.ffn_{part}_exps", _EXPERTS, n_embd, n_embd)
        file.matrix(f"{layer}.ffn_{part}_shexp", n_embd, n_embd, gain=gain)


def write_chained(
    path: Path,
    *,
    architecture: str = "hy_v3",
    seed: int = 0,
    n_ctx: int = 512,
    n_layer: int = 2,
    chain: int = 3,
    n_embd: int = 64,
    head_alone: bool = False,
) -> Path:
    """Write a hy_v3 or step35: layers of attention, and `chain` layers, each to draft one place; return `path`.

    With `head_alone` the drafting layers have the file for themselves, beside embedding and output.
    """
    with tiny._tiny_file(path, architecture, seed=seed) as file:
        keys, layers = file.keys, n_layer + chain
        file.sizes(n_ctx, layers, n_embd)
        file.heads()
        keys.add_feed_forward_length(2 * n_embd)
        keys.add_expert_feed_forward_length(n_embd)
        keys.add_uint32(f"{architecture}.nextn_predict_layers", chain)
        keys.add_rope_dimension_count(n_embd // tiny._HEADS)
        if architecture == "step35":
            keys.add_sliding_window(tiny.WINDOW)
            keys.add_array("step35.attention.sliding_window_pattern", [index % 2 == 1 for index in range(layers)])
        tiny._tokenizer(keys)
        for index in range(n_layer if head_alone else 0, layers):
            layer = f"blk.{index}"
            _weak_attention(file, layer, n_embd)
            file.norm(f"{layer}.ffn_norm", n_embd)
            _dense(file, layer, n_embd, 0.15)
            if index >= n_layer:
                _joining(file, layer, n_embd, copies=True)
        file.ends(len(tiny.TOKENS), n_embd, gain=sqrt(n_embd))
        if architecture == "step35":
            file.matrix("output", len(tiny.TOKENS), n_embd, gain=sqrt(n_embd))
    return path


def _weak_attention(file: tiny._TinyFile, layer: str, n_embd: int) -> None:
    n_kv = n_embd // tiny._HEADS * tiny._HEADS_KV
    file.norm(f"{layer}.attn_norm", n_embd)
    file.matrix(f"{layer}.attn_q", n_embd, n_embd, gain=1.5)
    file.matrix(f"{layer}.attn_k", n_kv, n_embd, gain=1.5)
    file.matrix(f"{layer}.attn_v", n_kv, n_embd)
    file.matrix(f"{layer}.attn_output", n_embd, n_embd, gain=0.15)
    file.norm(f"{layer}.attn_q_norm", n_embd // tiny._HEADS, gain=1.5)
    file.norm(f"{layer}.attn_k_norm", n_embd // tiny._HEADS, gain=1.5)


_WINDOW_PATTERN = (True, False)
"""Layers with a sliding window."""


def write_shared(path: Path, *, seed: int = 0, n_ctx: int = 512, n_embd: int = 64) -> Path:
    """Write a gemma4: two layers whose caches an assistant reads; return `path`."""
    with tiny._tiny_file(path, "gemma4", seed=seed) as file:
        file.sizes(n_ctx, len(_WINDOW_PATTERN), n_embd)
        file.heads()
        _windows(file, "gemma4", n_embd // tiny._HEADS)
        file.keys.add_uint32("gemma4.embedding_length_per_layer_input", 0)
        file.keys.add_uint32("gemma4.attention.shared_kv_layers", 0)
        tiny._tokenizer(file.keys)
        for layer in (f"blk.{index}" for index in range(len(_WINDOW_PATTERN))):
            tiny._attention(file, layer, n_embd)
            _gemma_layer(file, layer, n_embd, n_embd // tiny._HEADS)
            tiny._feed_forward(file, layer, n_embd)
            file.norm(f"{layer}.attn_k_norm", n_embd // tiny._HEADS)
        file.values("rope_freqs.weight", np.ones(n_embd // tiny._HEADS // 2, np.float32))
        file.ends(len(tiny.TOKENS), n_embd, gain=1)
    return path


def write_assistant(path: Path, *, seed: int = 1, n_ctx: int = 512, n_embd: int = 32, of: int = 64) -> Path:
    """Write a gemma4-assistant for a target whose rows have `of` numbers; return `path`."""
    with tiny._tiny_file(path, "gemma4-assistant", seed=seed) as file:
        layers, head = len(_WINDOW_PATTERN), of // tiny._HEADS
        file.sizes(n_ctx, layers, n_embd)
        file.heads()
        _windows(file, "gemma4-assistant", head)
        file.keys.add_uint32("gemma4-assistant.nextn_predict_layers", layers)
        file.keys.add_uint32("gemma4-assistant.embedding_length_out", of)
        tiny._tokenizer(file.keys)
        for layer in (f"blk.{index}" for index in range(layers)):
            file.norm(f"{layer}.attn_norm", n_embd)
            file.matrix(f"{layer}.attn_q", head * tiny._HEADS, n_embd, gain=1.5)
            file.matrix(f"{layer}.attn_output", n_embd, head * tiny._HEADS)
            _gemma_layer(file, layer, n_embd, head)
            tiny._feed_forward(file, layer, n_embd)
            file.values(f"{layer}.layer_output_scale.weight", np.ones(1, np.float32))
        file.values("rope_freqs.weight", np.ones(head // 2, np.float32))
        file.matrix("nextn.pre_projection", n_embd, 2 * of)
        file.matrix("nextn.post_projection", of, n_embd)
        file.ends(len(tiny.TOKENS), n_embd, gain=1)
    return path


def _windows(file: tiny._TinyFile, architecture: str, head: int) -> None:
    keys = file.keys
    keys.add_feed_forward_length(128 if architecture == "gemma4" else 64)
    keys.add_key_length(head)
    keys.add_value_length(head)
    keys.add_uint32(f"{architecture}.attention.key_length_swa", head)
    keys.add_uint32(f"{architecture}.attention.value_length_swa", head)
    keys.add_rope_dimension_count(head)
    keys.add_uint32(f"{architecture}.rope.dimension_count_swa", head)
    keys.add_sliding_window(tiny.WINDOW)
    keys.add_array(f"{architecture}.attention.sliding_window_pattern", list(_WINDOW_PATTERN))


def _gemma_layer(file: tiny._TinyFile, layer: str, n_embd: int, head: int) -> None:
    file.norm(f"{layer}.attn_q_norm", head)
    file.norm(f"{layer}.post_attention_norm", n_embd)
    file.norm(f"{layer}.post_ffw_norm", n_embd)
