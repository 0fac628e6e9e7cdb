"""Heads that draft blocks, by their headers: what they are, and what llama.cpp would end the process for."""

from pathlib import Path
from typing import Any

import pytest
from raw_gguf import Array, Weights, write_raw

from models.gguf.block_heads import BlockShape
from models.gguf.header import read_model
from models.gguf.heads import HeadFile, HeadKind, read_head

KEYS: dict[str, Any] = {
    "general.architecture": "dflash",
    "dflash.embedding_length": 8,
    "dflash.block_count": 1,
    "dflash.block_size": 16,
    "dflash.target_layers": Array([1, 2]),
    "tokenizer.ggml.mask_token_id": 3,
}
TENSORS = (("fc.weight", (16, 8)), ("enc.output_norm.weight", (8,)), ("output_norm.weight", (8,)))


def head_of(path: Path, *more: str, without: str = "", **changed: object) -> HeadFile:
    """Write a head with other keys and further tensors, and read what it is."""
    keys = {**KEYS, **{f"dflash.{key}" if "." not in key else key: value for key, value in changed.items()}}
    keys = {key: value for key, value in keys.items() if value is not None}
    shapes = [each for each in TENSORS if each[0] != without] + [(name, (8,)) for name in more]
    tensors = [Weights(name, shape, offset=1024 * place) for place, (name, shape) in enumerate(shapes)]
    head = read_head(read_model(write_raw(path / "head.gguf", keys, tensors=tensors, data=1024 * len(tensors))))
    assert head is not None
    return head


def test_a_block_is_as_its_header_says(tmp_path: Path) -> None:
    head = head_of(tmp_path)
    assert (head.kind, head.layers, head.faults) == (HeadKind.DFLASH, (1, 2), ())
    assert head.block == BlockShape(15, 3, from_anchor=False, causal=False, candidates=0, sections=1)
    assert head.words == "a DFlash head for models whose hidden rows have 8 numbers"


def test_a_dspark_head_drafts_from_the_pending_token_on(tmp_path: Path) -> None:
    head = head_of(tmp_path, "markov_w1.weight", block_size=7)
    assert head.block is not None
    assert (head.block.longest, head.block.from_anchor) == (7, True)
    assert head.words.startswith("a DSpark head ")


def test_a_dflash2_head_has_candidates(tmp_path: Path) -> None:
    head = head_of(tmp_path, "selector_hidden.weight", selector_top_k=2)
    assert head.block is not None
    assert head.block.candidates == 2
    assert head.words.startswith("a DFlash2 head ")


def test_rotary_sections_take_four_positions(tmp_path: Path) -> None:
    head = head_of(tmp_path, **{"dflash.rope.dimension_sections": Array([4, 0, 0, 0])})
    assert head.block is not None
    assert head.block.sections == 4


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"tokenizer.ggml.mask_token_id": None}, "it names no mask token"),
        ({"dflash.hyper_connection.count": 4}, "DSpark heads of DeepSeek-V4 are not supported"),
        ({"block_size": 1}, "its blocks have no room for a draft"),
        ({"target_layers": None}, "it names no layers of its target"),
        ({"target_layers": Array([1, -2])}, "it names a layer below 0"),
        ({"embedding_length": 4}, "its matrix fc.weight does not have the size"),
        ({"hidden_activation": "relu"}, "its activation relu is not supported"),
        ({"without": "enc.output_norm.weight"}, "its norms are missing"),
        ({"key_length": 4, "value_length": 8}, "the keys and values of its attention have different sizes"),
    ],
)
def test_what_would_end_the_process_is_a_fault(tmp_path: Path, changed: dict[str, Any], words: str) -> None:
    if "key_length" in changed:
        changed = {f"dflash.attention.{key}": value for key, value in changed.items()}
    assert any(fault.startswith(words) for fault in head_of(tmp_path, **changed).faults)


def test_a_markov_head_without_a_block_size_is_a_fault(tmp_path: Path) -> None:
    assert "it names no block size" in head_of(tmp_path, "markov_w1.weight", block_size=None).faults


@pytest.mark.parametrize("count", [0, 1, 3, 70])
def test_layers_in_a_chain_are_counted_where_their_weights_are(tmp_path: Path, count: int) -> None:
    keys = {
        "general.architecture": "hy_v3",
        "hy_v3.block_count": 2 + count,
        "hy_v3.embedding_length": 8,
        "hy_v3.nextn_predict_layers": count,
    }
    names = [f"blk.{layer}.nextn.eh_proj.weight" for layer in range(2, 2 + count)]
    tensors = [Weights(name, (8,), offset=32 * place) for place, name in enumerate(["token_embd.weight", *names])]
    head = read_head(read_model(write_raw(tmp_path / "m.gguf", keys, tensors=tensors, data=32 * len(tensors))))
    if count == 0:
        assert head is None
        return
    assert head is not None
    assert head.chain == (count if count < 70 else 1)
    assert bool(head.faults) == (count == 70)
