"""Proof that the exactness tests can fail: each known way to get speculation wrong is built in, and must be noticed."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from fakes import (
    END,
    INTACT,
    Answer,
    Case,
    MakeDrafter,
    OracleDrafter,
    ScriptedDrafter,
    difference,
    differences,
    plain,
    run,
)
from numpy.typing import NDArray

from app.engine.decoding import speculate
from app.engine.decoding.controller import FixedLength
from app.engine.decoding.ending import Ending, Finish
from app.engine.decoding.round import Round
from app.engine.decoding.verify import Verdict, verify
from drafters.base import Draft, Drafter
from drafters.draft_model import DraftModel
from models.base import LanguageModel, Logits
from models.sampling.sampler import Sampler, SamplingParams
from models.toy import ToyModel, ToyVocab

DRAFT_LENGTHS = (1, 4, 8)
SAMPLINGS = [SamplingParams(temperature, seed=seed) for temperature in (0.0, 0.8) for seed in (1, 2)]
PROMPTS = [tuple(ToyVocab().tokenize(text)) for text in ("the cat sat on the mat.", "o")]
CASES = [Case(prompt, sampling) for prompt in PROMPTS for sampling in SAMPLINGS]


def half_right(_: Case, __: LanguageModel, answer: Answer) -> Drafter:
    """Guess every fifth token wrong: some of each draft is kept, and some must be forgotten."""
    return OracleDrafter([(token + 1) % END if place % 5 == 3 else token for place, token in enumerate(answer.tokens)])


def near_model(case: Case, target: LanguageModel, _: Answer) -> Drafter:
    return DraftModel(ToyModel(case.toy_seed, unlikeness=0.5), target.vocab)


@pytest.mark.parametrize("make_drafter", [half_right, near_model])
def test_the_intact_parts_are_exact_on_the_cases_used_here(make_drafter: MakeDrafter) -> None:
    assert differences(CASES, make_drafter, DRAFT_LENGTHS) == []


class RewindsTooLittle(ToyModel):
    """A rewind that drops anything keeps the first token it should drop; the length reported looks right."""

    hidden = 0

    @property
    def length(self) -> int:
        return len(self._cache) - self.hidden

    def rewind(self, length: int) -> None:
        if length == 0:
            self.hidden = 0
        elif length < self.length:
            self.hidden += 1
        del self._cache[length + self.hidden :]

    def _row(self, end: int) -> NDArray[np.float32]:
        return super()._row(end + self.hidden)


class RewindsTooMuch(RewindsTooLittle):
    """A rewind that drops anything drops one token more; the length reported looks right."""

    def rewind(self, length: int) -> None:
        if length == 0:
            self.hidden = 0
        elif length < self.length:
            self.hidden -= 1
        del self._cache[length + self.hidden :]


class KeepsStaleRow(ToyModel):
    """After a rewind the place of the first dropped token is not written again: it goes on holding that token."""

    stale: Sequence[int] = ()

    def rewind(self, length: int) -> None:
        if length < self.length:
            self.stale = self._cache[length : length + 1] if length else ()
        super().rewind(length)

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        stale, self.stale = self.stale, ()
        return super().decode([*stale, *tokens[len(stale) :]], rows, parents)


@pytest.mark.parametrize("broken", [RewindsTooLittle, RewindsTooMuch, KeepsStaleRow])
@pytest.mark.parametrize("make_drafter", [half_right, near_model])
def test_a_cache_that_is_not_cut_right_is_noticed(broken: type[ToyModel], make_drafter: MakeDrafter) -> None:
    parts = replace(INTACT, target=lambda case: broken(case.toy_seed))
    assert plain(CASES[0], parts) == plain(CASES[0]), "plain decoding never cuts, so it can't show this"
    assert differences(CASES, make_drafter, DRAFT_LENGTHS, parts)


@pytest.mark.parametrize("broken", [RewindsTooLittle, RewindsTooMuch, KeepsStaleRow])
def test_a_draft_models_cache_that_is_not_cut_right_costs_acceptance_and_never_the_text(broken: type[ToyModel]) -> None:
    def with_broken(case: Case, target: LanguageModel, _: Answer) -> Drafter:
        return DraftModel(broken(case.toy_seed, unlikeness=0.5), target.vocab)

    assert differences(CASES, with_broken, DRAFT_LENGTHS) == []
    assert kept_share(with_broken) < kept_share(near_model)


def kept_share(make_drafter: MakeDrafter) -> float:
    answers = [run(case, make_drafter(case, ToyModel(), plain(case)), 4) for case in CASES]
    return sum(answer.stats.accepted for answer in answers) / sum(answer.stats.drafted for answer in answers)


class ReadsAllAgain(DraftModel):
    """Throws its cache away after every round."""

    def accept(self, emitted: Sequence[int], accepted: int) -> None:  # noqa: ARG002
        self._cached.clear()
        self.model.rewind(0)


def work_of(kind: type[DraftModel]) -> int:
    """Return how many tokens the draft models of all cases decoded, after checking the text."""
    models: list[ToyModel] = []

    def make(case: Case, target: LanguageModel, _: Answer) -> Drafter:
        models.append(ToyModel(case.toy_seed, unlikeness=0.5))
        return kind(models[-1], target.vocab)

    assert differences(CASES, make, DRAFT_LENGTHS) == []
    return sum(model.decoded for model in models)


def test_a_draft_model_that_reads_all_again_shows_in_its_work_and_never_in_the_text() -> None:
    assert work_of(ReadsAllAgain) > 3 * work_of(DraftModel)


def shifted(rows: Logits, draft: Draft, sampler: Sampler, tokens: Sequence[int]) -> Verdict:
    return verify(np.roll(rows, 1, axis=0), draft, sampler, tokens)


def shifted_back(rows: Logits, draft: Draft, sampler: Sampler, tokens: Sequence[int]) -> Verdict:
    return verify(np.roll(rows, -1, axis=0), draft, sampler, tokens)


def without_bonus_row(rows: Logits, draft: Draft, sampler: Sampler, tokens: Sequence[int]) -> Verdict:
    """Take the token after a whole accepted draft from the row before."""
    whole = len(draft.tokens)
    verdict = verify(rows, draft, sampler, tokens)
    if verdict.accepted < whole or whole == 0:
        return verdict
    return Verdict(whole, sampler.pick(rows[whole - 1], tokens, draft.tokens), is_bonus=True)


@pytest.mark.parametrize("broken", [shifted, shifted_back, without_bonus_row])
def test_a_row_that_is_off_by_one_is_noticed(monkeypatch: pytest.MonkeyPatch, broken: object) -> None:
    monkeypatch.setattr(speculate, "verify", broken)
    assert differences(CASES, half_right, DRAFT_LENGTHS)


class PerRound(Sampler):
    """Draws its noise by the number of the round instead of the position."""

    def __init__(self, params: SamplingParams) -> None:
        super().__init__(params)
        self.round = 1

    def pick(self, row: NDArray[np.float32], tokens: Sequence[int], drafted: Sequence[int] = ()) -> int:  # noqa: ARG002
        return super().pick(row, [0] * self.round)


class CountsRounds(FixedLength):
    def __init__(self, sampler: Sampler, draft_length: int) -> None:
        super().__init__(draft_length)
        self._sampler = sampler

    def observe(self, round_: Round) -> None:  # noqa: ARG002
        assert isinstance(self._sampler, PerRound)
        self._sampler.round += 1


def test_noise_that_follows_the_round_is_noticed() -> None:
    parts = replace(INTACT, sampler=PerRound, controller=CountsRounds)
    hot = [case for case in CASES if not case.sampling.greedy]
    assert differences(hot, half_right, DRAFT_LENGTHS, parts)
    cold = [case for case in CASES if case.sampling.greedy]
    assert differences(cold, half_right, DRAFT_LENGTHS, parts) == [], "without noise nothing can follow the round"


class RemembersRejected(Sampler):
    """Penalises what was ever drafted, rejected tokens included."""

    def __init__(self, params: SamplingParams) -> None:
        super().__init__(params)
        self.drafted: list[int] = []

    def _penalised(
        self, row: NDArray[np.float32], tokens: Sequence[int], drafted: Sequence[int]
    ) -> NDArray[np.float32]:
        return super()._penalised(row, [*self.drafted, *tokens], drafted)


def keeping_drafts(rows: Logits, draft: Draft, sampler: Sampler, tokens: Sequence[int]) -> Verdict:
    verdict = verify(rows, draft, sampler, tokens)
    assert isinstance(sampler, RemembersRejected)
    sampler.drafted += draft.tokens[verdict.accepted :]
    return verdict


def whole_draft_is_history(rows: Logits, draft: Draft, sampler: Sampler, tokens: Sequence[int]) -> Verdict:
    """Let the penalties of every row see the whole draft, while the positions stay right."""
    seeing = Sampler(sampler.params)
    seeing._penalised = lambda row, tokens, _: Sampler._penalised(sampler, row, tokens, draft.tokens)  # type: ignore[method-assign]
    return verify(rows, draft, seeing, tokens)


PENALISED = [
    replace(case, sampling=replace(case.sampling, repeat_penalty=1.3, penalty_window=-1, presence_penalty=0.5))
    for case in CASES
]


@pytest.mark.parametrize(
    ("broken", "sampler"), [(keeping_drafts, RemembersRejected), (whole_draft_is_history, Sampler)]
)
def test_penalties_advanced_by_rejected_tokens_are_noticed(
    monkeypatch: pytest.MonkeyPatch, broken: object, sampler: type[Sampler]
) -> None:
    parts = replace(INTACT, sampler=sampler)
    assert differences(PENALISED, half_right, DRAFT_LENGTHS, parts) == []
    monkeypatch.setattr(speculate, "verify", broken)
    assert differences(PENALISED, half_right, DRAFT_LENGTHS, parts)
    assert differences(CASES, half_right, DRAFT_LENGTHS, parts) == [], "without penalties history does not matter"


class LooksAtTheLastTokenAlone(Ending):
    """Sees an end token only when it is the last of a round."""

    def cut(self, emitted: Sequence[int]) -> tuple[tuple[int, ...], Finish | None]:
        finishes = [self._feed(token) for token in emitted]
        # Everything but end tokens is still seen anywhere in the round.
        other = next((place for place, finish in enumerate(finishes) if finish not in (None, Finish.END)), None)
        if other is not None:
            return tuple(emitted[: other + 1]), finishes[other]
        return tuple(emitted), finishes[-1]


def past_the_end(case: Case, target: LanguageModel, _: Answer) -> Drafter:
    """Guess the target's tokens beyond the end of its answer, which no honest drafter does."""
    tokens = list(case.prompt)
    sampler = Sampler(case.sampling)
    for _ in range(40):
        target.rewind(0)
        tokens.append(sampler.pick(target.decode(tokens, rows=1)[0], tokens))
    target.rewind(0)
    return OracleDrafter(tokens[len(case.prompt) :])


def ending_cases() -> Iterator[Case]:
    for toy_seed in (22, 78, 267):
        for case in CASES:
            ends = replace(case, toy_seed=toy_seed)
            if plain(ends).finish is Finish.END:
                yield ends


def test_an_end_token_inside_a_draft_that_is_ignored_is_noticed() -> None:
    cases = list(ending_cases())
    assert len(cases) > 5
    assert differences(cases, past_the_end, DRAFT_LENGTHS) == []
    parts = replace(INTACT, ending=lambda vocab, _, budget: LooksAtTheLastTokenAlone(vocab, budget=budget))
    assert differences(cases, past_the_end, DRAFT_LENGTHS, parts)


class CountsAtTheEndOfARound(Ending):
    """Looks at the budget once a round, when all its tokens are out."""

    def cap(self, limit: int) -> int:
        return limit

    def cut(self, emitted: Sequence[int]) -> tuple[tuple[int, ...], Finish | None]:
        budget, self._left = self._left, None
        tokens, finish = super().cut(emitted)
        assert budget is not None
        self._left = max(0, budget - len(tokens))
        return tokens, finish or (Finish.LENGTH if self._left == 0 else None)


class LooksForStopsAtTheEndOfARound(Ending):
    """Lets a round out whole, though a stop string was completed inside it."""

    def cut(self, emitted: Sequence[int]) -> tuple[tuple[int, ...], Finish | None]:
        tokens, finish = super().cut(emitted)
        return (tuple(emitted), finish) if finish is Finish.STOP else (tokens, finish)


def test_a_budget_that_is_overshot_is_noticed() -> None:
    parts = replace(INTACT, ending=lambda vocab, _, budget: CountsAtTheEndOfARound(vocab, budget=budget))
    cases = [replace(case, budget=7) for case in CASES]
    assert plain(cases[0], parts) == plain(cases[0]), "a round of one token can't overshoot"
    assert differences(cases, half_right, DRAFT_LENGTHS, parts)


def test_tokens_emitted_past_a_stop_string_are_noticed() -> None:
    parts = replace(INTACT, ending=lambda vocab, stops, _: LooksForStopsAtTheEndOfARound(vocab, stops=stops))
    cases = [replace(case, stops=(plain(case).text[8:10],)) for case in CASES]
    assert differences(cases, half_right, DRAFT_LENGTHS, replace(INTACT)) == []
    assert differences(cases, half_right, DRAFT_LENGTHS, parts)


def takes_the_draft(rows: Logits, draft: Draft, sampler: Sampler, tokens: Sequence[int]) -> Verdict:
    """Keep a guess that the target finds likely, though it would have said something else."""
    verdict = verify(rows, draft, sampler, tokens)
    if verdict.accepted == len(draft.tokens):
        return verdict
    proposal = draft.tokens[verdict.accepted]
    likely = np.argsort(rows[verdict.accepted])[-3:]
    return Verdict(verdict.accepted, proposal, is_bonus=False) if proposal in likely else verdict


def test_a_rule_that_keeps_likely_guesses_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speculate, "verify", takes_the_draft)
    assert differences(CASES, near_model, DRAFT_LENGTHS)


def test_a_text_that_differs_in_its_characters_or_its_end_alone_is_noticed() -> None:
    case = CASES[0]
    wanted = plain(case)
    silent = run(case, ScriptedDrafter(), 3)
    assert not difference(wanted, silent)
    assert "text" in difference(wanted, replace(silent, text="another"))
    assert "ended" in difference(wanted, replace(silent, finish=Finish.STOP))
    assert "tokens" in difference(wanted, replace(silent, tokens=silent.tokens[:-1]))
    assert "token 0" in difference(wanted, replace(silent, tokens=(END, *silent.tokens[1:])))
