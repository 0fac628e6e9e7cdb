"""Accept rules broken on purpose at their joints with real noise and with a model's cache: each must be noticed.

The checks, by name (`test_broken_rules` has the others):
    misfit         the emitted tokens of many seeds against their law
    fits           how often guesses are accepted, against theory
    differences    same seed, same text, on `ToyModel`
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from binomial import fits, misfit
from enumeration import Text, coupled_overlap, overlap
from fakes import Case, differences
from numpy.typing import NDArray
from two_proposals import toy_draft, two_proposals, with_second_proposals

import models.sampling.sampler
from app.engine.decoding import speculate
from app.engine.decoding import verify as verify_module
from app.engine.decoding.judging_noise import SeededNoise
from app.engine.decoding.verify import Rows, Verdict, verify
from drafters.base import Draft
from models.base import Logits
from models.sampling.accept import Accept
from models.sampling.noise import stream, uniform
from models.sampling.sampler import Sampler, SamplingParams
from models.toy import ToyModel, ToyVocab

Patch = pytest.MonkeyPatch
EXACT = (Accept.RESIDUAL, Accept.BLOCK)

# --- real noise -------------------------------------------------------------------------------------------------------

SIZE, TRIALS = 3, 1500
WHOLE = SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
ROWS = np.log(np.array([[0.1, 0.5, 0.4], [0.6, 0.1, 0.3], [0.3, 0.5, 0.2]], np.float32))
"""What the target says after each token."""
DRAFT_ROWS = np.log(np.array([[0.6, 0.38, 0.02], [0.02, 0.6, 0.38], [0.38, 0.02, 0.6]], np.float32))


def spoken(which: Accept, seed: int, judge: Callable[..., Verdict] = verify) -> Text:
    """Return three tokens, drafts being made two at a time."""
    sampler = Sampler(replace(WHOLE, seed=seed), which)
    text = [0]
    while len(text) < 4:
        proposals: list[Any] = []
        for _ in range(2):
            said = [proposal.token for proposal in proposals]
            proposals.append(sampler.proposal(DRAFT_ROWS[[*text, *said][-1]], text, said))
        tokens = tuple(proposal.token for proposal in proposals)
        draft = Draft(tokens, tuple(proposal.drawn_from for proposal in proposals) if which.draws_drafts else None)
        text += judge(ROWS[[text[-1], *tokens]], draft, sampler, text).emitted(draft)
    return tuple(text[1:4])


def texts_misfit(which: Accept, judge: Callable[..., Verdict] = verify) -> float:
    probs = np.exp(ROWS) / np.exp(ROWS).sum(axis=1, keepdims=True)
    law = {(a, b, c): float(probs[0, a] * probs[a, b] * probs[b, c]) for a, b, c in product(range(SIZE), repeat=3)}
    return misfit(Counter(spoken(which, seed, judge) for seed in range(TRIALS)), law)


@pytest.mark.parametrize("which", EXACT)
def test_the_intact_rules_fit(which: Accept) -> None:
    assert texts_misfit(which) > 1e-6


def test_misfit_shows_the_typical_rule() -> None:
    assert texts_misfit(Accept.TYPICAL) < 1e-6


def test_misfit_shows_drafts_drawn_with_the_noise_of_replacements(monkeypatch: Patch) -> None:
    monkeypatch.setattr(models.sampling.sampler, "stream", lambda seed, *_: seed)
    assert texts_misfit(Accept.RESIDUAL) < 1e-6


class NoiseOfTheDraft(SeededNoise):
    """Tosses coins with the noise that the guesses were drawn with."""

    def happens(self, chance: Any, place: int, turn: int = 0) -> bool:
        drafting = stream(self._seed, models.sampling.sampler._DRAFTING, self._start)
        return uniform(drafting, self._start + place, turn) < chance


def test_misfit_shows_coins_tossed_with_the_noise_of_the_drafts() -> None:
    def judge(rows: Logits, draft: Draft, sampler: Sampler, tokens: Sequence[int]) -> Verdict:
        return verify(rows, draft, sampler, tokens, NoiseOfTheDraft(sampler.params.seed, len(tokens)))

    assert texts_misfit(Accept.RESIDUAL, judge) < 1e-6


def test_misfit_shows_a_block_whose_drafts_are_drawn_with_the_noise_of_the_last_round(monkeypatch: Patch) -> None:
    # A draft distribution that looks at nothing: the same guess comes again at the same place.
    alike = np.log(np.array([[0.1, 0.1, 0.8]] * SIZE, np.float32))
    monkeypatch.setitem(globals(), "DRAFT_ROWS", alike)
    assert texts_misfit(Accept.BLOCK) > 1e-6
    monkeypatch.setattr(models.sampling.sampler, "stream", lambda seed, label, _: stream(seed, label))
    assert texts_misfit(Accept.BLOCK) < 1e-6


def first_hits(which: Accept, *, claims: bool = True) -> int:
    """Return how many first guesses were accepted."""
    hits = 0
    for seed in range(TRIALS):
        sampler = Sampler(replace(WHOLE, seed=seed), which)
        proposal = sampler.proposal(DRAFT_ROWS[0], (0,), ())
        draft = Draft((proposal.token,), (proposal.drawn_from,) if proposal.drawn_from and claims else None)
        hits += verify(ROWS[[0, proposal.token]], draft, sampler, (0,)).accepted
    return hits


def test_fits_shows_coupled_guesses_with_noise_of_their_own(monkeypatch: Patch) -> None:
    share = coupled_overlap(*(Sampler(WHOLE).served(rows[0], (0,)) for rows in (ROWS, DRAFT_ROWS)))
    assert fits(first_hits(Accept.COUPLED), TRIALS, share)
    own = Sampler.proposal
    monkeypatch.setattr(
        Sampler, "proposal", lambda self, *rest: own(Sampler(replace(self.params, seed=self.params.seed + 1)), *rest)
    )
    assert not fits(first_hits(Accept.COUPLED), TRIALS, share)


def test_fits_shows_drawn_guesses_that_are_judged_as_if_they_were_certain() -> None:
    share = float(overlap(*(Sampler(WHOLE).served(rows[0], (0,)) for rows in (ROWS, DRAFT_ROWS))))
    assert fits(first_hits(Accept.RESIDUAL), TRIALS, share)
    # Exact all the same: no law of tokens can show it.
    assert not fits(first_hits(Accept.RESIDUAL, claims=False), TRIALS, share)


# --- branches on a model ----------------------------------------------------------------------------------------------

SAMPLED = SamplingParams(0.9, top_k=20, seed=5)
CASES = [
    Case(tuple(ToyVocab().tokenize(text)), sampling, seed, budget=40)
    for seed, text in ((0, "the cat sat on the mat."), (7, "o"))
    for sampling in (SAMPLED, replace(SAMPLED, temperature=0.0))
]
BRANCHING = with_second_proposals(3)
MAKERS = (two_proposals, toy_draft(1.0))


@pytest.mark.parametrize("make", MAKERS)
def test_the_intact_branches_give_the_text_of_plain_decoding(make: Any) -> None:
    assert differences(CASES, make, (3, 5), BRANCHING) == []


def at_its_index(self: Rows, row: int, place: int, branch: Sequence[int]) -> int:  # noqa: ARG001
    """Place a second guess after the chain, where it stands in the pass."""
    return self.sampler.pick(self.logits[row], self.tokens, (*self.draft.tokens, *branch))


def after_the_chain(self: Rows, row: int, place: int, branch: Sequence[int]) -> int:  # noqa: ARG001
    """Take the row of the chain's own token in the second guess's place."""
    return self.sampler.pick(self.logits[place + 1], self.tokens, (*self.draft.tokens[:place], *branch))


def the_next_row(self: Rows, row: int, place: int, branch: Sequence[int]) -> int:
    row = row + 1 if row + 1 < len(self.logits) else row - 1
    return self.sampler.pick(self.logits[row], self.tokens, (*self.draft.tokens[:place], *branch))


@pytest.mark.parametrize("broken", [at_its_index, after_the_chain, the_next_row])
def test_differences_show_a_second_guess_in_the_wrong_place(monkeypatch: Patch, broken: Callable[..., int]) -> None:
    monkeypatch.setattr(Rows, "pick_after", broken)
    assert differences(CASES, two_proposals, (3, 5), BRANCHING)


def test_differences_show_a_second_guess_that_is_kept_unasked(monkeypatch: Patch) -> None:
    def unasked(rows: Rows, place: int, _: int) -> Verdict | None:
        if not (beside := rows.draft.beside(place)):
            return None
        row, token = beside[0]
        return Verdict(place, rows.pick_after(row, place, (token,)), is_bonus=True, branch=(token,))

    monkeypatch.setattr(verify_module, "_beside", unasked)
    assert differences(CASES, two_proposals, (3, 5), BRANCHING)


class TakenForCached(Verdict):
    """Says that a second guess is in the cache, where the chain's own guess stands."""

    def emitted(self, draft: Draft) -> tuple[int, ...]:
        return (*draft.tokens[: self.accepted - 1], *self.branch, self.next_token)


def test_a_round_refuses_a_cache_that_keeps_the_rejected_guess_in_a_siblings_place(monkeypatch: Patch) -> None:
    def taken(rows: Logits, draft: Draft, sampler: Sampler, tokens: Sequence[int]) -> Verdict:
        verdict = verify(rows, draft, sampler, tokens)
        if not verdict.branch:
            return verdict
        return TakenForCached(verdict.accepted + 1, verdict.next_token, is_bonus=True, branch=verdict.branch)

    monkeypatch.setattr(speculate, "verify", taken)
    with pytest.raises(AssertionError, match="I1"):
        differences(CASES, two_proposals, (3, 5), BRANCHING)


class KeepsSiblings(ToyModel):
    """A sibling stays in the cache beside the token that is written in its place; the length reported looks right."""

    hidden = 0
    left: dict[int, int] = {}  # noqa: RUF012

    @property
    def length(self) -> int:
        return len(self._cache) - self.hidden

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        first = self.length + len(tokens) - len(parents)
        result = super().decode(tokens, rows, parents)
        nodes = [(parent, tokens[len(tokens) - len(parents) + node]) for node, parent in enumerate(parents)]
        self.left = {first + parent + 1: token for node, (parent, token) in enumerate(nodes) if parent != node - 1}
        return result

    def rewind(self, length: int) -> None:
        if length == 0:
            self.hidden = 0
        elif length < self.length and length in self.left:
            del self._cache[length + self.hidden :]
            self._cache.append(self.left[length])
            self.hidden += 1
        del self._cache[length + self.hidden :]

    def _row(self, end: int) -> NDArray[np.float32]:
        return super()._row(end + self.hidden)


def test_differences_show_a_sibling_that_stays_in_the_cache() -> None:
    parts = replace(BRANCHING, target=lambda case: KeepsSiblings(case.toy_seed))
    assert differences(CASES, two_proposals, (3, 5), parts)
    assert (
        differences(CASES, two_proposals, (3, 5), replace(parts, controller=with_second_proposals(0).controller)) == []
    )
