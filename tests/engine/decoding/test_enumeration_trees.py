"""The accept rules are exact on trees: every path is summed, in fractions, over functions that judge real drafts."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from _pytest.monkeypatch import MonkeyPatch as Patch
from enumeration import (
    Arbitrary,
    Fate,
    Text,
    World,
    always,
    bias,
    distribution,
    drawn,
    drawn_tree,
    emitted,
    given_tree,
    overlap,
    tokens_a_round,
)

import app.engine.decoding.verify as verify_module
from app.engine.decoding.rules import accept_chance, residual
from app.engine.decoding.verify import Rows
from drafters.base import Draft
from models.sampling.accept import Accept
from models.sampling.distribution import Distribution

SHAPES = {
    "two siblings of one place": (-1, -1, -1),
    "a sibling that goes on": (-1, -1, 1),
    "a sibling that goes on two ways": (-1, -1, 1, 1),
    "siblings at both places, one goes on": (-1, 0, -1, 0, 2),
}
"""Trees of draft tokens: the parent of each, the chain first."""
ZEROS = {"all possible": (0, True), "some impossible": (4, True), "some cut away": (4, False)}
RULES = (Accept.COUPLED, Accept.RESIDUAL)
TARGET, DRAFT = Arbitrary("target", 3), Arbitrary("draft", 3)


@pytest.mark.parametrize(("zeros", "listed"), ZEROS.values(), ids=ZEROS)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_drawn_trees_leave_the_law_as_it_is(shape: Sequence[int], zeros: int, listed: bool) -> None:
    target = Arbitrary("target", 3, zeros=zeros, listed=listed)
    draft = Arbitrary("draft", 3, zeros=zeros, listed=listed)
    world = World(target, drawn_tree(draft, shape))
    assert bias(world, 3) == 0
    chain = World(target, drawn(draft, sum(parent == node - 1 for node, parent in enumerate(shape[:2]))))
    assert tokens_a_round(world) > tokens_a_round(chain) or zeros


TOKENS = {
    "two siblings of one place": (0, 1, 2),
    "a sibling that goes on": (0, 2, 1),
    "a sibling that goes on two ways": (2, 0, 0, 1),
    "siblings at both places, one goes on": (1, 1, 0, 2, 2),
}


@pytest.mark.parametrize("zeros", [0, 4])
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("rule", RULES)
def test_deterministic_trees_leave_the_law_as_it_is(rule: Accept, name: str, zeros: int) -> None:
    shape, tokens = SHAPES[name], TOKENS[name]
    for seed in range(3):
        world = World(Arbitrary(("target", seed), 3, zeros=zeros), given_tree(shape, tokens), rule)
        assert bias(world, 3) == 0


@pytest.mark.parametrize("rule", RULES)
def test_every_path_of_a_deterministic_tree_can_become_text(rule: Accept) -> None:
    texts = emitted(World(TARGET, given_tree((-1, 0, -1, 0, 2), (1, 1, 0, 2, 2)), rule))
    # Each leaf's path, with a bonus token after it.
    assert {text[:2] for text in texts if len(text) == 3} == {(1, 1), (1, 2), (0, 2)}
    assert {len(text) for text in texts} == {1, 2, 3}


@pytest.mark.parametrize("rule", RULES)
def test_a_token_of_a_tree_is_kept_as_often_as_the_target_says_it(rule: Accept) -> None:
    # A deterministic tree covers its tokens: none of their probability is lost, whatever the order.
    said = TARGET(())
    world = World(TARGET, given_tree((-1, -1), (0, 1)), rule)
    assert tokens_a_round(world) == 1 + said.of(0) + said.of(1)


def test_three_drawn_tokens_of_three_are_always_enough() -> None:
    # Drawn without replacement, they are the whole vocabulary.
    assert tokens_a_round(World(TARGET, drawn_tree(DRAFT, (-1, -1, -1)))) == 2
    assert overlap(TARGET(()), DRAFT(())) < 1


def penalised(said: Distribution, history: Text) -> Distribution:
    """Halve the weight of every token seen."""
    weights = zip(said.ids.tolist(), said.probs, strict=True)
    return distribution(*(prob / 2 if token in history else prob for token, prob in weights))


@pytest.mark.parametrize("rule", RULES)
def test_penalties_on_a_tree_leave_the_law_as_it_is(rule: Accept) -> None:
    drafting = drawn_tree(DRAFT, SHAPES["siblings at both places, one goes on"])
    if rule is Accept.COUPLED:
        drafting = given_tree((-1, 0, -1, 0, 2), (1, 1, 0, 2, 2))
    assert bias(World(TARGET, drafting, rule, penalise=penalised), 3) == 0


@pytest.mark.parametrize("rule", RULES)
def test_an_end_token_inside_a_branch_ends_the_text_there(rule: Accept) -> None:
    drafting = drawn_tree(DRAFT, (-1, -1, 1)) if rule is Accept.RESIDUAL else given_tree((-1, -1, 1), (0, 2, 1))
    world = World(TARGET, drafting, rule, end=2)
    assert bias(world, 3) == 0
    assert not any(2 in text[:-1] for text in emitted(world))


def test_two_rounds_with_a_branch_leave_the_law_as_it_is() -> None:
    target, draft = Arbitrary("target", 2), Arbitrary("draft", 2)
    assert bias(World(target, drawn_tree(draft, (-1, -1, 1))), 4, rounds=2) == 0


# --- broken on purpose ------------------------------------------------------------------------------------------------

GOES_ON = World(TARGET, drawn_tree(DRAFT, SHAPES["a sibling that goes on two ways"]))
THREE = World(Arbitrary("target", 4), drawn_tree(Arbitrary("draft", 4), SHAPES["two siblings of one place"]))
NOTICEABLE = Fraction(1, 1000)


def test_bias_shows_a_second_sibling_judged_by_the_residual_of_the_first(monkeypatch: Patch) -> None:
    def judge(siblings: Any, target: Any, drawn_from: Any, noise: Fate, place: int, turn: int, *, drawn: bool) -> Any:
        assert drawn
        first = target
        for each, (row, token) in enumerate(siblings, start=turn):
            if noise.happens(accept_chance(first.of(token), drawn_from.of(token)), place, each):
                return (row, token), target
            target, drawn_from = residual(target, drawn_from), drawn_from.without(token)
        return None, target

    assert bias(THREE, 2) == 0
    monkeypatch.setattr(verify_module, "judge_siblings", judge)
    assert bias(THREE, 2) > NOTICEABLE


def test_bias_shows_one_random_number_for_two_siblings(monkeypatch: Patch) -> None:
    def judge(siblings: Any, target: Any, drawn_from: Any, noise: Fate, place: int, turn: int, *, drawn: bool) -> Any:
        assert drawn
        for row, token in siblings:
            if noise.happens(accept_chance(target.of(token), drawn_from.of(token)), place, turn):
                return (row, token), target
            target, drawn_from = residual(target, drawn_from), drawn_from.without(token)
        return None, target

    worlds = [
        World(Arbitrary(("target", seed), 5), drawn_tree(Arbitrary(("draft", seed), 5), (-1, -1, -1)))
        for seed in range(12)
    ]
    assert {bias(world, 2) for world in worlds} == {0}
    monkeypatch.setattr(verify_module, "judge_siblings", judge)
    assert max(bias(world, 2) for world in worlds) > NOTICEABLE


def test_bias_shows_tokens_after_a_sibling_judged_by_the_wrong_distribution() -> None:
    claimed = drawn_tree(DRAFT, SHAPES["a sibling that goes on two ways"], claimed=always(1, 1, 1))
    assert bias(GOES_ON, 3) == 0
    assert bias(World(TARGET, claimed), 3) > NOTICEABLE


def chain_before(self: Rows, row: int, place: int, branch: Sequence[int]) -> Any:
    """Take the chain's own tokens for those before a sibling's row."""
    return self.sampler.served(self.logits[row], self.tokens, self.draft.tokens[: place + len(branch)])


def row_of_the_chain(self: Rows, row: int, place: int, branch: Sequence[int]) -> Any:
    """Take the row after the chain's own token."""
    row = min(place + len(branch), len(self.draft.tokens))
    return self.sampler.served(self.logits[row], self.tokens, (*self.draft.tokens[:place], *branch))


@pytest.mark.parametrize("broken", [row_of_the_chain])
def test_bias_shows_a_branch_judged_by_another_row(monkeypatch: Patch, broken: Callable[..., Any]) -> None:
    monkeypatch.setattr(Rows, "served_after", broken)
    assert bias(GOES_ON, 3) > NOTICEABLE


def test_bias_shows_penalties_that_do_not_see_the_branch(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Rows, "served_after", chain_before)
    assert bias(World(TARGET, GOES_ON.drafting, penalise=penalised), 3) > NOTICEABLE


# --- the tree as the pass takes it ------------------------------------------------------------------------------------


def test_a_tree_is_a_parents_array_with_a_row_for_every_token() -> None:
    draft = Draft((1, 2), siblings=((0, 5), (0, 6), (~0, 7), (~2, 8), (1, 9)))
    assert draft.checked == (1, 2, 5, 6, 7, 8, 9)
    assert draft.parents == (-1, 0, -1, -1, 2, 4, 0)
    assert draft.places == (0, 0, 1, 2, 1)
    assert [draft.beside(row) for row in range(8)] == [
        [(3, 5), (4, 6)], [(7, 9)], [], [(5, 7)], [], [(6, 8)], [], []
    ]  # fmt: skip
    paths: list[Text] = [draft.path_to(row) for row in range(8)]
    assert paths == [(), (1,), (1, 2), (5,), (6,), (5, 7), (5, 7, 8), (1, 9)]
    assert draft.rows_of((5, 7, 8), 0) == [3, 5, 6]


@pytest.mark.parametrize("length", range(3))
def test_a_shorter_chain_keeps_the_branches_beside_it(length: int) -> None:
    draft = Draft((1, 2), siblings=((1, 9), (0, 5), (~1, 7), (~0, 4)))
    kept = {0: (), 1: ((0, 5), (~0, 7)), 2: draft.siblings}
    assert draft.shortened(length).siblings == kept[length]


@pytest.mark.parametrize(("size", "ends"), [*product(range(1, 6), (1, 3, 8))])
def test_the_likeliest_tokens_are_the_best_tree_of_their_number(size: int, ends: int) -> None:
    from trees_of_offers import best_by_hand, offered, sums

    from drafters.branching import likeliest, ranked

    for seed in range(20):
        draft = offered(seed)
        chances = [offer.confidence for offer in draft.offers.nodes] if draft.offers else []
        nodes = ranked(draft, draft.confidence, chances, ends)[:size]
        made = likeliest(draft, size, ends, draft.confidence)
        assert made.size == len(nodes)
        assert sum(node.gain for node in nodes) == pytest.approx(sums(draft, made))
        if ends == 8:
            assert sums(draft, made) == pytest.approx(best_by_hand(draft, size))
