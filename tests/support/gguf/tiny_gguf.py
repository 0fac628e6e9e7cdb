"""Tiny GGUF files with random weights, which llama.cpp loads and runs like any other model.

Every file is well under 1 MB and written in milliseconds, so tests of the loader need no download. The text a model
makes is noise, but always the same noise for the same arguments. A token's id equals its byte for the ids 0 to 255.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from math import sqrt
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType, TokenType
from gguf.quants import quantize
from numpy.typing import NDArray

from models.kernels.ggml import GRIDS, blocks_of_bits

WINDOW = 16
"""Tokens that the sliding-window layers of `write_swa` look back on."""

CHATML_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
BROKEN_TEMPLATE = "{% for message in messages %}{{ message['content' }}"
"""A template that no Jinja engine can parse."""

_HEADS = 4
_HEADS_KV = 2
_BLOCK_TYPES = {
    LlamaFileType.ALL_F32: GGMLQuantizationType.F32,
    LlamaFileType.MOSTLY_F16: GGMLQuantizationType.F16,
    LlamaFileType.MOSTLY_BF16: GGMLQuantizationType.BF16,
    LlamaFileType.MOSTLY_Q8_0: GGMLQuantizationType.Q8_0,
    LlamaFileType.MOSTLY_Q4_1: GGMLQuantizationType.Q4_1,
    LlamaFileType.MOSTLY_IQ2_XXS: GGMLQuantizationType.IQ2_XXS,
    LlamaFileType.MOSTLY_IQ2_XS: GGMLQuantizationType.IQ2_XS,
    LlamaFileType.MOSTLY_IQ2_S: GGMLQuantizationType.IQ2_S,
    LlamaFileType.MOSTLY_IQ3_XXS: GGMLQuantizationType.IQ3_XXS,
    LlamaFileType.MOSTLY_IQ3_S: GGMLQuantizationType.IQ3_S,
    LlamaFileType.MOSTLY_TQ1_0: GGMLQuantizationType.TQ1_0,
    LlamaFileType.MOSTLY_TQ2_0: GGMLQuantizationType.TQ2_0,
}
_LARGEST_OF_GRIDS = 128
"""About what a block's factor is multiplied by where weights stand in grids."""


def _byte_letters() -> str:
    """Return the letter by which GPT-2 spells each byte: itself if it can be seen, else one from U+0100 on."""
    seen = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = count(0x100)
    return "".join(chr(byte if byte in seen else next(spare)) for byte in range(256))


_LETTERS = _byte_letters()
_SPACE = _LETTERS[0x20]
_MERGES = [
    *["h e", "Ġ t", "Ġt he", "l l", "he ll", "hell o", "i n", "in g", "Ã ©"],  # the last one spells é
    *[f"{_SPACE * half} {_SPACE * half}" for half in (1, 2, 4, 8, 16)],
    f"{_SPACE * 32} {_SPACE * 8}",
]
_CONTROLS = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]

TOKENS: tuple[str, ...] = (*_LETTERS, *(merge.replace(" ", "") for merge in _MERGES), *_CONTROLS)
"""The vocabulary of every file here: the bytes, the merged tokens (up to 40 spaces), the control tokens."""
IM_START, IM_END, END_OF_TEXT = (TOKENS.index(token) for token in _CONTROLS)

PIECES: tuple[str, ...] = ("<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *ascii_lowercase)
"""A vocabulary as SentencePiece makes it: text gets a space before it, and no letters are merged."""
_PIECE_TYPES = {"<unk>": TokenType.UNKNOWN, "<s>": TokenType.CONTROL, "</s>": TokenType.CONTROL}


class _TinyFile:
    """One file in the making: writes the keys and draws the weights."""

    def __init__(self, path: Path, architecture: str, seed: int, noise: float, file_type: LlamaFileType) -> None:
        self.keys = GGUFWriter(path, architecture)
        self.keys.add_name(f"tiny {architecture}")
        self.keys.add_file_type(file_type)
        self._block_type = _BLOCK_TYPES[file_type]
        self._noise = noise
        self._draw = np.random.default_rng(seed)
        self._jitter = np.random.default_rng([seed, 1])

    def sizes(self, n_ctx: int, n_layer: int, n_embd: int) -> None:
        """Write the keys that every architecture asks for."""
        self.keys.add_context_length(n_ctx)
        self.keys.add_block_count(n_layer)
        self.keys.add_embedding_length(n_embd)
        self.keys.add_layer_norm_rms_eps(1e-5)

    def heads(self, kv: int | Sequence[int] = _HEADS_KV) -> None:
        """Write the keys of attention; one number a layer when they differ."""
        self.keys.add_head_count(_HEADS)
        self.keys.add_head_count_kv(kv)

    def matrix(self, name: str, rows: int, columns: int, gain: float = 1.0) -> None:
        """Add random weights that map inputs of size one to outputs of about size `gain`."""
        blocks = self._blocks(self._random((rows, columns), gain / sqrt(columns)))
        self.keys.add_tensor(f"{name}.weight", blocks, raw_dtype=self._block_type)

    def kernel(self, name: str, rows: int, columns: int) -> None:
        """Add random convolution weights, which llama.cpp wants in F32."""
        self.keys.add_tensor(f"{name}.weight", self._random((rows, columns), 1 / sqrt(columns)))

    def values(self, name: str, values: NDArray[np.float32]) -> None:
        """Add a tensor by its full name, with these values."""
        self.keys.add_tensor(name, values.astype(np.float32))

    def matrices(self, name: str, count: int, rows: int, columns: int) -> None:
        """Add several such matrices as one tensor."""
        blocks = self._blocks(self._random((count, rows, columns), 1 / sqrt(columns)))
        self.keys.add_tensor(f"{name}.weight", blocks, raw_dtype=self._block_type)

    def norm(self, name: str, size: int, gain: float = 1.0) -> None:
        """Add the weights of a normalization."""
        self.values(f"{name}.weight", np.full(size, gain, np.float32))

    def ends(self, n_vocab: int, n_embd: int, *, gain: float, output_norm: str = "output_norm") -> None:
        """Add the embedding, which is the output too, and the norm before it.

        Signs in that norm are random: else every token's own embedding wins, and the model repeats its input forever.
        """
        self.values(f"{output_norm}.weight", self._random((n_embd,), 3.0 / gain))
        self.matrix("token_embd", n_vocab, n_embd, gain=gain)

    def _blocks(self, values: NDArray[np.float32]) -> NDArray[Any]:
        if self._block_type in GRIDS:
            return blocks_of_bits(self._block_type, values / _LARGEST_OF_GRIDS)
        return quantize(values, self._block_type)

    def _random(self, shape: tuple[int, ...], scale: float) -> NDArray[np.float32]:
        mixed = self._draw.standard_normal(shape) + self._noise * self._jitter.standard_normal(shape)
        return (mixed * scale / sqrt(1 + self._noise**2)).astype(np.float32)


@contextmanager
def _tiny_file(
    path: Path, architecture: str, *, seed: int, noise: float = 0.0, file_type: LlamaFileType = LlamaFileType.ALL_F32
) -> Iterator[_TinyFile]:
    file = _TinyFile(path, architecture, seed, noise, file_type)
    yield file
    file.keys.write_header_to_file()
    file.keys.write_kv_data_to_file()
    file.keys.write_tensors_to_file()
    file.keys.close()


def _token_type(token: str) -> TokenType:
    if token.startswith("[PAD"):
        return TokenType.UNUSED
    return TokenType.CONTROL if token.startswith("<|") else TokenType.NORMAL


def _tokenizer(
    keys: GGUFWriter, tokens: Sequence[str] = TOKENS, *, add_bos: bool = False, words: str = "smollm"
) -> None:
    # Two tokens of one spelling make llama.cpp abort the whole process.
    assert len(set(tokens)) == len(tokens), "every token needs a spelling of its own"
    keys.add_tokenizer_model("gpt2")
    keys.add_tokenizer_pre(words)
    keys.add_token_list(tokens)
    keys.add_token_types([_token_type(token) for token in tokens])
    keys.add_token_merges(_MERGES)
    keys.add_bos_token_id(IM_START)
    keys.add_eos_token_id(IM_END)
    keys.add_add_bos_token(add_bos)


def _sentence_pieces(keys: GGUFWriter) -> None:
    keys.add_tokenizer_model("llama")
    keys.add_token_list(PIECES)
    byte = {token: TokenType.BYTE for token in PIECES if token.startswith("<0x")}
    keys.add_token_types([(_PIECE_TYPES | byte).get(token, TokenType.NORMAL) for token in PIECES])
    keys.add_token_scores([0.0] * len(PIECES))


def _attention(file: _TinyFile, layer: str, n_embd: int) -> None:
    n_kv = n_embd // _HEADS * _HEADS_KV
    file.norm(f"{layer}.attn_norm", n_embd)
    file.matrix(f"{layer}.attn_q", n_embd, n_embd, gain=1.5)
    file.matrix(f"{layer}.attn_k", n_kv, n_embd, gain=1.5)
    file.matrix(f"{layer}.attn_v", n_kv, n_embd)
    file.matrix(f"{layer}.attn_output", n_embd, n_embd, gain=2)


def _feed_forward(file: _TinyFile, layer: str, n_embd: int) -> None:
    file.norm(f"{layer}.ffn_norm", n_embd)
    file.matrix(f"{layer}.ffn_gate", 2 * n_embd, n_embd, gain=2)
    file.matrix(f"{layer}.ffn_up", 2 * n_embd, n_embd)
    file.matrix(f"{layer}.ffn_down", n_embd, 2 * n_embd)


def write_llama(
    path: Path,
    *,
    seed: int = 0,
    noise: float = 0.0,
    vocab: Sequence[str] = TOKENS,
    rename: Mapping[int, str] | None = None,
    extra_vocab: int = 0,
    add_bos: bool = False,
    n_ctx: int = 512,
    n_layer: int = 2,
    n_embd: int = 64,
    chat_template: str | Sequence[Mapping[str, str]] | None = None,
    file_type: LlamaFileType = LlamaFileType.ALL_F32,
    pieces: bool = False,
    words: str = "smollm",
) -> Path:
    """Write a llama with grouped-query attention; return `path`.

    `noise` shifts the weights that `seed` draws: a draft with 0.05 agrees with noise 0 on about two tokens of three.
    `rename` respells tokens by id, `extra_vocab` appends unused rows such as "[PAD274]". `words` names the way to
    cut a text into words. With `pieces` its vocabulary is `PIECES`, whatever else is said of it.
    """
    tokens = [(rename or {}).get(token, text) for token, text in enumerate(vocab)]
    tokens += [f"[PAD{token}]" for token in range(len(tokens), len(tokens) + extra_vocab)]
    with _tiny_file(path, "llama", seed=seed, noise=noise, file_type=file_type) as file:
        file.sizes(n_ctx, n_layer, n_embd)
        file.heads()
        file.keys.add_feed_forward_length(2 * n_embd)
        file.keys.add_rope_dimension_count(n_embd // _HEADS)
        if pieces:
            tokens = list(PIECES)
            _sentence_pieces(file.keys)
        else:
            _tokenizer(file.keys, tokens, add_bos=add_bos, words=words)
        if chat_template is not None:
            file.keys.add_chat_template(chat_template)
        for layer in (f"blk.{index}" for index in range(n_layer)):
            _attention(file, layer, n_embd)
            _feed_forward(file, layer, n_embd)
        # Last, so that padding rows change no other weight.
        file.ends(len(tokens), n_embd, gain=sqrt(n_embd))
    return path


def write_qwen2(
    path: Path, *, seed: int = 0, n_ctx: int = 512, n_layer: int = 2, n_embd: int = 64, chat_template: str = ""
) -> Path:
    """Write a qwen2: biases beside queries, keys and values, and halves turned by their place; return `path`."""
    with _tiny_file(path, "qwen2", seed=seed) as file:
        file.sizes(n_ctx, n_layer, n_embd)
        file.heads()
        file.keys.add_feed_forward_length(2 * n_embd)
        _tokenizer(file.keys)
        if chat_template:
            file.keys.add_chat_template(chat_template)
        n_kv = n_embd // _HEADS * _HEADS_KV
        draw = np.random.default_rng(seed)
        for layer in (f"blk.{index}" for index in range(n_layer)):
            _attention(file, layer, n_embd)
            for name, size in (("q", n_embd), ("k", n_kv), ("v", n_kv)):
                file.values(f"{layer}.attn_{name}.bias", draw.normal(size=size))
            _feed_forward(file, layer, n_embd)
        file.ends(len(TOKENS), n_embd, gain=sqrt(n_embd))
    return path


def write_experts(
    path: Path, *, seed: int = 0, n_ctx: int = 512, n_layer: int = 2, n_embd: int = 64, experts: int = 4, used: int = 2
) -> Path:
    """Write a llama whose tokens each see some of its experts; return `path`."""
    with _tiny_file(path, "llama", seed=seed) as file:
        file.sizes(n_ctx, n_layer, n_embd)
        file.heads()
        file.keys.add_feed_forward_length(n_embd)
        file.keys.add_rope_dimension_count(n_embd // _HEADS)
        file.keys.add_expert_count(experts)
        file.keys.add_expert_used_count(used)
        _tokenizer(file.keys)
        for layer in (f"blk.{index}" for index in range(n_layer)):
            _attention(file, layer, n_embd)
            file.norm(f"{layer}.ffn_norm", n_embd)
            file.kernel(f"{layer}.ffn_gate_inp", experts, n_embd)
            for part in ("gate", "up", "down"):
                file.matrices(f"{layer}.ffn_{part}_exps", experts, n_embd, n_embd)
        file.ends(len(TOKENS), n_embd, gain=sqrt(n_embd))
    return path


def write_swa(path: Path, *, seed: int = 0, n_ctx: int = 2048, n_layer: int = 2, n_embd: int = 64) -> Path:
    """Write a gemma2, whose even layers see only the last `WINDOW` tokens; return `path`."""
    with _tiny_file(path, "gemma2", seed=seed) as file:
        file.sizes(n_ctx, n_layer, n_embd)
        file.heads()
        file.keys.add_feed_forward_length(2 * n_embd)
        file.keys.add_sliding_window(WINDOW)
        _tokenizer(file.keys)
        for layer in (f"blk.{index}" for index in range(n_layer)):
            _attention(file, layer, n_embd)
            file.norm(f"{layer}.post_attention_norm", n_embd)
            _feed_forward(file, layer, n_embd)
            file.norm(f"{layer}.post_ffw_norm", n_embd)
        file.ends(len(TOKENS), n_embd, gain=1)  # gemma itself multiplies the embedding by sqrt(n_embd)
    return path


_KEPT, _ROTATED, _QUERY, _WIDTH = 64, 32, 32, 32
"""Numbers of a compressed key, of its rotated rest, of a compressed query, and of one head before and after."""


def write_compressed(
    path: Path,
    *,
    seed: int = 0,
    n_ctx: int = 512,
    n_layer: int = 2,
    n_embd: int = 64,
    file_type: LlamaFileType = LlamaFileType.ALL_F32,
) -> Path:
    """Write a deepseek2, which keeps one compressed key for all heads, and no values; return `path`."""
    with _tiny_file(path, "deepseek2", seed=seed, file_type=file_type) as file:
        file.sizes(n_ctx, n_layer, n_embd)
        file.heads(1)
        file.keys.add_feed_forward_length(2 * n_embd)
        _compressed_sizes(file.keys, n_layer)
        _tokenizer(file.keys)
        for layer in (f"blk.{index}" for index in range(n_layer)):
            _compressed_attention(file, layer, n_embd)
            _feed_forward(file, layer, n_embd)
        file.ends(len(TOKENS), n_embd, gain=sqrt(n_embd))
    return path


def _compressed_sizes(keys: GGUFWriter, n_layer: int) -> None:
    keys.add_q_lora_rank(_QUERY)
    keys.add_kv_lora_rank(_KEPT)
    keys.add_rope_dimension_count(_ROTATED)
    keys.add_key_length(_KEPT + _ROTATED)
    keys.add_value_length(_KEPT)
    keys.add_key_length_mla(_WIDTH + _ROTATED)
    keys.add_value_length_mla(_WIDTH)
    # llama.cpp asks about experts, also where no layer has any.
    keys.add_leading_dense_block_count(n_layer)
    keys.add_expert_feed_forward_length(_WIDTH)
    keys.add_expert_shared_count(1)


def _compressed_attention(file: _TinyFile, layer: str, n_embd: int) -> None:
    file.norm(f"{layer}.attn_norm", n_embd)
    file.matrix(f"{layer}.attn_q_a", _QUERY, n_embd)
    file.norm(f"{layer}.attn_q_a_norm", _QUERY)
    file.matrix(f"{layer}.attn_q_b", _HEADS * (_WIDTH + _ROTATED), _QUERY, gain=2)
    file.matrix(f"{layer}.attn_kv_a_mqa", _KEPT + _ROTATED, n_embd)
    file.norm(f"{layer}.attn_kv_a_norm", _KEPT)
    file.matrices(f"{layer}.attn_k_b", _HEADS, _KEPT, _WIDTH)
    file.matrices(f"{layer}.attn_v_b", _HEADS, _WIDTH, _KEPT)
    file.matrix(f"{layer}.attn_output", n_embd, _HEADS * _WIDTH, gain=2)


def write_recurrent(path: Path, *, seed: int = 0, n_ctx: int = 512, n_layer: int = 2, n_embd: int = 32) -> Path:
    """Write a mamba, whose memory is one state that can't be cut back; return `path`."""
    with _tiny_file(path, "mamba", seed=seed) as file:
        file.sizes(n_ctx, n_layer, n_embd)
        file.keys.add_feed_forward_length(0)
        file.keys.add_head_count(0)
        _state_space_sizes(file.keys, n_embd)
        _tokenizer(file.keys)
        for layer in (f"blk.{index}" for index in range(n_layer)):
            _state_space(file, layer, n_embd)
        file.ends(len(TOKENS), n_embd, gain=sqrt(n_embd))
    return path


_CONV, _STATE, _RANK = 4, 8, 2


def _state_space_sizes(keys: GGUFWriter, n_embd: int) -> None:
    keys.add_ssm_conv_kernel(_CONV)
    keys.add_ssm_inner_size(2 * n_embd)
    keys.add_ssm_state_size(_STATE)
    keys.add_ssm_time_step_rank(_RANK)


def _state_space(file: _TinyFile, layer: str, n_embd: int) -> None:
    inner = 2 * n_embd
    file.norm(f"{layer}.attn_norm", n_embd)
    file.matrix(f"{layer}.ssm_in", 2 * inner, n_embd, gain=2)
    file.kernel(f"{layer}.ssm_conv1d", inner, _CONV)
    file.values(f"{layer}.ssm_conv1d.bias", np.zeros(inner, np.float32))
    file.matrix(f"{layer}.ssm_x", _RANK + 2 * _STATE, inner)
    file.matrix(f"{layer}.ssm_dt", inner, _RANK)
    file.values(f"{layer}.ssm_dt.bias", np.zeros(inner, np.float32))
    # Negative, or the state grows without end.
    file.values(f"{layer}.ssm_a", np.tile(-np.linspace(0.1, 1.0, _STATE, dtype=np.float32), (inner, 1)))
    file.values(f"{layer}.ssm_d", np.ones(inner, np.float32))
    file.matrix(f"{layer}.ssm_out", n_embd, inner, gain=2)


def write_hybrid(path: Path, *, seed: int = 0, n_ctx: int = 512, n_embd: int = 64) -> Path:
    """Write a lfm2: one layer of attention between two of convolution, whose states can roll back; return `path`."""
    heads_kv = [0, _HEADS_KV, 0]  # a layer without key heads is a convolution
    with _tiny_file(path, "lfm2", seed=seed) as file:
        file.sizes(n_ctx, len(heads_kv), n_embd)
        file.heads(heads_kv)
        file.keys.add_feed_forward_length(2 * n_embd)
        file.keys.add_shortconv_l_cache(_CONV)
        _tokenizer(file.keys)
        for index, heads in enumerate(heads_kv):
            (_normed_attention if heads else _convolution)(file, f"blk.{index}", n_embd)
            _feed_forward(file, f"blk.{index}", n_embd)
        file.ends(len(TOKENS), n_embd, gain=sqrt(n_embd), output_norm="token_embd_norm")
    return path


def _normed_attention(file: _TinyFile, layer: str, n_embd: int) -> None:
    _attention(file, layer, n_embd)
    file.norm(f"{layer}.attn_q_norm", n_embd // _HEADS, gain=1.5)
    file.norm(f"{layer}.attn_k_norm", n_embd // _HEADS, gain=1.5)


def _convolution(file: _TinyFile, layer: str, n_embd: int) -> None:
    file.norm(f"{layer}.attn_norm", n_embd)
    file.matrix(f"{layer}.shortconv.in_proj", 3 * n_embd, n_embd)
    file.kernel(f"{layer}.shortconv.conv", n_embd, _CONV)
    file.matrix(f"{layer}.shortconv.out_proj", n_embd, n_embd)


def write_unknown_architecture(path: Path) -> Path:
    """Write a whole file of an architecture that llama.cpp does not know; return `path`."""
    with _tiny_file(path, "perpetuum", seed=0) as file:
        file.sizes(512, 2, 64)
        file.heads()
        _tokenizer(file.keys)
        file.ends(len(TOKENS), 64, gain=1)
    return path


def write_truncated(source: Path, path: Path, keep: int) -> Path:
    """Copy the first `keep` bytes of a good file, or all but the last `-keep`; return `path`."""
    path.write_bytes(source.read_bytes()[:keep])
    return path
