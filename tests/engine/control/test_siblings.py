"""Siblings beside a draft: which are worth a row, what is learnt of them, and which drafts may have them."""

from dataclasses import replace
from itertools import combinations, product

import pytest
from adapting import controller, observe, select

from app.engine.constants import MARGIN
from app.engine.control.acceptance import Acceptance
from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.control.draft_model_cost import ModelCost
from app.engine.control.expected_gain import best_siblings
from app.engine.conversation.messages import Said
from app.engine.costs.pass_cost import VerifyCurve
from app.engine.decoding.controller import FixedLength, with_siblings
from app.engine.decoding.round import Round
from app.engine.decoding.stats import Stats
from app.engine.decoding.verify import Verdict
from app.wording.report import round_record
from drafters.base import Draft
from models.sampling.distribution import one_hot

FLAT = VerifyCurve({1: 1.0, 32: 1.3})
STEEP = VerifyCurve({1: 1.0, 32: 32.0})
CLIFF = VerifyCurve({1: 1.0, 4: 1.1, 5: 3.0, 32: 10.0})
STEP = VerifyCurve({1: 1.0, 2: 1.9, 32: 2.0})
MODEL = "model:tiny"
DRAFT = Draft((1, 2, 3), confidence=(0.9, 0.6, 0.5), source=MODEL, runners_up=(11, None, 13))


def test_a_second_guess_stands_beside_the_place_it_is_for() -> None:
    draft = with_siblings(DRAFT, (0, 2))
    assert draft.siblings == ((0, 11), (2, 13))
    assert draft.checked == (1, 2, 3, 11, 13)
    assert draft.parents == (-1, 0, 1, -1, 1)
    assert draft.size == 5
    assert [draft.beside(row) for row in range(4)] == [[(4, 11)], [], [(5, 13)], []]


def test_a_place_without_a_second_choice_gets_no_sibling() -> None:
    assert with_siblings(DRAFT, (0, 1, 2, 3)).siblings == ((0, 11), (2, 13))
    assert with_siblings(Draft((1, 2)), (0, 1)).siblings == ()
    assert Draft((1, 2)).parents == ()


def test_a_shorter_draft_keeps_the_siblings_beside_it() -> None:
    draft = replace(with_siblings(DRAFT, (0, 2)), probs=(one_hot(1), one_hot(2), one_hot(3)))
    short = draft.shortened(2)
    assert short == Draft((1, 2), (one_hot(1), one_hot(2)), (0.9, 0.6), MODEL, (11, None), ((0, 11),))  # type: ignore[comparison-overlap]


def worth(
    places: tuple[int, ...], chances: list[float], second: float, curve: VerifyCurve, measured_cost: float
) -> float:
    """Return what siblings at these places are worth, from first principles: every outcome, with its chance."""
    one, width = curve.seconds(1), len(chances) + 1
    total, reached = 0.0, 1.0
    for place, chance in enumerate(chances):
        if place in places:
            total += reached * (1 - chance) * second * (1 - measured_cost * (curve.seconds(2) - one))
        reached *= chance
    return total - measured_cost * (curve.seconds(width + len(places)) - curve.seconds(width))


@pytest.mark.parametrize("curve", [FLAT, STEEP, CLIFF, STEP], ids=["flat", "steep", "cliff", "step"])
def test_the_siblings_chosen_are_worth_most_of_all_choices(curve: VerifyCurve) -> None:
    for chances, second, room in product(([0.9, 0.6, 0.5], [0.3], [0.5] * 4, [1.0, 0.2]), (0.1, 0.5), (0, 1, 8)):
        chosen = best_siblings(chances, range(len(chances)), second, curve, 1.0, room)
        every = [c for n in range(min(room, len(chances)) + 1) for c in combinations(range(len(chances)), n)]
        best = max(worth(places, chances, second, curve, 1.0) for places in every)
        assert chosen in every
        assert worth(chosen, chances, second, curve, 1.0) == pytest.approx(best if best > MARGIN else 0.0)


def test_siblings_are_chosen_where_rows_are_cheap_and_not_where_they_are_dear() -> None:
    assert best_siblings([0.6, 0.6], (0, 1), 0.5, FLAT, 1.0, 8) == (0, 1)
    assert best_siblings([0.6, 0.6], (0, 1), 0.5, STEEP, 1.0, 8) == ()
    assert best_siblings([0.6, 0.6], (0, 1), 0.0, FLAT, 1.0, 8) == ()
    assert best_siblings([0.6, 0.6], (1,), 0.5, FLAT, 1.0, 8) == (1,)


def test_how_often_a_second_guess_is_right_is_learnt_where_the_first_was_wrong() -> None:
    acceptance = Acceptance()
    before = acceptance.second(MODEL)
    for _ in range(20):
        acceptance.observe(DRAFT, (11,))
    assert acceptance.second(MODEL) > 0.85 > before
    for _ in range(60):
        acceptance.observe(DRAFT, (29,))
    assert acceptance.second(MODEL) < 0.15
    for _ in range(20):
        acceptance.observe(DRAFT, (1, 2, 3, 4))
    assert acceptance.second(MODEL) < 0.15, "where the first was right, nothing is learnt of the second"
    assert acceptance.second("other") == before


def new(curve: VerifyCurve, branches: int = 8, longest: int = 31) -> AdaptiveController:
    adaptive = controller(curve, longest, ModelCost(MODEL, VerifyCurve({1: 0.05, 32: 0.1})))
    adaptive.use(replace(adaptive.settings, max_siblings=branches))
    adaptive.begin()
    return adaptive


def round_of(draft: Draft, sibling: int | None, width: int) -> Round:
    verdict = Verdict(0, 5, is_bonus=sibling is not None, branch=() if sibling is None else (sibling,))
    return Round(draft, verdict, verdict.emitted(draft), 10, 0.1, 1.0, 0.0, None, width)


def test_a_controller_adds_siblings_where_they_pay() -> None:
    assert select(new(FLAT), DRAFT, 31).siblings == ((0, 11), (2, 13))
    assert select(new(STEEP), DRAFT, 31).siblings == ()
    assert select(new(FLAT, branches=0), DRAFT, 31).siblings == ()
    assert select(new(FLAT, branches=1), DRAFT, 31).siblings == ((2, 13),)


@pytest.mark.parametrize("room", range(1, 7))
def test_siblings_keep_within_the_room_of_the_pass(room: int) -> None:
    draft = Draft((1, 2, 3), confidence=(0.9, 0.6, 0.5), source=MODEL, runners_up=(11, 12, 13))
    assert select(new(FLAT), draft.shortened(room), room).size <= room


def test_the_token_that_is_read_again_after_a_sibling_takes_its_place_in_the_pass() -> None:
    adaptive = new(FLAT, longest=6)
    assert adaptive.plan().limit == 6
    observe(adaptive, round_of(with_siblings(DRAFT, (0,)), sibling=11, width=5))
    assert adaptive.plan().limit == 5
    observe(adaptive, round_of(DRAFT, sibling=None, width=5))
    assert adaptive.plan().limit == 6
    observe(adaptive, round_of(with_siblings(DRAFT, (0,)), sibling=11, width=5))
    adaptive.begin()
    assert adaptive.plan().limit == 6


def test_a_drawn_draft_is_never_shortened_by_what_was_drawn() -> None:
    drawn = replace(DRAFT, confidence=(0.01, 0.01, 0.01), probs=(one_hot(1), one_hot(2), one_hot(3)))
    assert select(new(STEEP), drawn, 31).tokens == (1, 2, 3)
    assert select(new(STEEP), replace(drawn, probs=None), 31).tokens == ()


def test_a_fixed_length_has_as_many_siblings_as_it_was_told() -> None:
    draft = Draft((1, 2, 3, 4, 5), source=MODEL, runners_up=(11, 12, 13, 14, 15))
    control = FixedLength(3, siblings=2)
    assert control.plan().limit == 5
    assert control.select(draft, 5).checked == (1, 2, 3, 11, 12)
    assert control.select(draft, 4).checked == (1, 2, 3, 11)
    assert FixedLength(3).select(draft.shortened(3), 3).siblings == ()


def test_a_record_of_a_round_accounts_for_all_that_was_drafted_and_accepted() -> None:
    draft = with_siblings(DRAFT, (0, 2))
    round_ = round_of(draft, sibling=11, width=6)
    record, stats = round_record(Said("", round_)), Stats()
    stats.observe(round_)
    assert len(record["draft"]) + len(record["siblings"]) == stats.drafted
    assert record["accepted"] == stats.accepted == 1
    place = record["accepted"] - 1
    assert (place, record["tokens"][place]) in record["siblings"]
