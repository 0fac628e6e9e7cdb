"""Draft trees over llama.cpp: every row that of its path, and after the pass nothing but the chain in the cache.

The starter is held to the last bit; the tiny files, which some machines round differently at every width, to what no
wrong cell would pass.
"""

import ctypes
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from checking import caught
from tiny_gguf import WINDOW, write_hybrid, write_llama, write_recurrent, write_swa
from trees import TREES, in_one_pass, paths_alone, random_tree

import models.llama.model
from models.abort import AbortFlag
from models.base import Logits
from models.errors import Cancelled
from models.library.catalog import find_model
from models.llama.batch import SEQUENCES, Batch, Guests
from models.llama.bindings import llama_cpp
from models.llama.exact_width import exact_branches_here, exact_width
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.tree import Tree, read_tree

SAME, WRONG = 0.05, 0.3
"""Rounding moves logits by less than the one; a wrong cell by more than the other."""
DEPTHS = (530, 250)
"""Deepest first, so that the text is read once; the other ends short of a block of 256."""


def opened(path: Path, abort: AbortFlag | None = None, **options: Any) -> LlamaModel:
    chosen = {"context_size": 256, "batch_size": 64, "threads": 1, **options}
    return LlamaModel(path, LlamaOptions(**chosen), abort=abort)


@pytest.fixture(scope="module")
def starter() -> Iterator[LlamaModel]:
    model = opened(find_model("starter"), context_size=1024, max_rows=12)
    yield model
    model.close()


@pytest.fixture(params=["attention", "no flash attention", "q8_0 cache", "window"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LlamaModel]:
    path = tmp_path / "tiny.gguf"
    if request.param == "window":
        made = opened(write_swa(path))
    elif request.param == "q8_0 cache":
        made = opened(write_llama(path, n_embd=128), cache_type_k="q8_0", cache_type_v="q8_0")
    else:
        made = opened(write_llama(path), flash_attention=request.param == "attention")
    yield made
    made.close()


def text(count: int, seed: int = 0) -> list[int]:
    random = Random(seed)
    return [random.randrange(30) for _ in range(count)]


def read(model: LlamaModel, tokens: list[int]) -> None:
    model.rewind(0)
    for start in range(0, len(tokens), model.batch_size):
        model.decode(tokens[start : start + model.batch_size], 0)


def guests(model: LlamaModel) -> list[int]:
    """Return the sequences of the cache that hold anything, beside the text."""
    api = llama_cpp()
    held = (
        sequence for sequence in range(1, SEQUENCES) if api.llama_memory_seq_pos_max(model._cache.memory, sequence) >= 0
    )
    return list(held)


def gap(one: Logits, other: Logits) -> float:
    return float(np.abs(one - other).max())


def nodes_for(parents: Sequence[int]) -> list[int]:
    return [(3 + 5 * node) % 29 for node in range(len(parents))]


@pytest.mark.parametrize("depth", [0, 40, 5 * WINDOW])
def test_every_row_follows_its_own_path(model: LlamaModel, depth: int) -> None:
    for parents in TREES.values():
        read(model, text(depth))
        wanted = paths_alone(model, [7, 2], nodes_for(parents), parents)
        assert gap(in_one_pass(model, [7, 2], nodes_for(parents), parents), wanted) < SAME
        assert guests(model) == []


def test_rows_of_other_paths_are_far_apart(model: LlamaModel) -> None:
    # The control of the one before: were a branch to see the chain, the difference would show.
    parents, chain = TREES["a branch from the middle"], range(-1, 4)
    read(model, text(40))
    wanted = paths_alone(model, [7, 2], nodes_for(parents), parents)
    assert gap(in_one_pass(model, [7, 2], nodes_for(parents), list(chain)), wanted) > WRONG


def test_only_the_chain_stays(model: LlamaModel) -> None:
    read(model, text(40))
    model.decode([7, *nodes_for(TREES["a branch that forks"])], 1, TREES["a branch that forks"])
    assert model.length == 40 + 3
    row = model.decode([4], 1).copy()
    read(model, [*text(40), 7, *nodes_for([0, 0])])
    assert gap(row, model.decode([4], 1)) < SAME


def test_rows_are_the_last_ones_of_the_pass(model: LlamaModel) -> None:
    parents = TREES["a branch that forks"]
    tokens = [7, *nodes_for(parents)]
    read(model, text(20))
    whole = model.decode(tokens, len(tokens), parents).copy()
    for rows in (0, 1, 2, 4):
        model.rewind(20)
        assert model.decode(tokens, rows, parents).shape == (rows, model.vocab.size)
        model.rewind(20)
        if rows:
            assert gap(model.decode(tokens, rows, parents), whole[-rows:]) < SAME


def cells(model: LlamaModel) -> bytes:
    """Return everything that the cache holds of the text, places included."""
    api = llama_cpp()
    size = api.llama_state_seq_get_size(model._cache.context, 0)
    state = (ctypes.c_uint8 * size)()
    api.llama_state_seq_get_data(model._cache.context, state, size, 0)
    return bytes(state)


def test_a_pass_that_fails_leaves_no_guest_and_no_token(model: LlamaModel, monkeypatch: pytest.MonkeyPatch) -> None:
    decode = llama_cpp().llama_decode
    read(model, text(40))
    held = cells(model)
    for depth in (40, 0):
        model.rewind(depth)
        with monkeypatch.context() as patch:
            # The worst case: everything was written into the cache before the pass was stopped.
            patch.setattr(llama_cpp(), "llama_decode", lambda *arguments: decode(*arguments) or 2)
            with pytest.raises(Cancelled):
                model.decode([7, 1, 2, 3, 4], 5, [-1, -1, 0, 1])
        assert (model.length, guests(model)) == (depth, [])
        assert depth == 0 or cells(model) == held
    read(model, text(40))
    assert cells(model) == held


def test_what_interrupts_a_pass_before_it_runs_leaves_no_guest(
    model: LlamaModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    read(model, text(40))
    with monkeypatch.context() as patch:
        patch.setattr(Batch, "grow", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.decode([7, 1, 2], 3, [-1, -1])
    assert (model.length, guests(model)) == (40, [])
    wanted = paths_alone(model, [7], [1, 2], [-1, -1])
    assert gap(in_one_pass(model, [7], [1, 2], [-1, -1]), wanted) < SAME


@pytest.mark.parametrize("write", [write_llama, write_swa])
def test_a_flag_raised_in_the_middle_of_a_tree_spoils_nothing(write: Any, tmp_path: Path) -> None:
    abort = AbortFlag()
    path = write(tmp_path / "long.gguf", n_ctx=2048, n_embd=128, n_layer=4)
    model = opened(path, abort, context_size=2048, batch_size=1500)
    tokens, parents = [5] * 1490 + [1, 2, 3, 4], [-1, 0, -1, 2]
    times = []
    for _ in range(3):  # the first is a warm-up
        started = perf_counter()
        model.decode([5] * 1490, 0)
        times.append(perf_counter() - started)
        model.rewind(0)
    read(model, text(40))
    held = cells(model)
    timer = threading.Timer(min(times) / 10, abort.set)
    timer.start()
    with pytest.raises(Cancelled):
        model.decode(tokens, 4, parents)
    timer.join()
    abort.clear()
    assert (model.length, guests(model)) == (40, [])
    assert cells(model) == held
    model.close()


@pytest.mark.parametrize("write", [write_recurrent, write_hybrid])
def test_a_memory_that_can_not_share_cells_takes_chains_alone(write: Any, tmp_path: Path) -> None:
    model = opened(write(tmp_path / "tiny.gguf"))
    assert model.max_branches == 0
    model.decode([1, 2, 3, 4], 4, [-1, 0, 1])
    with pytest.raises(ValueError, match="1 branches in one pass; 0 can be had"):
        model.decode([1, 2, 3], 3, [-1, -1])
    assert model.length == 4
    model.close()


def test_an_ordinary_pass_does_not_touch_the_sequences(model: LlamaModel, monkeypatch: pytest.MonkeyPatch) -> None:
    read(model, text(20))
    for name in ("llama_memory_seq_cp", "llama_memory_seq_rm"):
        monkeypatch.delattr(llama_cpp(), name)
    model.decode([1], 1)
    model.decode([1, 2, 3], 3)
    model.decode([1, 2, 3], 3, [-1, 0])
    assert model.length == 27


# --- to the last bit --------------------------------------------------------------------------------------------------


def forked(starter: LlamaModel, depth: int, parents: Sequence[int], before: list[int]) -> list[int]:
    """Return the places whose row in one pass differs in any bit from that of their path alone."""
    random = Random(depth)
    nodes = [random.randrange(1000, 40_000) for _ in parents]
    wanted = paths_alone(starter, before, nodes, parents)
    got = in_one_pass(starter, before, nodes, parents)
    assert guests(starter) == []
    chain = [*before, *nodes[: starter.length - depth - len(before)]]
    # What follows the pass, in the cells that its branches had.
    later = starter.decode([1234, 77], 2).copy()
    starter.rewind(depth)
    plain = [starter.decode([token], 1)[0].copy() for token in (*chain, 1234, 77)]
    wrong = [place for place in range(len(wanted)) if not np.array_equal(got[place], wanted[place])]
    wrong += [len(wanted) + place for place in (0, 1) if not np.array_equal(later[place], plain[len(chain) + place])]
    starter.rewind(depth)
    return wrong


@pytest.fixture(scope="module")
def deep_text(starter: LlamaModel) -> list[int]:
    words = starter.vocab.tokenize("The tide comes in twice a day, and nobody on the island minds. " * 40)
    return words[: DEPTHS[0]]


@pytest.mark.starter
def test_rows_of_trees_are_those_of_their_paths_to_the_last_bit(starter: LlamaModel, deep_text: list[int]) -> None:
    if exact_width(starter) < 12:
        pytest.skip("this machine rounds passes of several tokens")
    random = Random(7)
    read(starter, deep_text)
    for parents in TREES.values():
        assert forked(starter, DEPTHS[0], parents, [42]) == []
    for depth in DEPTHS[1:]:
        starter.rewind(depth)
        assert forked(starter, depth, random_tree(random, 6), [42]) == []
        assert forked(starter, depth, random_tree(random, 8), [42, 99, 3]) == []


@pytest.mark.starter
def test_a_branch_that_leaves_too_early_or_stays_is_noticed(
    starter: LlamaModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_early(parents: list[int], *rest: int) -> Tree:
        return read_tree([-1 if node == 3 else parent for node, parent in enumerate(parents)], *rest)

    read(starter, [5] * 20)
    with monkeypatch.context() as patch:
        patch.setattr(models.llama.model, "read_tree", too_early)
        assert forked(starter, 20, [-1, 0, 1, 0, 3], [42]) == [4, 5]
    with monkeypatch.context() as patch, caught():
        patch.setattr(Guests, "turn_out", lambda *_: None)
        assert forked(starter, 20, [-1, 0, 0], [42]) == []
    starter.rewind(0)


@pytest.mark.starter
def test_a_look_at_branches_tells_whether_they_are_exact(
    starter: LlamaModel, deep_text: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    width = exact_width(starter)
    read(starter, deep_text[:300])
    assert width == 1 or exact_branches_here(starter, max(3, min(width, 5)))
    assert starter.length == 300
    decode = starter.decode
    monkeypatch.setattr(starter, "decode", lambda *args, **more: decode(*args, **{**more, "parents": ()}))
    assert not exact_branches_here(starter, 5)
    assert starter.length == 300
