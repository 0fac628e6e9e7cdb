"""Proof that the proofs can fail: each known way to get an accept rule wrong is built in, and a check must notice.

The checks, by name:
    bias              every path summed: half the sum of all differences from plain decoding's law (`enumeration`)
    tokens_a_round    how much a rule keeps, against what theory says of it

`test_broken_rules_in_use` has those that take real noise or a model to show; `test_broken_on_purpose` the coupled rule.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from enumeration import (
    Arbitrary,
    Text,
    World,
    always,
    bias,
    block_reach,
    distribution,
    drawn,
    likeliest,
    overlap,
    replayed,
    residual_reach,
    second_chance,
    tokens_a_round,
)

from app.engine.decoding import judging_noise as noise_source
from app.engine.decoding import verify as verify_module
from app.engine.decoding.judging_noise import JudgingNoise, SeededNoise
from app.engine.decoding.rules import Block, accept_chance, residual
from app.engine.decoding.verify import Rows, Verdict, verify
from drafters.base import Draft
from models.base import Logits
from models.sampling.accept import Accept
from models.sampling.distribution import Distribution, excess

Patch = pytest.MonkeyPatch
EXACT = (Accept.RESIDUAL, Accept.BLOCK)
TARGET, DRAFT = Arbitrary(("target", 1), 4), Arbitrary(("draft", 1), 4)
NOTICEABLE = Fraction(1, 100)
ONE, TWO = drawn(DRAFT, 1), drawn(DRAFT, 2)
DOUBLED = drawn(DRAFT, 2, siblings=(0, 1))


def rule(which: Accept, judge: Callable[..., Verdict] = verify) -> World:
    return World(TARGET, TWO, which, judge=judge)


@pytest.mark.parametrize("world", [rule(Accept.RESIDUAL), rule(Accept.BLOCK), World(TARGET, DOUBLED)])
def test_the_intact_rules_are_exact_on_the_worlds_used_here(world: World) -> None:
    assert bias(world, 3) == 0


# --- drafts that are not what they say --------------------------------------------------------------------------------


@pytest.mark.parametrize("which", EXACT)
def test_bias_shows_greedy_guesses_that_claim_to_be_drawn(which: Accept) -> None:
    assert bias(World(TARGET, likeliest(DRAFT, 2, probs=True), which), 3) > NOTICEABLE
    assert bias(World(TARGET, likeliest(DRAFT, 2, probs=False), which), 3) == 0


@pytest.mark.parametrize("which", EXACT)
def test_bias_shows_a_guess_that_is_dropped_after_it_was_drawn(which: Accept) -> None:
    unlikely = lambda _, prob: prob < Fraction(1, 4)  # noqa: E731
    assert bias(World(TARGET, drawn(DRAFT, 2, stop=unlikely, dropping=True), which), 3) > NOTICEABLE
    assert bias(World(TARGET, drawn(DRAFT, 2, stop=unlikely), which), 3) == 0


def cut_away(text: Text) -> Distribution:
    """Leave out the least likely token: what a truncation serves."""
    said = TARGET(text)
    return distribution(*[prob if prob > min(said.probs) else 0 for prob in said.probs], listed=False)


@pytest.mark.parametrize("which", EXACT)
def test_bias_shows_a_draft_that_was_cut_and_says_it_was_not(which: Accept) -> None:
    assert bias(World(TARGET, drawn(cut_away, 2, claimed=TARGET), which), 3) > NOTICEABLE
    assert bias(World(TARGET, drawn(cut_away, 2), which), 3) == 0


@pytest.mark.parametrize("which", EXACT)
def test_bias_shows_drafts_judged_by_the_target_before_its_cuts(monkeypatch: Patch, which: Accept) -> None:
    world = World(cut_away, TWO, which)
    assert bias(world, 3) == 0

    def before_cuts(self: Rows, place: int) -> Distribution:
        last = place == len(self.draft.tokens)
        return INTACT_SERVED(self, place) if last else TARGET(tuple(self.logits[place]))

    monkeypatch.setattr(Rows, "served", before_cuts)
    assert bias(world, 3) > NOTICEABLE


INTACT_SERVED = Rows.served

# --- the residual rule ------------------------------------------------------------------------------------------------


def unnormalised(target: Distribution, draft: Distribution, scale: Any = 1) -> Distribution:
    """Draw by adding up weights that sum to less than 1: what is missing falls to the last token."""
    ids, weights = excess(target, draft, scale)
    weights[-1] += 1 - weights.sum()
    return Distribution(ids, weights)


def from_the_target(target: Distribution, _: Distribution, scale: Any = 1) -> Distribution:  # noqa: ARG001
    return target


def without_the_proposal(target: Distribution, draft: Distribution, scale: Any = 1) -> Distribution:  # noqa: ARG001
    """Rule out what the draft likes best, and leave all else as it is."""
    return target.without(int(draft.ids[np.argmax(draft.probs)])) or target


@pytest.mark.parametrize("which", EXACT)
@pytest.mark.parametrize("broken", [unnormalised, from_the_target, without_the_proposal])
def test_bias_shows_a_replacement_that_is_not_drawn_from_the_residual(
    monkeypatch: Patch, broken: Callable[..., Distribution], which: Accept
) -> None:
    monkeypatch.setattr(verify_module, "residual", broken)
    assert bias(rule(which), 3) > NOTICEABLE


@pytest.mark.parametrize(
    "broken",
    [
        lambda target_prob, draft_prob: min(1, draft_prob / target_prob),
        lambda target_prob, _: target_prob,
        lambda target_prob, draft_prob: int(target_prob >= draft_prob),
    ],
    ids=["upside down", "the target's own chance", "no coin"],
)
def test_bias_shows_another_accept_chance(monkeypatch: Patch, broken: Callable[[Any, Any], Any]) -> None:
    monkeypatch.setattr(verify_module, "accept_chance", broken)
    assert bias(rule(Accept.RESIDUAL), 3) > NOTICEABLE


def test_a_coin_that_may_equal_its_chance_lets_the_impossible_happen(monkeypatch: Patch) -> None:
    # Odds of 2**-64 a coin: no count would ever show it, so the smallest coin is asked for.
    monkeypatch.setattr(noise_source, "uniform", lambda *_: 0.0)
    target, draft = (Distribution(np.arange(2), np.array(probs)) for probs in ([0.0, 1.0], [0.5, 0.5]))
    rows, proposal = [(), (0,)], Draft((0,), (draft,))
    for which in EXACT:
        world = World(lambda _: target, TWO, which)
        assert judged(world, rows, proposal, SeededNoise(1, 0)).emitted(proposal) == (1,)
        assert judged(world, rows, proposal, AtMost(1, 0)).emitted(proposal)[0] == 0, (
            "a token that the target rules out"
        )


class AtMost(SeededNoise):
    def happens(self, chance: Any, place: int, turn: int = 0) -> bool:
        return noise_source.uniform(self._noise_source, place, turn) <= chance


@dataclass(frozen=True, slots=True)
class Looked:
    """A sampler that looks its rows up."""

    world: World

    @property
    def accept(self) -> Accept:
        return self.world.rule

    def served(self, row: Text, _: Sequence[int], __: Sequence[int] = ()) -> Distribution:
        return self.world.target(row)


def judged(world: World, rows: Sequence[Text], draft: Draft, chance: JudgingNoise) -> Verdict:
    return verify(rows, draft, Looked(world), (), chance)  # type: ignore[arg-type]


# --- rows, bonus, history ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", EXACT)
@pytest.mark.parametrize("step", [1, -1])
def test_bias_shows_rows_that_are_off_by_one(which: Accept, step: int) -> None:
    def shifted(rows: list[Text], *rest: Any) -> Verdict:
        return verify([*rows[-step:], *rows[:-step]], *rest)  # type: ignore[arg-type]

    assert bias(rule(which, shifted), 3) > NOTICEABLE


@pytest.mark.parametrize("which", EXACT)
def test_bias_shows_a_bonus_from_the_last_guesss_row(monkeypatch: Patch, which: Accept) -> None:
    def bonus_row(self: Rows, place: int) -> Distribution:
        return INTACT_SERVED(self, min(place, len(self.draft.tokens) - 1))

    monkeypatch.setattr(Rows, "served", bonus_row)
    assert bias(rule(which), 3) > NOTICEABLE


@pytest.mark.parametrize("which", EXACT)
def test_tokens_a_round_show_a_missing_bonus(which: Accept) -> None:
    def no_bonus(rows: Logits, draft: Draft, *rest: Any) -> Verdict:
        verdict = verify(rows, draft, *rest)
        k = len(draft.tokens)
        return Verdict(k - 1, draft.tokens[-1], is_bonus=False) if verdict.accepted == k else verdict

    theory = {Accept.RESIDUAL: residual_reach, Accept.BLOCK: block_reach}[which]
    assert bias(rule(which, no_bonus), 3) == 0, "the law can't show it: plain decoding goes on from there"
    assert tokens_a_round(rule(which, no_bonus)) < 1 + sum(theory(TARGET, DRAFT, 2)) - NOTICEABLE
    assert tokens_a_round(rule(which)) == 1 + sum(theory(TARGET, DRAFT, 2))


def rarer(said: Distribution, history: Text) -> Distribution:
    """Halve the weight of every token seen."""
    probs = zip(said.ids.tolist(), said.probs, strict=True)
    return distribution(*[prob / 2 if token in history else prob for token, prob in probs])


@pytest.mark.parametrize("which", EXACT)
def test_bias_shows_penalties_that_were_advanced_by_rejected_tokens(monkeypatch: Patch, which: Accept) -> None:
    world = replace(rule(which), penalise=rarer)
    assert bias(world, 3) == 0

    def all_is_history(self: Rows, place: int) -> Distribution:
        return self.sampler.served(self.logits[place], self.tokens, self.draft.tokens)

    monkeypatch.setattr(Rows, "served", all_is_history)
    assert bias(world, 3) > NOTICEABLE
    assert bias(rule(which), 3) == 0, "without penalties history does not matter"


# --- second guesses ---------------------------------------------------------------------------------------------------


def test_bias_shows_a_second_guess_judged_as_if_the_first_could_come_again(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Distribution, "without", lambda self, _: self)
    assert bias(World(TARGET, DOUBLED), 3) > NOTICEABLE


def second_step(
    replace_by: Callable[[Distribution, Distribution, Distribution], tuple[Any, Any]],
) -> Callable[..., Verdict]:
    """Return the residual rule for one guess and a second, where a function gives what is judged and what is left."""

    def judge(rows: list[Text], draft: Draft, sampler: Any, tokens: Text, chance: JudgingNoise) -> Verdict:
        target, drawn_from, proposal = sampler.served(rows[0], tokens), draft.drawn_from(0), draft.tokens[0]
        if chance.happens(accept_chance(target.of(proposal), drawn_from.of(proposal)), 0):
            return Verdict(1, chance.draw(sampler.served(rows[1], tokens, (proposal,)), 1), is_bonus=True)
        others = drawn_from.without(proposal)
        ((_, second),) = draft.siblings
        judged_by, left = replace_by(target, drawn_from, others)
        if chance.happens(accept_chance(judged_by.of(second), others.of(second)), 0, turn=1):
            return Verdict(
                0, chance.draw(sampler.served(rows[2], tokens, (second,)), 1), is_bonus=True, branch=(second,)
            )
        return Verdict(0, chance.draw(left, 0), is_bonus=False)

    return judge


def right_steps(target: Distribution, drawn_from: Distribution, others: Distribution) -> tuple[Any, Any]:
    first = residual(target, drawn_from)
    return first, residual(first, others)


def second_residual_skipped(target: Distribution, drawn_from: Distribution, _: Distribution) -> tuple[Any, Any]:
    return residual(target, drawn_from), residual(target, drawn_from)


def first_residual_skipped(target: Distribution, drawn_from: Distribution, others: Distribution) -> tuple[Any, Any]:  # noqa: ARG001
    return target, residual(target, others)


def test_bias_shows_a_residual_that_is_skipped_between_guesses() -> None:
    doubled = drawn(DRAFT, 1, siblings=(0,))
    assert bias(World(TARGET, doubled, judge=second_step(right_steps)), 2) == 0
    assert bias(World(TARGET, doubled, judge=second_step(second_residual_skipped)), 2) > NOTICEABLE
    assert bias(World(TARGET, doubled, judge=second_step(first_residual_skipped)), 2) > NOTICEABLE


def test_bias_shows_one_coin_for_both_guesses() -> None:
    class OneCoin:
        def __init__(self, fate: JudgingNoise) -> None:
            self._fate = fate
            self.draw = fate.draw

        def happens(self, chance: Any, place: int, turn: int = 0) -> bool:  # noqa: ARG002
            return self._fate.happens(chance, place)

    def judge(rows: Any, draft: Draft, sampler: Any, tokens: Text, fate: JudgingNoise) -> Verdict:
        return verify(rows, draft, sampler, tokens, OneCoin(fate))

    assert bias(World(TARGET, DOUBLED, judge=judge), 3) > NOTICEABLE


def test_tokens_a_round_show_a_drawn_draft_that_is_judged_as_if_it_were_certain() -> None:
    forgotten = World(TARGET, ONE, judge=lambda rows, draft, *rest: verify(rows, replace(draft, probs=None), *rest))
    assert bias(forgotten, 2) == 0, "it is exact, but wasteful"
    assert tokens_a_round(World(TARGET, ONE)) == 1 + overlap(TARGET(()), DRAFT(()))
    assert tokens_a_round(forgotten) < 1 + overlap(TARGET(()), DRAFT(())) - NOTICEABLE


def test_tokens_a_round_show_second_guesses_that_are_never_kept() -> None:
    doubled = World(TARGET, drawn(DRAFT, 1, siblings=(0,)))
    theory = 1 + overlap(TARGET(()), DRAFT(())) + second_chance(TARGET(()), DRAFT(()))
    assert tokens_a_round(doubled) == theory
    no_seconds = replace(doubled, judge=lambda rows, draft, *rest: verify(rows, replace(draft, siblings=()), *rest))
    assert bias(no_seconds, 2) == 0
    assert tokens_a_round(no_seconds) < theory - NOTICEABLE


# --- the block rule ---------------------------------------------------------------------------------------------------


def first_failure_ends(rows: Rows, chance: JudgingNoise) -> Verdict:
    """Keep tokens up to the first coin that does not come up, where the last that does should count."""
    k = len(rows.draft.tokens)
    targets = [rows.served(place) for place in range(k)]
    drafts = [rows.draft.drawn_from(place) for place in range(k)]
    whole = verify_module.block(targets, drafts, rows.draft.tokens)
    kept = next((place for place, odds in enumerate(whole.chances) if not chance.happens(odds, place)), k)
    if kept == k:
        return verify_module._whole(rows, chance)
    left = verify_module.residual(targets[kept], drafts[kept], whole.scales[kept])
    return Verdict(kept, chance.draw(left, kept), is_bonus=False)


def test_bias_shows_a_block_that_ends_at_the_first_failure(monkeypatch: Patch) -> None:
    monkeypatch.setattr(verify_module, "_block", first_failure_ends)
    assert bias(rule(Accept.BLOCK), 3) > NOTICEABLE


def uncapped(targets: Sequence[Distribution], drafts: Sequence[Distribution], tokens: Sequence[int]) -> Block:
    """Multiply all ratios, also above 1: a good token then is credit for a bad one after it."""
    scales: list[Any] = [1]
    for target, draft, token in zip(targets, drafts, tokens, strict=False):
        scales.append(scales[-1] * target.of(token) / draft.of(token))
    chances: list[Any] = []
    for scale, target, draft in zip(scales[1:], targets[1:], drafts[1:], strict=False):
        left = excess(target, draft, scale)[1].sum()
        chances.append(1 if scale >= 1 else left / (left + 1 - scale))
    return Block(tuple(scales), (*chances, *scales[len(tokens) :]))


def token_by_token(targets: Sequence[Distribution], drafts: Sequence[Distribution], tokens: Sequence[int]) -> Block:
    """Judge each place by its own ratio, as if those before it had been kept for sure."""
    ratios = [accept_chance(t.of(token), d.of(token)) for t, d, token in zip(targets, drafts, tokens, strict=False)]
    return Block((1, *ratios), tuple(ratios))


@pytest.mark.parametrize("broken", [uncapped, token_by_token])
def test_bias_shows_a_block_with_other_chances(monkeypatch: Patch, broken: Callable[..., Block]) -> None:
    monkeypatch.setattr(verify_module, "block", broken)
    assert bias(rule(Accept.BLOCK), 3) > NOTICEABLE


def test_bias_shows_a_block_whose_residual_lost_its_scale(monkeypatch: Patch) -> None:
    monkeypatch.setattr(verify_module, "residual", lambda target, draft, _: residual(target, draft))
    assert bias(rule(Accept.BLOCK), 3) > NOTICEABLE


def test_bias_shows_drafts_that_are_drawn_with_the_noise_of_the_last_round() -> None:
    target, draft = Arbitrary("target", 2), always(2, 1)
    assert bias(World(target, replayed(draft, 2), Accept.BLOCK), 4, rounds=2) > NOTICEABLE
    assert bias(World(target, drawn(draft, 2), Accept.BLOCK), 4, rounds=2) == 0


def test_bias_shows_coins_that_a_later_round_tosses_again() -> None:
    class ByPosition:
        def __init__(self, fate: Any) -> None:
            self._fate = fate
            self.draw = fate.draw

        def happens(self, chance: Any, place: int, turn: int = 0) -> bool:  # noqa: ARG002
            return bool(self._fate.toss(chance, self._fate.start + place))

    def judge(rows: Any, draft: Draft, sampler: Any, tokens: Text, fate: JudgingNoise) -> Verdict:
        return verify(rows, draft, sampler, tokens, ByPosition(fate))

    target, draft = Arbitrary("target", 2), Arbitrary("draft", 2)
    world = World(target, drawn(draft, 2), Accept.BLOCK, judge=judge)
    assert bias(world, 4, rounds=1) == 0, "one round can't show it"
    assert bias(world, 4, rounds=2) > NOTICEABLE
