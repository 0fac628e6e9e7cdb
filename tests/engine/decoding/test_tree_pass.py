"""Draft trees: what is one and what is not, and passes over them on the toy, whose rows show all that they follow."""

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from checking import caught
from trees import TREES, in_one_pass, paths_alone, random_tree

from models.abort import AbortFlag
from models.base import LanguageModel, Logits
from models.errors import Cancelled, ContextFullError
from models.toy import ToyModel
from models.tree import read_tree

TEXT = [3, 7, 1, 9, 4]


def at_depth(depth: int, model: ToyModel | None = None) -> ToyModel:
    model = model or ToyModel()
    if depth:
        model.decode((TEXT * depth)[:depth], 0)
    return model


def test_a_chain_is_what_follows_itself_from_the_start() -> None:
    assert read_tree([-1, 0, 1], 4, 0).chain == 3
    assert read_tree([-1, 0, 0, 2], 5, 8).chain == 2
    assert read_tree([-1, -1, 1], 4, 8).chain == 1, "a branch may follow itself too"
    assert read_tree([], 1, 0).chain == 0


def test_depths_paths_and_leaves() -> None:
    tree = read_tree([-1, 0, -1, 0, 2, 3, 4], 8, 8)
    assert tree.depths == (0, 1, 0, 1, 1, 2, 2)
    assert (tree.chain, tree.off_chain, tree.leaves) == (2, 5, (5, 6))
    assert [tree.path(node) for node in (0, 1, 5, 6)] == [[0], [0, 1], [0, 3, 5], [2, 4, 6]]
    assert tree.branches_through() == [[0], [], [1], [0], [1], [0], [1]]


@pytest.mark.parametrize(
    ("parents", "tokens", "says"),
    [
        ([0], 2, "the parent of node 0 is 0"),
        ([-1, 1], 3, "the parent of node 1 is 1"),
        ([-1, 2, 0], 4, "the parent of node 1 is 2"),
        ([-2], 2, "the parent of node 0 is -2"),
        ([-1, 0], 2, "one has to come before it"),
        ([-1] * 10, 11, "9 branches in one pass; 8 can be had"),
    ],
)
def test_what_is_no_tree_is_refused_and_changes_nothing(parents: list[int], tokens: int, says: str) -> None:
    model = at_depth(3)
    with pytest.raises(ValueError, match=says):
        model.decode([1] * tokens, 1, parents)
    assert model.length == 3


def wrong_rows(model: LanguageModel, parents: Sequence[int], before: Sequence[int] = (5,)) -> list[int]:
    """Return the places whose row in one pass is not that of their path alone."""
    nodes = [(11 + 3 * node) % 28 for node in range(len(parents))]
    wanted = paths_alone(model, before, nodes, parents)
    got = in_one_pass(model, before, nodes, parents)
    return [place for place in range(len(wanted)) if not np.array_equal(got[place], wanted[place])]


@pytest.mark.parametrize("parents", TREES.values(), ids=TREES)
def test_every_row_follows_its_own_path(parents: Sequence[int]) -> None:
    assert wrong_rows(at_depth(20), parents) == []
    assert wrong_rows(at_depth(20), parents, before=(5, 6, 8)) == []
    assert wrong_rows(at_depth(0), parents) == []


def test_every_row_of_any_tree_follows_its_own_path() -> None:
    random = Random(1)
    for _ in range(100):
        assert wrong_rows(at_depth(random.randrange(9)), random_tree(random, random.randint(1, 12))) == []


def test_only_the_chain_stays() -> None:
    model = at_depth(6)
    model.decode([1, 2, 3, 4, 5], 2, [-1, 0, -1, 2])
    assert model.length == 6 + 3
    after = model.decode([9], 1).copy()
    assert np.array_equal(after, at_depth(6).decode([1, 2, 3, 9], 1))
    model.rewind(7)
    assert np.array_equal(model.decode([9], 1), at_depth(6).decode([1, 9], 1))


def test_rows_are_the_last_ones_of_the_pass() -> None:
    tokens, parents = [1, 2, 3, 4, 5], [-1, 0, -1, 2]
    whole = at_depth(6).decode(tokens, 5, parents).copy()
    for rows in range(5):
        assert np.array_equal(at_depth(6).decode(tokens, rows, parents), whole[5 - rows :])


def test_a_chain_is_the_pass_that_it_would_be_without_parents() -> None:
    for limit in (None, 4):
        model = at_depth(6, ToyModel(rewind_limit=limit))
        rows = model.decode([1, 2, 3], 3, [-1, 0]).copy()
        assert np.array_equal(rows, at_depth(6).decode([1, 2, 3], 3))
        assert model.length == 9


def test_a_memory_that_goes_back_only_so_far_takes_no_branches() -> None:
    model = at_depth(6, ToyModel(rewind_limit=4))
    assert model.max_branches == 0
    with pytest.raises(ValueError, match="1 branches in one pass; 0 can be had"):
        model.decode([1, 2, 3], 3, [-1, -1])
    assert model.length == 6


def test_every_token_of_a_pass_has_to_fit_in_the_context() -> None:
    model = ToyModel(context_size=8)
    model.decode(TEXT, 0)
    with pytest.raises(ContextFullError, match="9 tokens are needed, 8 fit"):
        model.decode([1, 2, 3, 4], 1, [-1, 0, 0])
    assert model.length == 5
    model.decode([1, 2, 3], 1, [-1, -1])
    assert model.length == 7


def test_a_stopped_pass_changes_nothing() -> None:
    flag = AbortFlag()
    model = at_depth(6, ToyModel(abort=flag))
    flag.set()
    with pytest.raises(Cancelled):
        model.decode([1, 2, 3], 3, [-1, -1])
    flag.clear()
    assert model.length == 6
    assert np.array_equal(model.decode([9], 1), at_depth(6).decode([9], 1))


class SeesTheChain(ToyModel):
    """Takes a tree for a chain: its branches see what they are the alternative to."""

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        return super().decode(tokens, rows, range(-1, len(parents) - 1))


class HangsBranchesTooHigh(ToyModel):
    """Branches leave one node before the one that they should leave from."""

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        chain = read_tree(parents, len(tokens), 8).chain
        higher = [max(-1, parent - 1) if 0 <= parent < chain else parent for parent in parents[chain:]]
        return super().decode(tokens, rows, [*parents[:chain], *higher])


class KeepsABranch(ToyModel):
    """The last branch stays in the cache behind the chain."""

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        got = super().decode(tokens, rows, parents)
        self._cache += tokens[len(tokens) - read_tree(parents, len(tokens), 8).off_chain :]
        return got


@pytest.mark.parametrize("broken", [SeesTheChain, HangsBranchesTooHigh])
def test_rows_that_follow_another_path_are_noticed(broken: type[ToyModel]) -> None:
    with caught():
        assert wrong_rows(at_depth(20, broken()), TREES["a branch from the middle"]) == []


def test_a_branch_that_stays_is_noticed() -> None:
    model = at_depth(6, KeepsABranch())
    model.decode([1, 2, 3], 1, [-1, -1])
    with caught():
        assert model.length == 8
