"""The distribution check: every exact rule passes at every seed, and each known fault of acceptance is caught."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from rounding import KeepsStaleRow, OffByOne
from small_toy import SmallToy, map_without

from app.bench.measuring.arms import BenchPrompt
from app.engine.decoding import speculate, verify
from app.engine.decoding.controller import Controller, FixedLength
from app.engine.decoding.ending import Ending
from app.engine.decoding.judging_noise import SeededNoise
from app.engine.decoding.rules import block, residual
from app.engine.decoding.speculate import generate
from app.engine.decoding.verify import Rows, Verdict
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.loader import Loader
from app.verify.distribution import check as distribution_check
from app.verify.distribution.check import CheckPlan, CheckProgress, DistributionCheck
from app.verify.distribution.counts import DEPTH, Said
from app.verify.distribution.findings import DistributionFindings, Found
from app.verify.distribution.places import PlaceFinder, ProposingModel
from app.verify.distribution.plain_law import Path, Plain
from app.verify.distribution.row_cache import KnownCache, RowCache
from drafters.base import Draft, NullDrafter
from drafters.draft_model import DraftModel
from drafters.prompt_lookup import PromptLookup
from drafters.registry import DrafterSpec
from drafters.suffix import SuffixDrafter
from models.abort import AbortFlag
from models.base import LanguageModel
from models.errors import LocalspecError
from models.llama.load import LlamaOptions
from models.sampling.accept import Accept
from models.sampling.distribution import Distribution
from models.sampling.noise import stream, uniform
from models.sampling.sampler import DraftTrial, Sampler, SamplingParams
from models.toy import ToyModel

MEMORY = 1 << 22
UNDECIDED = SamplingParams(temperature=1.0, seed=1)
PROMPTS = [
    BenchPrompt("sea", "prose", ("the sea and the sand",)),
    BenchPrompt("hill", "prose", ("a hill in the rain",)),
    BenchPrompt("bread", "prose", ("bread and a cup of tea",)),
]
EXACT = [accept for accept in Accept if accept.exact]


def by_model(unlikeness: float = 1.5, kind: type[DraftModel] = DraftModel) -> ProposingModel:
    """Return a draft model that is often wrong about `ToyModel()`, and seldom with less unlikeness."""
    drafter = kind(RowCache(KnownCache(ToyModel(unlikeness=unlikeness)), MEMORY), ToyModel().vocab)
    return ProposingModel(drafter.name, lambda: drafter, copies=False)


def by_copying(kind: type[PromptLookup] | type[SuffixDrafter]) -> ProposingModel:
    is_end = ToyModel().vocab.is_end
    return ProposingModel(kind.name, lambda: kind(is_end), copies=True)


def plan(accept: Accept, samples: int, *, places: int = 1, sampling: SamplingParams = UNDECIDED) -> CheckPlan:
    return CheckPlan(sampling, accept, samples, places, draft_length=3, memory=MEMORY)


def checked(
    proposing_model: ProposingModel, wanted: CheckPlan, target: LanguageModel | None = None
) -> DistributionFindings:
    check = DistributionCheck(KnownCache(target or ToyModel()), proposing_model, wanted, lambda: 0.0)
    for _ in check.run(PROMPTS):
        pass
    findings = check.findings()
    assert findings is not None
    return findings


@pytest.mark.parametrize("accept", EXACT)
def test_an_exact_rule_with_a_drawn_draft_fits(accept: Accept) -> None:
    # With few tokens to choose from there are enough answers of every kind.
    few = replace(UNDECIDED, top_k=4)
    findings = checked(by_model(), plan(accept, 800, places=2, sampling=few))
    assert (findings.deviating, findings.found.ruled_out) == ((), 0)
    assert len(findings.places) == 2
    assert findings.lengths == (1, 2, 3)
    names = {fit.name for fit in findings.found.fits}
    assert {"first token", "first 2 tokens", "first 3 tokens", "accepted", "replacement", "bonus"} <= names
    # Draft trees are for rules that know what to do with a second guess.
    assert findings.siblings == (accept is not Accept.BLOCK)
    assert (findings.found.branches["sibling"] > 0) == findings.siblings
    assert ("after a sibling" in names) == findings.siblings
    assert all(low <= share.expected <= high for share in findings.found.shares for low, high in [share.interval])


@pytest.mark.parametrize("accept", EXACT)
def test_an_exact_rule_with_a_draft_model_of_fewer_tokens_fits(accept: Accept) -> None:
    vocab = ToyModel().vocab
    token_map = map_without(vocab.tokenize("eao"), vocab.size)
    spoken = DraftModel(SmallToy(ToyModel(unlikeness=1.5), token_map), vocab, token_map).spoken
    drafter = DraftModel(RowCache(KnownCache(spoken), MEMORY), vocab)
    few = replace(UNDECIDED, top_k=4)
    findings = checked(ProposingModel(drafter.name, lambda: drafter, copies=False), plan(accept, 800, sampling=few))
    assert (findings.deviating, findings.found.ruled_out) == ((), 0)
    assert findings.found.branches["accepted"] > 30


@pytest.mark.parametrize("accept", EXACT)
@pytest.mark.parametrize("kind", [PromptLookup, SuffixDrafter])
def test_an_exact_rule_with_a_copied_draft_fits(accept: Accept, kind: type[PromptLookup] | type[SuffixDrafter]) -> None:
    findings = checked(by_copying(kind), plan(accept, 300))
    assert findings.deviating == ()
    assert findings.found.branches["accepted"] > 30
    # There is one guess, and it is kept as often as the target says it.
    (share,) = findings.found.shares
    assert (share.guessed, share.p > 1e-4) == (300, True)


@pytest.mark.parametrize("accept", EXACT)
def test_whoever_is_right_is_never_accused(accept: Accept) -> None:
    for seed in range(8):
        wanted = plan(accept, 100, sampling=replace(UNDECIDED, seed=1000 * seed, temperature=0.7 + seed / 10))
        assert checked(by_model(), wanted).deviating == ()


def test_penalties_and_cuts_are_part_of_the_law() -> None:
    shaped = SamplingParams(1.2, top_k=9, top_p=0.9, min_p=0.1, repeat_penalty=1.3, presence_penalty=0.5, seed=3)
    assert checked(by_model(), plan(Accept.RESIDUAL, 600, sampling=shaped)).deviating == ()


def test_typical_is_measured_and_never_called_a_deviation() -> None:
    few = replace(UNDECIDED, top_k=3)
    findings = checked(by_model(), plan(Accept.TYPICAL, 600, sampling=few))
    assert (findings.deviating, findings.suspicious, findings.repeats) == ((), (), ())
    first = findings.found.bounds[0]
    assert (first.by, first.measured > 0.2, first.at_most > first.measured) == ("counts", True, True)
    exact = checked(by_model(), plan(Accept.RESIDUAL, 600, sampling=few)).found.bounds[0]
    assert exact.measured < 0.06


def test_the_coupled_rule_is_compared_with_plain_decoding_seed_by_seed() -> None:
    bounds = checked(by_model(), plan(Accept.COUPLED, 600)).found.bounds
    assert [(bound.measured, bound.by) for bound in bounds] == [(0, "seeds")] * DEPTH
    assert bounds[0].at_most == pytest.approx(1 - 0.01 ** (1 / 600))


Fault = Callable[[pytest.MonkeyPatch], ProposingModel]


def residual_is_the_target(patch: pytest.MonkeyPatch) -> ProposingModel:
    def all_of_it(target: Distribution, draft: Distribution, scale: object = 1) -> Distribution:  # noqa: ARG001
        return target

    patch.setattr(verify, "residual", all_of_it)
    return by_model()


def greedy_drafts_called_drawn(patch: pytest.MonkeyPatch) -> ProposingModel:
    right = Sampler.proposal

    def greedy(self: Sampler, row: np.ndarray, context: Sequence[int], proposals: Sequence[int]) -> DraftTrial:  # type: ignore[type-arg]
        proposal = right(self, row, context, proposals)
        if proposal.drawn_from is None:
            return proposal
        return DraftTrial(int(proposal.drawn_from.ids[proposal.drawn_from.probs.argmax()]), None, proposal.drawn_from)

    patch.setattr(Sampler, "proposal", greedy)
    return by_model()


class CutsAfterDrawing(DraftModel):
    """Drops what it drew if it was unlikely, and everything after it."""

    def propose(self, context: Sequence[int], limit: int) -> Draft:
        draft = super().propose(context, limit)
        probs = [drawn_from.of(token) for token, drawn_from in zip(draft.tokens, draft.probs or (), strict=False)]
        return draft.shortened([*(prob > 0.3 for prob in probs), False].index(False)) if probs else draft


def drafts_cut_after_drawing(_: pytest.MonkeyPatch) -> ProposingModel:
    return by_model(0.3, CutsAfterDrawing)


def block_stops_at_the_first_test(patch: pytest.MonkeyPatch) -> ProposingModel:
    def impatient(rows: Rows, noise_source: SeededNoise) -> Verdict:
        draft, k = rows.draft, len(rows.draft.tokens)
        targets = [rows.served(place) for place in range(k)]
        drawn_from = [draft.drawn_from(place) for place in range(k)]
        judged = block(targets, drawn_from, draft.tokens)
        fell = [noise_source.happens(chance, place) for place, chance in enumerate(judged.chances)]
        kept = [*fell, False].index(False)
        if kept == k:
            return Verdict(k, noise_source.draw(rows.served(k), k), is_bonus=True)
        left = residual(targets[kept], drawn_from[kept], judged.scales[kept])
        return Verdict(kept, noise_source.draw(left, kept), is_bonus=False)

    patch.setattr(verify, "_block", impatient)
    return by_model()


def bonus_from_the_row_before(patch: pytest.MonkeyPatch) -> ProposingModel:
    def one_too_early(rows: Rows, noise_source: SeededNoise) -> Verdict:
        k = len(rows.draft.tokens)
        return Verdict(k, noise_source.draw(rows.served(k - 1), k), is_bonus=True)

    patch.setattr(verify, "_whole", one_too_early)
    return by_model()


class NoiseOfTheDraft(SeededNoise):
    """Tosses the coin with the very noise that the guess was drawn with."""

    def __init__(self, seed: int, tokens: Sequence[int], draft: Draft) -> None:
        super().__init__(seed, len(tokens))
        self._drafting, self._before, self._draft = stream(seed, 1, len(tokens)), len(tokens), draft

    def happens(self, chance: float, place: int, turn: int = 0) -> bool:  # noqa: ARG002
        return uniform(self._drafting, self._before + place, self._draft.tokens[place]) < chance


def noise_that_knows_the_draft(patch: pytest.MonkeyPatch) -> ProposingModel:
    def biased(rows: np.ndarray, draft: Draft, sampler: Sampler, tokens: Sequence[int]) -> Verdict:  # type: ignore[type-arg]
        return verify.verify(rows, draft, sampler, tokens, NoiseOfTheDraft(sampler.params.seed, tokens, draft))

    patch.setattr(speculate, "verify", biased)
    return by_model()


def every_draft_token_is_kept(patch: pytest.MonkeyPatch) -> ProposingModel:
    def trusting(rows: np.ndarray, draft: Draft, sampler: Sampler, tokens: Sequence[int]) -> Verdict:  # type: ignore[type-arg]
        k = len(draft.tokens)
        return Verdict(k, sampler.pick(rows[k], tokens, draft.tokens), is_bonus=k > 0)

    patch.setattr(speculate, "verify", trusting)
    return by_copying(SuffixDrafter)


FAULTS = [
    (residual_is_the_target, Accept.RESIDUAL),
    (greedy_drafts_called_drawn, Accept.RESIDUAL),
    (drafts_cut_after_drawing, Accept.RESIDUAL),
    (block_stops_at_the_first_test, Accept.BLOCK),
    (bonus_from_the_row_before, Accept.RESIDUAL),
    (noise_that_knows_the_draft, Accept.RESIDUAL),
    (every_draft_token_is_kept, Accept.COUPLED),
]


@pytest.mark.parametrize(("fault", "accept"), FAULTS)
def test_a_known_fault_is_a_deviation(monkeypatch: pytest.MonkeyPatch, fault: Fault, accept: Accept) -> None:
    findings = checked(fault(monkeypatch), plan(accept, 300))
    assert findings.deviating
    assert [found.samples for found in findings.repeats] == [300, 300]
    assert set(findings.deviating) <= set(findings.suspicious)


@pytest.mark.parametrize("broken", [OffByOne, KeepsStaleRow])
def test_a_model_whose_wide_passes_are_wrong_is_a_deviation(broken: type[ToyModel]) -> None:
    findings = checked(by_model(), plan(Accept.COUPLED, 200), broken())
    assert findings.deviating
    assert findings.found.bounds[DEPTH - 1].measured > 0.05


def test_a_fault_that_does_not_come_back_is_no_deviation(monkeypatch: pytest.MonkeyPatch) -> None:
    right = verify.residual

    def wrong_at_first(target: Distribution, draft: Distribution, scale: object = 1) -> Distribution:
        return target if check.first else right(target, draft, scale)

    class Check(DistributionCheck):
        first = True

        def _draw(self, number: int) -> Iterator[CheckProgress]:
            self.first = number == 0
            return super()._draw(number)

    check = Check(KnownCache(ToyModel()), by_model(), plan(Accept.RESIDUAL, 400), lambda: 0.0)
    monkeypatch.setattr(verify, "residual", wrong_at_first)
    doing = [progress.doing for progress in check.run(PROMPTS)]
    findings = check.findings()
    assert findings is not None
    assert (findings.suspicious != (), findings.deviating, len(findings.repeats)) == (True, (), 1)
    assert any("once more (2 of 3)" in text for text in doing)


def test_what_is_suspicious_has_to_stay_so_in_every_range(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str] | None] = []
    answers = iter([["one", "two", "three"], ["two", "three"], ["three"], ["one", "two", "three"]])

    def canned(_: Found, among: list[str] | None = None) -> list[str]:
        asked.append(among)
        return next(answers)

    monkeypatch.setattr(distribution_check, "suspects", canned)
    findings = checked(by_copying(PromptLookup), plan(Accept.RESIDUAL, 50))
    assert asked == [None, ["one", "two", "three"], ["two", "three"], None]
    assert (findings.suspicious, findings.deviating) == (("one", "two", "three"), ("three",))


def test_a_suspicion_that_was_not_drawn_again_to_the_end_is_no_deviation(monkeypatch: pytest.MonkeyPatch) -> None:
    proposing_model = every_draft_token_is_kept(monkeypatch)
    check = DistributionCheck(KnownCache(ToyModel()), proposing_model, plan(Accept.RESIDUAL, 100), lambda: 0.0)
    for progress in check.run(PROMPTS):
        if "once more" in progress.doing and progress.done:
            break
    findings = check.findings()
    assert findings is not None
    assert (findings.suspicious != (), findings.deviating, findings.repeats) == (True, (), ())


def test_seeds_are_disjoint_between_places_and_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []

    class Check(DistributionCheck):
        def _say(self, text: Path, seed: int, controller: Controller) -> Said:
            seeds.append(seed)
            return super()._say(text, seed, controller)

    proposing_model = every_draft_token_is_kept(monkeypatch)
    check = Check(KnownCache(ToyModel()), proposing_model, plan(Accept.RESIDUAL, 151, places=3), lambda: 0.0)
    list(check.run(PROMPTS))
    assert sorted(seeds) == list(range(1, 1 + 3 * 151))


def test_what_was_drawn_until_it_is_stopped_is_judged() -> None:
    check = DistributionCheck(KnownCache(ToyModel()), by_model(), plan(Accept.RESIDUAL, 400, places=2), lambda: 0.0)
    run = check.run(PROMPTS)
    assert check.findings() is None
    for progress in run:
        if progress.done == 100:
            break
    findings = check.findings()
    assert findings is not None
    assert (findings.found.samples, len(findings.places), findings.deviating) == (100, 1, ())
    assert findings.found.bounds[0].at_most > 0.15


def test_progress_tells_how_much_is_left() -> None:
    check = DistributionCheck(KnownCache(ToyModel()), by_model(), plan(Accept.BLOCK, 101, places=2), lambda: 0.0)
    steps = [(step.done, step.wanted, step.places_left) for step in check.run(PROMPTS) if step.wanted]
    assert steps == [(0, 51, 1), (25, 51, 1), (50, 51, 1), (0, 50, 0), (25, 50, 0), (50, 50, 0)]


def test_an_answer_again_costs_no_pass() -> None:
    cache = KnownCache(ToyModel())
    check = DistributionCheck(
        cache, by_model(), plan(Accept.RESIDUAL, 600, sampling=replace(UNDECIDED, top_k=3)), lambda: 0.0
    )
    list(check.run(PROMPTS))
    assert cache.passes < 400


def test_where_nothing_is_left_to_chance_there_is_nothing_to_check() -> None:
    certain = plan(Accept.RESIDUAL, 100, sampling=SamplingParams(temperature=0.001))
    with pytest.raises(LocalspecError, match="No prompt has a place") as caught_error:
        checked(by_model(), certain)
    assert "certain everywhere" in caught_error.value.cause


def test_a_prompt_too_long_for_the_context_is_left_out() -> None:
    check = DistributionCheck(KnownCache(ToyModel(context_size=80)), by_model(), plan(Accept.BLOCK, 50), lambda: 0.0)
    list(check.run([BenchPrompt("long", "prose", ("a" * 60,)), *PROMPTS]))
    assert [skipped.prompt for skipped in check.skipped] == ["long"]


def finder(proposing_model: ProposingModel) -> PlaceFinder:
    return PlaceFinder(KnownCache(ToyModel()), proposing_model, Sampler(UNDECIDED), room=20)


def test_the_place_is_the_most_undecided_one_of_a_plain_answer() -> None:
    place = finder(by_model()).find(PROMPTS[0])
    assert not isinstance(place, distribution_check.Skipped)
    vocab = ToyModel().vocab
    prompt = vocab.tokenize("the sea and the sand")
    model, text, entropies = ToyModel(), list(prompt), []
    row = model.decode(text, 1)[0]
    for _ in range(24):
        served = Sampler(UNDECIDED).served(row, text)
        entropies.append((-(served.probs * np.log(served.probs)).sum(), tuple(text), len(served.ids)))
        text.append(Sampler(UNDECIDED).pick(row, text))
        if vocab.is_end(text[-1]):
            break
        row = model.decode(text[-1:], 1)[0]
    assert (place.entropy, place.text, place.possible) == max(entropies)
    assert "".join(vocab.text(token) for token in place.text).endswith(place.before)


def test_one_who_copies_is_asked_where_there_is_something_to_copy() -> None:
    place = finder(by_copying(PromptLookup)).find(PROMPTS[0])
    assert not isinstance(place, distribution_check.Skipped)
    drafter = PromptLookup(ToyModel().vocab.is_end)
    drafter.begin(place.text, Sampler(UNDECIDED))
    assert drafter.propose(place.text, 3).tokens
    assert bytes(ToyModel().vocab.piece(token)[0] for token in place.text).count(b"the sea and the sand") == 2


class Picky(NullDrafter):
    """Guesses after texts of certain lengths alone."""

    name = "picky"
    lengths = range(0, 999, 5)

    def propose(self, context: Sequence[int], limit: int) -> Draft:
        return Draft((1,) * limit) if len(context) in self.lengths else Draft()


class Silent(Picky):
    lengths = range(0)


def test_a_place_is_one_where_there_is_a_guess() -> None:
    place = finder(ProposingModel("picky", Picky, copies=False)).find(PROMPTS[0])
    assert not isinstance(place, distribution_check.Skipped)
    assert len(place.text) % 5 == 0
    nowhere = finder(ProposingModel("silent", Silent, copies=False)).find(PROMPTS[0])
    assert nowhere == distribution_check.Skipped("sea", "prose", "silent drafts nothing where it is undecided")


def plain_law(text: tuple[int, ...]) -> Plain:
    model = ToyModel()
    return Plain(KnownCache(model), Sampler(UNDECIDED), text, model.vocab.is_end, MEMORY)


TEXT = tuple(ToyModel().vocab.tokenize("the hen"))


def test_the_law_is_the_product_of_what_is_served_one_token_at_a_time() -> None:
    laws = plain_law(TEXT).laws(100_000, 2)
    for law in laws:
        assert sum(law.probs.values()) + law.rest == pytest.approx(1)
    (path, prob), *_ = sorted(laws[1].probs.items(), key=lambda item: -item[1])
    sampler, expected = Sampler(UNDECIDED), 1.0
    for place, token in enumerate(path):
        row = ToyModel().decode([*TEXT, *path[:place]], 1)[0]
        expected *= sampler.served(row, [*TEXT, *path[:place]]).of(token)
    assert prob == pytest.approx(expected)


def test_rare_ways_are_not_read_and_count_as_the_rest() -> None:
    few, many = plain_law(TEXT).laws(20, 3)[2], plain_law(TEXT).laws(100_000, 3)[2]
    assert len(few.probs) < len(many.probs)
    assert few.rest > many.rest
    assert sum(few.probs.values()) + few.rest == pytest.approx(1)


def test_tokens_that_hardly_ever_come_count_as_the_rest_too() -> None:
    model, uncut = ToyModel(), SamplingParams(1.0, top_k=0, top_p=1.0, min_p=0.0)
    (few,) = Plain(KnownCache(model), Sampler(uncut), TEXT, model.vocab.is_end, MEMORY).laws(20, 1)
    assert 0 < len(few.probs) < 32
    assert min(few.probs.values()) * 20 >= 0.02
    assert sum(few.probs.values()) + few.rest == pytest.approx(1)
    assert few.rest > 0


def test_a_text_that_has_ended_goes_on_no_further() -> None:
    model = ToyModel()
    plain = Plain(KnownCache(model), Sampler(UNDECIDED), TEXT, lambda token: token == 0, MEMORY)
    laws = plain.laws(1_000_000, 2)
    assert (0,) in laws[0].probs
    assert (0,) in laws[1].probs
    assert all(path[0] != 0 for path in laws[1].probs if len(path) == 2)
    assert any(plain.say(seed, 3) == (0,) for seed in range(60))


def test_what_plain_decoding_says_is_what_the_loop_says_with_nobody_guessing() -> None:
    plain = plain_law(TEXT)
    for seed in range(40):
        model, tokens = ToyModel(), list(TEXT)
        model.decode(tokens[:-1], 0)
        sampler, ending = Sampler(replace(UNDECIDED, seed=seed)), Ending(model.vocab, budget=DEPTH)
        list(generate(model, NullDrafter(), sampler, tokens, ending, FixedLength(0), lambda: 0.0))
        assert plain.say(seed, DEPTH) == tuple(tokens[len(TEXT) :])


@dataclass(frozen=True, slots=True)
class Starter:
    model: LanguageModel
    exact_draft: int


@pytest.fixture(scope="module")
def starter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starter]:
    memory = tmp_path_factory.mktemp("memory") / "machine.json"
    options = LlamaOptions(threads=1, context_size=512, max_rows=4)
    loader = Loader(
        LoadPlan("starter", DrafterSpec("off"), options, memory), AbortFlag(), lambda: 0.0, lambda _, __: None
    )
    model = loader.target()
    yield Starter(model, loader.exact_width(model) - 1)
    model.close()


@pytest.mark.starter
@pytest.mark.parametrize("accept", EXACT)
def test_the_starter_fits_with_copied_drafts(accept: Accept, starter: Starter) -> None:
    is_end = starter.model.vocab.is_end
    proposing_model = ProposingModel("suffix", lambda: SuffixDrafter(is_end), copies=True)
    few = replace(UNDECIDED, top_k=3)
    wanted = replace(plan(accept, 150, sampling=few), draft_length=min(3, starter.exact_draft), memory=1 << 28)
    findings = checked(proposing_model, wanted, starter.model)
    assert findings.deviating == ()
    assert findings.guessed
