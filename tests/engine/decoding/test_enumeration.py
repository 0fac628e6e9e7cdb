"""The accept rules are exact: every path is summed, in fractions, over the very functions that judge real drafts."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from enumeration import (
    Arbitrary,
    Fate,
    Model,
    Text,
    World,
    always,
    bias,
    block_reach,
    coupled_overlap,
    distribution,
    drawn,
    emitted,
    every_path,
    extended,
    given,
    items,
    likeliest,
    nothing,
    overlap,
    race,
    replayed,
    residual_reach,
    second_chance,
    tokens_a_round,
)

from app.engine.decoding.rules import accept_chance, residual
from app.engine.decoding.verify import Verdict, verify
from drafters.base import Draft
from models.sampling.accept import Accept
from models.sampling.distribution import Distribution

EXACT = (Accept.RESIDUAL, Accept.BLOCK)
HALF = Fraction(1, 2)


def of(said: Distribution) -> dict[int, Any]:
    return dict(items(said))


# --- the machine that enumerates --------------------------------------------------------------------------------------


def test_every_path_is_taken_once_and_its_weights_sum_to_one() -> None:
    def play(fate: Fate) -> tuple[bool, bool, int]:
        return (
            fate.happens(Fraction(1, 3), 0),
            fate.happens(Fraction(1, 4), 1),
            fate.draw(distribution(1, 2, 3), 0),
        )

    paths = {outcome: weight for weight, outcome in every_path(play)}
    assert len(paths) == len(list(every_path(play))) == 12
    assert sum(paths.values()) == 1
    assert paths[True, False, 2] == Fraction(1, 3) * Fraction(3, 4) * Fraction(1, 2)


def test_what_has_no_chance_is_no_path() -> None:
    paths = list(every_path(lambda fate: (fate.happens(0, 0), fate.happens(1, 1), fate.draw(distribution(0, 1, 0), 0))))
    assert paths == [(1, (False, True, 1))]


def test_a_coin_tossed_twice_is_one_coin_and_another_turn_is_another() -> None:
    def twice(turn: int) -> dict[tuple[bool, bool], Fraction]:
        paths = every_path(lambda fate: (fate.happens(HALF, 0), fate.happens(Fraction(1, 4), 0, turn)))
        return {outcome: weight for weight, outcome in paths}

    assert twice(0) == {(True, True): Fraction(1, 4), (True, False): Fraction(1, 4), (False, False): HALF}
    assert twice(1)[True, True] == Fraction(1, 8)


def test_noise_that_serves_twice_is_refused() -> None:
    fate = Fate()
    fate.draw(distribution(1, 1), 3)
    with pytest.raises(AssertionError, match="position 3"):
        fate.draw(distribution(1, 1), 3)


def test_a_draft_that_is_emitted_unchecked_is_biased() -> None:
    class Accepts:
        next_token = 0

        def __init__(self, draft: Draft) -> None:
            self._draft = draft

        def emitted(self, _: Draft) -> Text:
            return self._draft.tokens

    target, draft = always(1, 3), always(3, 1)
    world = World(target, drawn(draft, 1), judge=lambda _, made, *__: Accepts(made))
    assert bias(world, 1) == HALF


def test_plain_decoding_is_what_it_is_compared_with() -> None:
    target = Arbitrary("plain", 3)
    law = extended({(): Fraction(1)}, World(target, nothing), 2)
    assert law == {
        (a, b): target(()).of(a) * target((a,)).of(b) for a, b in product(range(3), repeat=2)
    }  # fmt: skip


# --- worked examples --------------------------------------------------------------------------------------------------


def test_a_guess_that_the_target_finds_half_as_likely_is_kept_half_the_time() -> None:
    assert accept_chance(Fraction("0.15"), Fraction("0.30")) == HALF
    world = World(always("0.15", "0.85"), drawn(always("0.30", "0.70"), 1))
    kept = sum(chance for text, chance in emitted(world).items() if text[0] == 0 and len(text) == 2)
    assert kept == Fraction("0.30") * HALF
    assert bias(world, 2) == 0


def test_all_of_the_residual_can_be_on_one_token() -> None:
    target, draft = distribution("0.4", "0.5", "0.1"), distribution("0.6", "0.3", "0.1")
    assert of(residual(target, draft)) == {1: 1}
    assert of(residual(draft, target)) == {0: 1}
    assert overlap(target, draft) == Fraction("0.8")
    replaced = {text for text in emitted(World(lambda _: target, drawn(lambda _: draft, 1))) if len(text) == 1}
    assert replaced == {(1,)}


# --- exact to the last digit ------------------------------------------------------------------------------------------

SIZES = ((2, 1), (2, 4), (3, 1), (3, 2), (3, 3), (4, 2))
"""Vocabulary and draft length."""
ZEROS = {"all possible": (0, True), "some impossible": (4, True), "some cut away": (4, False)}


@pytest.mark.parametrize(("zeros", "listed"), ZEROS.values(), ids=ZEROS)
@pytest.mark.parametrize(("size", "length"), SIZES)
@pytest.mark.parametrize("rule", EXACT)
def test_drawn_drafts_leave_the_law_as_it_is(rule: Accept, size: int, length: int, zeros: int, listed: bool) -> None:
    target = Arbitrary("target", size, zeros=zeros, listed=listed)
    draft = Arbitrary("draft", size, zeros=zeros, listed=listed)
    assert bias(World(target, drawn(draft, length), rule), length + 1) == 0


PLACES = ((3, 1, (0,)), (3, 2, (0,)), (3, 2, (1,)), (3, 2, (0, 1)), (4, 1, (0,)), (2, 3, (0, 1, 2)))


@pytest.mark.parametrize(("zeros", "listed"), ZEROS.values(), ids=ZEROS)
@pytest.mark.parametrize(("size", "length", "places"), PLACES)
def test_second_guesses_leave_the_law_as_it_is(
    size: int, length: int, places: Sequence[int], zeros: int, listed: bool
) -> None:
    target = Arbitrary("target", size, zeros=zeros, listed=listed)
    draft = Arbitrary("draft", size, zeros=zeros, listed=listed)
    world = World(target, drawn(draft, length, siblings=places))
    assert bias(world, length + 1) == 0
    assert tokens_a_round(world) > tokens_a_round(World(target, drawn(draft, length))) or zeros


@pytest.mark.parametrize("rule", [*EXACT, Accept.COUPLED])
@pytest.mark.parametrize("tokens", [*product(range(2), repeat=2), (2, 0, 1), (1, 1, 1, 1)])
def test_deterministic_drafts_leave_the_law_as_it_is(rule: Accept, tokens: Text) -> None:
    target = Arbitrary("target", 3, zeros=3)
    assert bias(World(target, given(*tokens), rule), len(tokens) + 1) == 0


@pytest.mark.parametrize("rule", [*EXACT, Accept.COUPLED])
def test_the_draft_models_likeliest_tokens_are_a_deterministic_draft(rule: Accept) -> None:
    target, draft = Arbitrary("target", 3), Arbitrary("draft", 3)
    assert bias(World(target, likeliest(draft, 3), rule), 4) == 0


@pytest.mark.parametrize("rule", [Accept.COUPLED, Accept.RESIDUAL])
def test_second_guesses_of_a_deterministic_draft_leave_the_law_as_it_is(rule: Accept) -> None:
    target = Arbitrary("target", 3)
    draft = Draft((0, 1), siblings=((0, 2), (1, 0)))
    world = World(target, lambda _, __: draft, rule)
    assert bias(world, 3) == 0
    assert any(text[:1] == (2,) and len(text) == 2 for text in emitted(world)), "a second guess comes true"


@pytest.mark.parametrize("rule", Accept)
def test_an_empty_draft_is_plain_decoding(rule: Accept) -> None:
    world = World(Arbitrary("target", 3), nothing, rule)
    assert bias(world, 1) == 0
    assert tokens_a_round(world) == 1


@pytest.mark.parametrize("rule", EXACT)
def test_a_draft_that_is_the_target_is_kept_whole(rule: Accept) -> None:
    target = Arbitrary("target", 3)
    world = World(target, drawn(target, 3), rule)
    assert bias(world, 4) == 0
    assert tokens_a_round(world) == 4


ODD = {
    "the target's 0 is guessed": ((0, 1, 1), (1, 1, 0)),
    "the draft never says what the target may": ((1, 1, 1), (1, 1, 0)),
    "nothing in common": ((0, 0, 1), (1, 1, 0)),
    "certain target": ((0, 1, 0), (1, 1, 1)),
    "certain draft": ((1, 1, 1), (0, 1, 0)),
    "both certain of the same": ((0, 1, 0), (0, 1, 0)),
    "both certain of another": ((0, 1, 0), (1, 0, 0)),
}


@pytest.mark.parametrize(("target", "draft"), ODD.values(), ids=ODD)
@pytest.mark.parametrize("siblings", [(), (0,), (0, 1)])
@pytest.mark.parametrize("rule", EXACT)
def test_odd_distributions_leave_the_law_as_it_is(
    rule: Accept, siblings: Sequence[int], target: Sequence[int], draft: Sequence[int]
) -> None:
    siblings = siblings if rule is Accept.RESIDUAL else ()
    assert bias(World(always(*target), drawn(always(*draft), 2, siblings=siblings), rule), 3) == 0


@pytest.mark.parametrize("rule", EXACT)
def test_an_end_token_inside_a_draft_ends_the_text_there(rule: Accept) -> None:
    target, draft = Arbitrary("target", 3), Arbitrary("draft", 3)
    stopping = drawn(draft, 3, stop=lambda token, _: token == 2)
    for drafting in (
        stopping,
        drawn(draft, 3),
        given(0, 2, 1),
        given(
            2,
        ),
    ):
        world = World(target, drafting, rule, end=2)
        assert bias(world, 4) == 0
        assert not any(2 in text[:-1] for text in emitted(world))


def penalised(said: Distribution, history: Text) -> Distribution:
    """Halve the weight of every token seen."""
    weights = [
        prob / 2 if token in history else prob for token, prob in zip(said.ids.tolist(), said.probs, strict=True)
    ]
    return distribution(*weights)


@pytest.mark.parametrize("rule", EXACT)
def test_penalties_that_see_the_text_so_far_leave_the_law_as_it_is(rule: Accept) -> None:
    target, draft = Arbitrary("target", 3), Arbitrary("draft", 3)
    places = (0, 1) if rule is Accept.RESIDUAL else ()
    assert bias(World(target, drawn(draft, 2, siblings=places), rule, penalise=penalised), 3) == 0


# --- drafts that end where they like ----------------------------------------------------------------------------------


def unlikely(_: int, prob: Any) -> bool:
    return prob < Fraction(1, 4)


@pytest.mark.parametrize("rule", EXACT)
def test_a_draft_may_end_because_of_the_tokens_that_were_drawn(rule: Accept) -> None:
    for seed in range(3):
        target, draft = Arbitrary(("target", seed), 3), Arbitrary(("draft", seed), 3)
        world = World(target, drawn(draft, 3, stop=unlikely), rule)
        lengths = {
            len(world.drafting(fate, ()).tokens) for fate in (Fate(script) for script in product(range(3), repeat=3))
        }
        assert len(lengths) > 1, "it has to stop now and then"
        assert bias(world, 4) == 0


@pytest.mark.parametrize("rule", EXACT)
def test_an_unlikely_token_that_is_dropped_after_it_was_drawn_bends_the_law(rule: Accept) -> None:
    for seed in range(3):
        target, draft = Arbitrary(("target", seed), 3), Arbitrary(("draft", seed), 3)
        assert bias(World(target, drawn(draft, 3, stop=unlikely, dropping=True), rule), 4) > Fraction(1, 50)


# --- several rounds ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", EXACT)
def test_two_rounds_leave_the_law_as_it_is(rule: Accept) -> None:
    target, draft = Arbitrary("target", 2), Arbitrary("draft", 2)
    assert bias(World(target, drawn(draft, 2), rule), 5, rounds=2) == 0


def test_two_rounds_with_second_guesses_leave_the_law_as_it_is() -> None:
    target, draft = Arbitrary("target", 3), Arbitrary("draft", 3)
    assert bias(World(target, drawn(draft, 1, siblings=(0,))), 4, rounds=2) == 0


def test_noise_that_comes_again_in_the_next_round_is_harmless_to_residual_and_bends_block() -> None:
    # Residual decides on a token without a look at those after it, so their noise is still news; block looks at all.
    target, draft = Arbitrary("target", 2), always(2, 1)
    assert bias(World(target, replayed(draft, 2)), 4, rounds=2) == 0
    again = World(target, replayed(draft, 2), Accept.BLOCK)
    assert bias(again, 4, rounds=2) > Fraction(1, 100)
    assert bias(again, 4, rounds=1) == 0, "one round can't show it"
    assert bias(World(target, drawn(draft, 2), Accept.BLOCK), 4, rounds=2) == 0


class Noticing:
    """Passes everything on to fate, and notes for which places tokens were drawn."""

    def __init__(self, fate: Fate) -> None:
        self._fate = fate
        self.places: list[int] = []
        self.happens = fate.happens

    def draw(self, said: Distribution, place: int) -> int:
        self.places.append(place)
        return self._fate.draw(said, place)


@pytest.mark.parametrize("rule", [*EXACT, Accept.TYPICAL])
def test_what_is_drawn_has_the_noise_of_the_place_where_it_stands(rule: Accept) -> None:
    def judge(rows: Any, made: Draft, sampler: Any, tokens: Text, fate: Fate) -> Verdict:
        noticing = Noticing(fate)
        verdict = verify(rows, made, sampler, tokens, noticing)
        assert noticing.places == [len(verdict.emitted(made)) - 1]
        return verdict

    siblings = (0, 1) if rule is Accept.RESIDUAL else ()
    drafting = drawn(Arbitrary("draft", 3), 2, siblings=siblings)
    kept = emitted(World(Arbitrary("target", 3, zeros=4), drafting, rule, judge=judge))
    assert {len(text) for text in kept} == {1, 2, 3}


# --- typical is not exact ---------------------------------------------------------------------------------------------


def test_the_typical_rule_bends_the_law() -> None:
    assert not Accept.TYPICAL.exact
    biases = [
        bias(World(Arbitrary(("target", seed), 3), drawn(Arbitrary(("draft", seed), 3), 2), Accept.TYPICAL), 3)
        for seed in range(5)
    ]
    assert min(biases) > Fraction(1, 20)
    assert bias(World(Arbitrary("target", 3), likeliest(Arbitrary("draft", 3), 2), Accept.TYPICAL), 3) > Fraction(1, 5)


# --- how much is kept -------------------------------------------------------------------------------------------------

INSTANCES = [(Arbitrary(("target", seed), 3), Arbitrary(("draft", seed), 3)) for seed in range(6)]


@pytest.mark.parametrize(("target", "draft"), INSTANCES)
def test_as_many_tokens_are_kept_as_theory_says(target: Model, draft: Model) -> None:
    one_by_one = tokens_a_round(World(target, drawn(draft, 3)))
    as_a_whole = tokens_a_round(World(target, drawn(draft, 3), Accept.BLOCK))
    assert one_by_one == 1 + sum(residual_reach(target, draft, 3))
    assert as_a_whole == 1 + sum(block_reach(target, draft, 3))


def test_a_block_keeps_at_least_as_many_tokens_and_some_more() -> None:
    pairs = [(sum(block_reach(*pair, 3)), sum(residual_reach(*pair, 3))) for pair in INSTANCES]
    pairs += [
        (sum(block_reach(target, draft, length)), sum(residual_reach(target, draft, length)))
        for seed in range(60)
        for size, length in ((2, 4), (3, 3), (4, 2))
        for target, draft in [(Arbitrary((seed, "t"), size, zeros=2), Arbitrary((seed, "d"), size, zeros=2))]
    ]
    assert all(as_a_whole >= one_by_one for as_a_whole, one_by_one in pairs)
    more = [as_a_whole / one_by_one for as_a_whole, one_by_one in pairs if as_a_whole > one_by_one]
    assert len(more) > len(pairs) / 2
    assert max(more) < Fraction(3, 2)
    # One token is judged alone either way.
    assert all(block_reach(*pair, 1) == residual_reach(*pair, 1) for pair in INSTANCES)


@pytest.mark.parametrize(("target", "draft"), INSTANCES)
def test_rules_that_look_at_the_draft_models_chances_keep_more_than_a_match_does(target: Model, draft: Model) -> None:
    forgotten = lambda rows, made, *rest: verify(rows, replace(made, probs=None), *rest)  # noqa: E731
    drawn_match = World(target, drawn(draft, 3), judge=forgotten)
    greedy_match = World(target, likeliest(draft, 3), Accept.COUPLED)
    assert bias(drawn_match, 4) == bias(greedy_match, 4) == 0
    residual_tokens = 1 + sum(residual_reach(target, draft, 3))
    assert residual_tokens > 1.4 * max(tokens_a_round(drawn_match), tokens_a_round(greedy_match))
    assert 1.01 < (1 + sum(block_reach(target, draft, 3))) / residual_tokens < 1.08


def test_a_second_guess_is_kept_as_often_as_theory_says() -> None:
    for seed in range(6):
        target, draft = Arbitrary(("target", seed), 4), Arbitrary(("draft", seed), 4)
        first, second = overlap(target(()), draft(())), second_chance(target(()), draft(()))
        assert first < first + second <= 1
        assert tokens_a_round(World(target, drawn(draft, 1, siblings=(0,)))) == 1 + first + second


# --- coupled: an exact formula, as the noise is continuous ------------------------------------------------------------


@pytest.mark.parametrize("zeros", [0, 4])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_a_race_with_the_same_noise_leaves_each_runner_its_own_law(size: int, zeros: int) -> None:
    for seed in range(5):
        target, draft = Arbitrary((seed, "t"), size, zeros=zeros)(()), Arbitrary((seed, "d"), size, zeros=zeros)(())
        joint = race(target, draft)
        assert all(sum(c for (x, _), c in joint.items() if x == token) == prob for token, prob in items(target))
        assert all(sum(c for (_, y), c in joint.items() if y == token) == prob for token, prob in items(draft))
        same = sum((chance for (x, y), chance in joint.items() if x == y), Fraction(0))
        assert coupled_overlap(target, draft) == pytest.approx(float(same), abs=1e-12)
        assert same <= overlap(target, draft), "no coupling agrees more often"
        distance = 1 - overlap(target, draft)
        assert same >= (1 - distance) / (1 + distance), "the bound of the paper"


@pytest.mark.parametrize(("size", "length"), [(2, 3), (3, 2), (4, 1)])
def test_drafts_made_with_the_targets_noise_leave_the_law_as_it_is(size: int, length: int) -> None:
    target, draft = Arbitrary("target", size, zeros=2), Arbitrary("draft", size, zeros=2)
    world = World(target, drawn(draft, length), Accept.COUPLED, drafted_by=draft)
    assert bias(world, length + 1) == 0
    first = sum(
        chance
        for text, chance in emitted(World(target, drawn(draft, 1), Accept.COUPLED, draft)).items()
        if len(text) == 2
    )
    assert float(first) == pytest.approx(coupled_overlap(target(()), draft(())), abs=1e-12)


def test_one_token_with_the_same_noise_by_numbers() -> None:
    # Two tokens: they part only where the noise's difference falls between the two log odds.
    target, draft = distribution(1, 1), distribution(2, 1)
    assert race(target, draft) == {(0, 0): HALF, (1, 0): Fraction(1, 6), (1, 1): Fraction(1, 3)}
    assert np.isclose(coupled_overlap(target, draft), 5 / 6)
