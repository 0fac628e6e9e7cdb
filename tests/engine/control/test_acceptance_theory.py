"""How much is accepted, against what theory says it should be: a rule can be exact and still throw guesses away.

Everything is the real thing but the models: the sampler's noise draws the drafts, its coins judge them. Counts may be
off by as much as happens once in a million; seeds are fixed, so it is the same count in every run.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from operator import mul

import numpy as np
import pytest
from binomial import bounds, chi_square_tail, fits, misfit
from enumeration import Model, block_reach, coupled_overlap, overlap, race, residual_reach, second_chance, second_place

from app.engine.decoding.controller import with_siblings
from app.engine.decoding.rules import typical_threshold
from app.engine.decoding.verify import Verdict, verify
from drafters.base import Draft
from models.sampling.accept import Accept
from models.sampling.distribution import Distribution
from models.sampling.sampler import Sampler, SamplingParams

LENGTH = 3
SIZE = 8
TRIALS = 1500
CONTEXT = (3, 1, 2)
SERVED = SamplingParams(temperature=0.7, top_k=6, top_p=0.95, min_p=0.02)
PENALISED = SamplingParams(1.0, top_k=5, top_p=1.0, min_p=0.0, repeat_penalty=3.0, presence_penalty=2.0)
ROWS = np.random.default_rng(7).normal(scale=1.3, size=(LENGTH + 1, SIZE)).astype(np.float32)
"""What the target says at each place, whatever was drafted before it."""
DRAFT_ROWS = (ROWS + np.random.default_rng(8).normal(size=ROWS.shape)).astype(np.float32)
RULES = (Accept.COUPLED, Accept.RESIDUAL, Accept.BLOCK)


# --- what the bounds are worth ----------------------------------------------------------------------------------------


def test_bounds_are_those_of_clopper_and_pearson() -> None:
    assert bounds(0, 10, 0.05) == pytest.approx((0, 1 - 0.025**0.1))
    assert bounds(10, 10, 0.05) == pytest.approx((0.025**0.1, 1))
    assert bounds(8, 20, 0.05) == pytest.approx((0.19119, 0.63946), abs=1e-5)
    low, high = bounds(2000, 4000)
    assert low == pytest.approx(1 - high)
    assert 0.455 < low < 0.465


def test_a_share_outside_its_bounds_does_not_fit() -> None:
    assert fits(2000, 4000, 0.47)
    assert not fits(2000, 4000, 0.455)
    assert not fits(2000, 4000, 0.545)


def test_odd_counts_are_unlikely() -> None:
    assert chi_square_tail(3.841459, 1) == pytest.approx(0.05, abs=1e-6)
    assert chi_square_tail(5.991465, 2) == pytest.approx(0.05, abs=1e-6)
    assert chi_square_tail(18.307038, 10) == pytest.approx(0.05, abs=1e-6)
    assert chi_square_tail(19.675138, 11) == pytest.approx(0.05, abs=1e-6)
    chances = {"a": 0.5, "b": 0.496, "c": 0.003, "d": 0.001, "never": 0.0}
    assert misfit({"a": 501, "b": 495, "c": 2, "d": 2}, chances) > 0.5
    assert misfit({"a": 590, "b": 405, "c": 5}, chances) < 1e-6
    assert misfit({"a": 500, "b": 495, "c": 4, "never": 1}, chances) == 0


# --- many seeds -------------------------------------------------------------------------------------------------------


def drafted(sampler: Sampler, length: int = LENGTH) -> Draft:
    """Return a draft as a draft model makes it."""
    tokens: list[int] = []
    proposals = []
    for row in DRAFT_ROWS[:length]:
        proposals.append(sampler.proposal(row, CONTEXT, tokens))
        tokens.append(proposals[-1].token)
    drawn_from = tuple(proposal.drawn_from for proposal in proposals if proposal.drawn_from is not None)
    return Draft(tuple(tokens), drawn_from or None, runners_up=tuple(proposal.runner_up for proposal in proposals))


def judged(rule: Accept, seed: int, make: Callable[[Sampler], Draft], params: SamplingParams) -> Verdict:
    sampler = Sampler(replace(params, seed=seed), rule)
    draft = make(sampler)
    rows = [*ROWS[: len(draft.tokens) + 1], *(ROWS[place + 1] for place, _ in draft.siblings)]
    return verify(np.stack(rows), draft, sampler, CONTEXT)


def verdicts(rule: Accept, make: Callable[[Sampler], Draft], params: SamplingParams = SERVED) -> list[Verdict]:
    return [judged(rule, seed, make, params) for seed in range(TRIALS)]


@lru_cache
def chains(rule: Accept) -> list[Verdict]:
    return verdicts(rule, drafted)


def reached(found: list[Verdict]) -> list[int]:
    """Return how often at least 1, 2, ... tokens of the chain were kept."""
    return [sum(verdict.accepted > place for verdict in found) for place in range(LENGTH)]


def assert_reach(found: list[Verdict], theory: list[float]) -> None:
    for count, share in zip(reached(found), theory, strict=True):
        assert fits(count, len(found), share), f"{count / len(found):.4f} accepted, {share:.4f} by theory"


def served(rows: np.ndarray, params: SamplingParams = SERVED) -> list[Distribution]:
    return [Sampler(params).served(row, CONTEXT) for row in rows]


def by_place(rows: np.ndarray) -> Model:
    """Return a model that looks at the length of a text alone."""
    said = served(rows)
    return lambda text: said[len(text)]


PAIRS = list(zip(served(ROWS), served(DRAFT_ROWS), strict=True))[:LENGTH]
MODELS = by_place(ROWS), by_place(DRAFT_ROWS)


def test_residual_accepts_the_overlap_of_target_and_draft() -> None:
    theory = list(accumulate((float(overlap(*pair)) for pair in PAIRS), mul))
    assert theory == pytest.approx(residual_reach(*MODELS, LENGTH))
    assert_reach(chains(Accept.RESIDUAL), theory)


def test_block_accepts_what_a_whole_is_worth() -> None:
    theory = block_reach(*MODELS, LENGTH)
    assert_reach(chains(Accept.BLOCK), theory)
    assert sum(theory) > sum(residual_reach(*MODELS, LENGTH)) * 1.01


def test_coupled_accepts_what_the_closed_form_says() -> None:
    assert_reach(chains(Accept.COUPLED), list(accumulate((coupled_overlap(*pair) for pair in PAIRS), mul)))


def test_typical_accepts_every_guess_above_its_threshold() -> None:
    shares = []
    for target, draft in PAIRS:
        plausible = [token for token in draft.ids if target.of(token) > typical_threshold(target)]
        shares.append(float(sum(draft.of(token) for token in plausible)))
    assert_reach(chains(Accept.TYPICAL), list(accumulate(shares, mul)))


@pytest.mark.parametrize("rule", RULES)
def test_penalties_change_the_first_share_as_they_should(rule: Accept) -> None:
    theory = coupled_overlap if rule is Accept.COUPLED else overlap
    free = replace(PENALISED, repeat_penalty=1.0, presence_penalty=0.0)
    share, without = (
        float(theory(*served(np.stack([ROWS[0], DRAFT_ROWS[0]]), params))) for params in (PENALISED, free)
    )
    count = reached(verdicts(rule, lambda sampler: drafted(sampler, 1), PENALISED))[0]
    assert fits(count, TRIALS, share)
    assert not fits(count, TRIALS, without)


@pytest.mark.parametrize("rule", RULES)
def test_a_deterministic_guess_is_kept_as_often_as_the_target_says_it(rule: Accept) -> None:
    tokens = tuple(int(np.argmax(row)) for row in DRAFT_ROWS[:LENGTH])
    shares = [float(target.of(token)) for (target, _), token in zip(PAIRS, tokens, strict=True)]
    assert_reach(verdicts(rule, lambda _: Draft(tokens)), list(accumulate(shares, mul)))


# --- second guesses ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "first", "second"),
    [(Accept.COUPLED, coupled_overlap, second_place), (Accept.RESIDUAL, overlap, second_chance)],
)
def test_a_second_guess_is_kept_as_often_as_theory_says(
    rule: Accept, first: Callable[..., float], second: Callable[..., float]
) -> None:
    found = verdicts(rule, lambda sampler: with_siblings(drafted(sampler, 1), [0]))
    share = float(second(*PAIRS[0]))
    assert share > 0.05
    assert fits(sum(verdict.branch != () for verdict in found), TRIALS, share)
    assert fits(reached(found)[0], TRIALS, float(first(*PAIRS[0]))), "the first guess does not suffer from it"


def test_the_formulas_of_coupled_guesses_agree_with_noise_drawn_by_somebody_else() -> None:
    target, draft = PAIRS[0]
    ids = np.arange(SIZE)
    noise = np.random.default_rng(12).gumbel(size=(20_000, SIZE))
    with np.errstate(divide="ignore"):
        said = (np.log(target.at(ids)) + noise).argmax(axis=1)
        order = np.argsort(-(np.log(draft.at(ids)) + noise), axis=1)
    for place, share in ((0, coupled_overlap(target, draft)), (1, second_place(target, draft))):
        assert fits(int((order[:, place] == said).sum()), len(noise), float(share))
    joint = race(target, draft)
    assert sum(joint.values()) == pytest.approx(1)
    assert misfit(Counter(zip(said.tolist(), order[:, 0].tolist(), strict=True)), joint) > 1e-6


# --- what is emitted --------------------------------------------------------------------------------------------------


def law(said: Distribution) -> dict[int, float]:
    return {int(token): float(prob) for token, prob in zip(said.ids, said.probs, strict=True)}


@pytest.mark.parametrize("rule", RULES)
def test_first_and_bonus_token_have_the_targets_law(rule: Accept) -> None:
    found = chains(rule)
    bonus = Counter(verdict.next_token for verdict in found if verdict.is_bonus)
    assert misfit(bonus, law(served(ROWS)[LENGTH])) > 1e-6
    # A first token that was accepted is not in the verdict: the draft is made again.
    firsts = Counter(
        drafted(Sampler(replace(SERVED, seed=seed), rule), 1).tokens[0] if verdict.accepted else verdict.next_token
        for seed, verdict in enumerate(found)
    )
    target, draft = PAIRS[0]
    assert misfit(firsts, law(target)) > 1e-6
    assert misfit(firsts, law(draft)) < 1e-6
