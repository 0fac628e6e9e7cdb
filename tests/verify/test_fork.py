"""Forks explained: near-ties by the rounding measured there, and bugs by nothing."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from bench_fakes import COLD, VirtualClock, answer, plain_arm
from fakes import StoppingModel
from numpy.typing import NDArray
from rounding import KeepsStaleRow, OffByOne, RoundingToy, cuts_of, passes_of, with_amplitude

from app.bench.measuring.arms import Arm, ArmAnswer, Bench, BenchPrompt, Skipped
from app.engine.decoding import speculate
from app.engine.decoding.controller import FixedLength
from app.engine.decoding.ending import Finish
from app.engine.decoding.verify import Verdict, verify
from app.verify.tokens.fork import Fork, ForkKind, differs, explain, used_widths
from drafters.base import Draft
from drafters.draft_model import DraftModel
from models.base import Logits
from models.errors import Cancelled
from models.forms.grammar import Grammar
from models.sampling.sampler import Sampler, SamplingParams
from models.toy import ToyModel

TEXT = "the cat sat on a mat and saw an old hen that ate oats in the rain "
PROMPTS = [BenchPrompt(f"p{i}", "chat", (TEXT[3 * i : 5 * i + 8],)) for i in range(12)]
WARM = SamplingParams(temperature=0.8, seed=5)
OPEN = SamplingParams(temperature=1.3, top_k=0, top_p=1, min_p=0, seed=6)
PENALISED = replace(WARM, repeat_penalty=1.3, frequency_penalty=0.2)
SAMPLINGS = (COLD, WARM, OPEN, PENALISED)


def forks_of(
    target: ToyModel,
    sampling: SamplingParams,
    length: int = 3,
    siblings: int = 0,
    prompts: Sequence[BenchPrompt] = PROMPTS,
) -> list[tuple[Fork, ArmAnswer, ArmAnswer]]:
    """Compare a draft model's answers with plain ones; return each fork with the two answers."""

    def arms() -> list[Arm]:
        drafter = DraftModel(ToyModel(unlikeness=0.5), target.vocab)
        return [plain_arm(), Arm("model:3", drafter, FixedLength(length, siblings))]

    found = []
    for turn in Bench(target, VirtualClock(), 24, lambda _, __: None).run(prompts, arms, sampling):
        assert not isinstance(turn, Skipped)
        plain, drafted = turn
        if differs(plain, drafted):
            fork = explain(target, plain, drafted, replace(sampling, seed=plain.seed))
            assert target.length == 0
            found.append((fork, plain, drafted))
    return found


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=("cold", "warm", "open", "penalised"))
def test_a_fork_that_only_rounding_makes_is_a_near_tie(sampling: SamplingParams) -> None:
    shapes = ((1, 0), (3, 0), (6, 0), (3, 2))
    found = [fork for length, siblings in shapes for fork in forks_of(RoundingToy(), sampling, length, siblings)]
    assert len(found) >= 3
    for fork, plain, drafted in found:
        assert fork.kind is ForkKind.NEAR_TIE, fork
        assert (fork.place, fork.seed, fork.prompt) == (drafted.fork, plain.seed, plain.prompt)
        assert fork.tokens == (plain.tokens[fork.place], drafted.tokens[fork.place])
        assert fork.gap is not None
        assert fork.floor is not None
        assert 0 < fork.gap <= fork.floor < 12 * RoundingToy.amplitude / (sampling.temperature or 1)
    # Where the same pass is repeated, the drafted token comes again.
    assert any(fork.seen_at in fork.widths for fork, _, _ in found)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=("cold", "warm", "open", "penalised"))
def test_a_fork_under_a_grammar_is_explained_by_what_it_allows(
    sampling: SamplingParams, monkeypatch: pytest.MonkeyPatch
) -> None:
    formed = [replace(prompt, grammar=Grammar.of_text("root ::= [a-m ]+")) for prompt in PROMPTS]
    found = [fork for length in (1, 3) for fork, *_ in forks_of(RoundingToy(), sampling, length, prompts=formed)]
    assert found
    assert {fork.kind for fork in found} == {ForkKind.NEAR_TIE}
    monkeypatch.setattr("app.verify.tokens.fork.allowed_after", lambda *_: None)
    unaware = [fork for length in (1, 3) for fork, *_ in forks_of(RoundingToy(), sampling, length, prompts=formed)]
    assert ForkKind.BUG in {fork.kind for fork in unaware}


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=("cold", "warm", "open", "penalised"))
def test_where_nothing_rounds_nothing_forks(sampling: SamplingParams) -> None:
    assert forks_of(ToyModel(), sampling) == []


def takes_every_draft_token(rows: Logits, draft: Draft, sampler: Sampler, tokens: Sequence[int]) -> Verdict:
    return Verdict(len(draft.tokens), sampler.pick(rows[-1], tokens, draft.tokens), is_bonus=True)


def another_seed(rows: Logits, draft: Draft, sampler: Sampler, tokens: Sequence[int]) -> Verdict:
    wrong = Sampler(replace(sampler.params, seed=sampler.params.seed + 1)) if draft.tokens else sampler
    return verify(rows, draft, wrong, tokens)


def row_before(rows: Logits, draft: Draft, sampler: Sampler, tokens: Sequence[int]) -> Verdict:
    return verify(np.roll(rows, 1, axis=0), draft, sampler, tokens)


def row_after(rows: Logits, draft: Draft, sampler: Sampler, tokens: Sequence[int]) -> Verdict:
    return verify(np.roll(rows, -1, axis=0), draft, sampler, tokens)


def cold_when_drafting(rows: Logits, draft: Draft, sampler: Sampler, tokens: Sequence[int]) -> Verdict:
    wrong = Sampler(replace(sampler.params, temperature=0.0)) if draft.tokens else sampler
    return verify(rows, draft, wrong, tokens)


RULES = {rule.__name__: rule for rule in (takes_every_draft_token, row_before, row_after)}
SAMPLED_RULES = RULES | {rule.__name__: rule for rule in (another_seed, cold_when_drafting)}


def check_all_are_bugs(found: list[tuple[Fork, ArmAnswer, ArmAnswer]]) -> None:
    assert found
    for fork, _, drafted in found:
        assert fork.kind is ForkKind.BUG, fork
        assert fork.place == drafted.fork
        assert fork.floor == 0


@pytest.mark.parametrize("rule", RULES)
def test_a_broken_rule_is_a_bug_at_the_likeliest_token(monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    monkeypatch.setattr(speculate, "verify", RULES[rule])
    check_all_are_bugs(found := forks_of(ToyModel(), COLD))
    assert all("agree to the last bit" in fork.reason for fork, _, _ in found)


@pytest.mark.parametrize("rule", SAMPLED_RULES)
def test_a_broken_rule_is_a_bug_where_tokens_are_sampled(monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    monkeypatch.setattr(speculate, "verify", SAMPLED_RULES[rule])
    check_all_are_bugs(forks_of(ToyModel(), WARM))


@pytest.mark.parametrize("sampling", [COLD, WARM], ids=("cold", "warm"))
def test_a_cache_that_is_cut_wrongly_does_not_explain_itself(sampling: SamplingParams) -> None:
    check_all_are_bugs(forks_of(KeepsStaleRow(), sampling))


@pytest.mark.parametrize("sampling", [COLD, WARM], ids=("cold", "warm"))
def test_wide_passes_that_say_something_else_altogether_are_no_rounding(sampling: SamplingParams) -> None:
    found = forks_of(OffByOne(), sampling)
    assert found
    for fork, _, _ in found:
        assert fork.kind is ForkKind.BUG
        assert "gives an unrelated result" in fork.reason


@pytest.mark.parametrize("rule", SAMPLED_RULES)
def test_a_bug_is_not_excused_by_rounding_that_is_too_small_for_it(monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    monkeypatch.setattr(speculate, "verify", SAMPLED_RULES[rule])
    found = forks_of(with_amplitude(0.001)(), WARM)
    assert found
    for fork, _, _ in found:
        assert fork.gap is not None
        assert fork.floor is not None
        assert 0 < fork.floor < 0.02
        assert (fork.kind is ForkKind.NEAR_TIE) == (fork.gap <= fork.floor)
    assert sum(fork.kind is ForkKind.BUG for fork, _, _ in found) > 0.9 * len(found)


Change = Callable[[int, int], NDArray[np.float32]]
"""What is added to a row, by the width of the pass and the place in it."""
BASE = np.linspace(-9, -5, 32).astype(np.float32)


def row(**logits: float) -> NDArray[np.float32]:
    """Return a row that has these logits: t0=2.0 is that of token 0."""
    made = BASE.copy()
    for name, value in logits.items():
        made[int(name[1:])] = value
    return made


def shift(**by: float) -> NDArray[np.float32]:
    """Return what moves these tokens by so much, and no other."""
    moved = np.zeros(32, np.float32)
    for name, value in by.items():
        moved[int(name[1:])] = value
    return moved


class Scripted(ToyModel):
    """Says the same row after every text, changed in passes over several tokens."""

    def __init__(self, narrow: NDArray[np.float32], change: Change, context_size: int = 512) -> None:
        super().__init__(context_size=context_size)
        self._narrow, self._change = narrow, change

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        super().decode(tokens, rows, parents)
        width = len(tokens)
        changes = [self._change(width, place) if width > 1 else 0 for place in range(width - rows, width)]
        return np.array([self._narrow + change for change in changes], np.float32).reshape(rows, 32)


def always(moved: NDArray[np.float32]) -> Change:
    return lambda _, __: moved


ASKED, SAID = (3, 4, 5), (7, 8)
POSITION = len(ASKED) + len(SAID)


def fork_at_the_end(
    target: ToyModel,
    params: SamplingParams = COLD,
    tokens: tuple[int, int] = (0, 1),
    widths: tuple[int, ...] = (1, 1, 4),
    trees: tuple[bool, ...] = (False, False, False),
) -> Fork:
    """Explain a fork after two tokens, between the two given."""
    plain = answer("off", "p", [(1.0, 1)] * 3, tokens=(*SAID, tokens[0]), prompt_tokens=ASKED)
    drafted = replace(plain, arm="lookup:3", tokens=(*SAID, tokens[1]), widths=widths, trees=trees, fork=2)
    return explain(target, plain, drafted, params)


def test_gap_and_noise_floor_are_what_they_are_said_to_be() -> None:
    near = fork_at_the_end(Scripted(row(t0=5.0, t1=4.99), always(shift(t1=0.02))))
    assert (near.kind, near.seen_at) == (ForkKind.NEAR_TIE, 4)
    assert (near.gap, near.floor) == (pytest.approx(0.01, abs=1e-5), pytest.approx(0.04, abs=1e-5))
    assert near.texts == ("e", "t")


def test_a_gap_within_the_floor_is_a_near_tie_though_it_was_not_seen_again() -> None:
    near = fork_at_the_end(Scripted(row(t0=5.0, t1=4.97), always(shift(t0=-0.01, t1=0.019))))
    assert (near.kind, near.seen_at) == (ForkKind.NEAR_TIE, None)
    assert "within" in near.reason


def test_a_gap_above_the_floor_is_a_bug() -> None:
    bug = fork_at_the_end(Scripted(row(t0=5.0, t1=4.95), always(shift(t1=0.02))))
    assert (bug.kind, bug.seen_at) == (ForkKind.BUG, None)
    assert (bug.gap, bug.floor) == (pytest.approx(0.05, abs=1e-5), pytest.approx(0.04, abs=1e-5))
    assert "larger" in bug.reason


def test_equal_bits_explain_nothing_however_small_the_gap() -> None:
    tied = fork_at_the_end(Scripted(row(t0=5.0, t1=5.0), always(shift())))
    assert (tied.kind, tied.gap, tied.floor) == (ForkKind.BUG, 0, 0)


def test_noise_counts_in_served_scores() -> None:
    warm = replace(OPEN, temperature=0.5, seed=seed_for(row(t0=5.0, t1=4.99), replace(OPEN, temperature=0.5), (0, 1)))
    fork = fork_at_the_end(Scripted(row(t0=5.0, t1=4.99), always(shift(t1=0.02))), warm)
    assert fork.floor == pytest.approx(0.08, abs=1e-5)
    ids, keys = Sampler(warm).keys(row(t0=5.0, t1=4.99), [0] * POSITION)
    assert list(ids[:2]) == [0, 1]
    assert fork.gap == pytest.approx(keys[0] - keys[1])


def test_the_noise_of_the_other_candidates_counts_and_that_of_hopeless_tokens_does_not() -> None:
    rival = Scripted(row(t0=5.0, t1=4.97, t2=3.0), always(shift(t2=0.02)))
    assert fork_at_the_end(rival).kind is ForkKind.NEAR_TIE
    cut = replace(OPEN, top_k=3)
    narrow = row(t0=5.0, t1=4.97, t2=3.0)
    sampled = replace(cut, seed=seed_for(narrow, cut, (0, 1)))
    hopeless = fork_at_the_end(Scripted(narrow, always(shift(t9=3.0))), sampled)
    assert (hopeless.kind, hopeless.floor) == (ForkKind.BUG, 0)


def seed_for(narrow: NDArray[np.float32], params: SamplingParams, best: Sequence[int]) -> int:
    """Return a seed whose noise ranks these tokens first, of all and before any cut."""
    uncut = replace(params, top_k=0, top_p=1.0, min_p=0.0)
    for seed in range(20_000):
        ids, _ = Sampler(replace(uncut, seed=seed)).keys(narrow, [0] * POSITION)
        if list(ids[: len(best)]) == list(best):
            return seed
    raise AssertionError("no such seed")


CUTS = {
    "top-k": (replace(OPEN, temperature=1.0, top_k=2), 0.99, 0.01),
    "min-p": (replace(OPEN, temperature=1.0, min_p=float(np.exp(-1.0))), 0.99, 0.01),
    "top-p": (replace(OPEN, temperature=1.0, top_p=0.785), 0.99, None),
    "top-k, colder": (replace(OPEN, temperature=0.5, top_k=2), 0.99, 0.02),
}


@pytest.mark.parametrize("cut", CUTS)
def test_a_token_that_was_cut_off_by_a_hair_is_a_near_tie(cut: str) -> None:
    params, logit, lacking = CUTS[cut]
    narrow = row(t0=2.0, t1=1.0, t2=logit)
    # Uncut, token 2 would win, so all that it lacks is to be kept.
    params = replace(params, seed=seed_for(narrow, params, (2, 0)))
    assert Sampler(params).pick(narrow, [0] * POSITION) == 0
    fork = fork_at_the_end(Scripted(narrow, always(shift(t2=0.02))), params, (0, 2))
    assert fork.kind is ForkKind.NEAR_TIE, fork
    assert fork.gap is not None
    assert fork.floor is not None
    assert 0 < fork.gap <= fork.floor / 3
    if lacking is not None:
        assert fork.gap == pytest.approx(lacking, abs=1e-4)


@pytest.mark.parametrize("cut", CUTS)
def test_a_token_far_behind_the_cut_is_a_bug(cut: str) -> None:
    params = CUTS[cut][0]
    narrow = row(t0=2.0, t1=1.0, t2=-1.0)
    params = replace(params, seed=seed_for(narrow, params, (2, 0)))
    fork = fork_at_the_end(Scripted(narrow, always(shift(t2=0.02))), params, (0, 2))
    assert fork.kind is ForkKind.BUG
    assert fork.gap is not None
    assert fork.gap > 0.5


NEARLY_CUT = {"top-k": 1.0, "top-k, colder": 1.0, "min-p": 1.0, "top-p": 1.02}
"""Logit of token 1 beside which token 2, at 1.01, is kept by a hair."""


@pytest.mark.parametrize("cut", CUTS)
def test_a_token_that_was_kept_by_a_hair_is_a_near_tie_however_far_ahead_it_was(cut: str) -> None:
    narrow = row(t0=2.0, t1=NEARLY_CUT[cut], t2=1.01)
    params = replace(CUTS[cut][0], seed=seed_for(narrow, CUTS[cut][0], (2, 0)))
    ids, keys = Sampler(params).keys(narrow, [0] * POSITION)
    assert (list(ids[:2]), keys[0] - keys[1] > 0.1) == ([2, 0], True)
    fork = fork_at_the_end(Scripted(narrow, always(shift(t2=-0.02))), params, (2, 0))
    assert fork.kind is ForkKind.NEAR_TIE, fork
    assert fork.seen_at == 4
    assert fork.gap is not None
    assert fork.floor is not None
    assert 0 < fork.gap <= fork.floor / 2


def test_top_p_leaves_room_for_what_all_the_others_do() -> None:
    # Half of all weight lies on the first two, within a hair, and token 2 has next to none of the rest.
    narrow = np.full(32, -1.1, np.float32)
    narrow[:3] = (2.0, 1.0, -1.0)
    params = replace(OPEN, temperature=1.0, top_p=0.5)
    params = replace(params, seed=seed_for(narrow, params, (2, 0)))
    fork = fork_at_the_end(Scripted(narrow, always(shift(t0=0.02))), params, (0, 2))
    assert (fork.kind, fork.seen_at) == (ForkKind.NEAR_TIE, None)
    assert fork.gap == pytest.approx(0.0088, abs=2e-3)


def test_what_comes_again_with_no_drafter_is_a_near_tie_though_no_candidate_moved_enough() -> None:
    narrow = row(t0=2.0, t1=1.0, t2=0.99)
    params = replace(CUTS["top-p"][0], seed=seed_for(narrow, CUTS["top-p"][0], (2, 0)))
    # The share of all that are cut off grows, and with it the room for token 2.
    tail = np.where(narrow < 0, 0.37, 0).astype(np.float32) + shift(t0=0.0001)
    fork = fork_at_the_end(Scripted(narrow, always(tail)), params, (0, 2))
    assert (fork.kind, fork.seen_at) == (ForkKind.NEAR_TIE, 4)
    assert fork.gap is not None
    assert fork.floor is not None
    assert fork.gap > fork.floor


def test_a_token_that_was_kept_by_much_is_no_near_tie() -> None:
    narrow = row(t0=2.0, t1=-1.0, t2=1.01)
    for params, *_ in CUTS.values():
        drawn = replace(params, seed=seed_for(narrow, params, (2, 0)))
        assert Sampler(drawn).pick(narrow, [0] * POSITION) == 2
        fork = fork_at_the_end(Scripted(narrow, always(shift(t1=0.001))), drawn, (2, 0))
        assert (fork.kind, fork.seen_at) == (ForkKind.BUG, None)


def test_a_token_that_nobody_could_emit_has_a_gap_that_is_a_number() -> None:
    narrow = row(t0=2.0, t1=1.0, t9=-5000.0)
    for params in (COLD, WARM, OPEN):
        fork = fork_at_the_end(Scripted(narrow, always(shift(t1=0.02))), params, (0, 9))
        assert fork.kind is ForkKind.BUG
        assert fork.gap is not None
        assert 3000 < fork.gap < 20_000


def test_penalties_count_as_they_did() -> None:
    # Token 7 was said, so 5.0 counts as 2.5.
    params = replace(COLD, repeat_penalty=2.0)
    fork = fork_at_the_end(Scripted(row(t7=5.0, t1=2.49), always(shift(t1=0.02))), params, (7, 1))
    assert (fork.kind, fork.gap) == (ForkKind.NEAR_TIE, pytest.approx(0.01, abs=1e-5))


def test_plain_decoding_that_does_not_repeat_itself_is_a_bug_whoever_was_right() -> None:
    fork = fork_at_the_end(Scripted(row(t0=4.0, t1=5.0), always(shift(t1=0.02))))
    assert (fork.kind, fork.seen_at, fork.gap) == (ForkKind.BUG, 4, pytest.approx(1.0))
    assert "does not repeat its own token" in fork.reason


@pytest.mark.parametrize("place", [0, 2])
def test_both_ends_of_a_pass_are_measured(place: int) -> None:
    # Three tokens are read in passes of the width asked for, so the last place that the text can end at is the third.
    target = Scripted(row(t0=5.0, t1=4.97), lambda _, at: shift(t1=0.02 if at == place else 0.0))
    assert fork_at_the_end(target, widths=(1, 1, 4)).kind is ForkKind.NEAR_TIE


class BranchesRound(Scripted):
    """Moves the last row of a pass with siblings, and no other."""

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        logits = super().decode(tokens, rows, parents)
        if parents:
            logits[-1] += shift(t1=0.02)
        return logits


def test_rows_of_siblings_are_measured_where_there_were_some() -> None:
    target = BranchesRound(row(t0=5.0, t1=4.99), always(shift()))
    assert fork_at_the_end(target, trees=(False, False, True)).kind is ForkKind.NEAR_TIE
    assert fork_at_the_end(target).kind is ForkKind.BUG


def test_only_widths_that_were_used_until_the_fork_are_measured() -> None:
    target = Scripted(row(t0=5.0, t1=4.99), lambda width, _: shift(t1=0.02 if width == 5 else 0.0))
    assert fork_at_the_end(target, widths=(5, 1, 2)).kind is ForkKind.NEAR_TIE
    assert fork_at_the_end(target, widths=(2, 1, 4)).kind is ForkKind.BUG
    shape = {"widths": (4, 3, 2, 9), "trees": (True, False, False, True)}
    made = answer("a", "p", [(1.0, 2), (1.0, 3), (1.0, 1), (1.0, 4)], **shape)
    assert [used_widths(made, place) for place in (0, 1, 2, 4, 5, 6)] == [
        (4,), (4,), (3, 4), (3, 4), (2, 3, 4), (2, 3, 4, 9),
    ]  # fmt: skip
    assert [used_widths(made, place, trees=True) for place in (0, 5, 6)] == [(4,), (4,), (4, 9)]


def test_an_answer_that_ends_elsewhere_is_a_bug_without_any_measure() -> None:
    target = ToyModel()
    plain = answer("off", "p", [(1.0, 1)] * 3, prompt_tokens=ASKED)
    shorter = answer("a", "p", [(1.0, 2)], prompt_tokens=ASKED, fork=2)
    fork = explain(target, plain, shorter, COLD)
    assert (fork.kind, fork.tokens, fork.gap, target.decoded) == (ForkKind.BUG, (2, None), None, 0)
    other = replace(plain, arm="a", finish=Finish.END)
    assert differs(plain, other)
    assert not differs(plain, replace(plain, arm="a"))
    fork = explain(target, plain, other, COLD)
    assert (fork.kind, fork.place, fork.tokens) == (ForkKind.BUG, 3, (None, None))
    assert "end differently" in fork.reason


def test_a_text_is_read_anew_each_time_and_the_cache_is_never_cut() -> None:
    target = Scripted(row(t0=5.0, t1=4.99), always(shift(t1=0.02)))
    cuts = cuts_of(target)
    fork_at_the_end(target)
    assert set(cuts) == {0}
    assert target.length == 0


def test_a_stop_leaves_an_empty_cache() -> None:
    target = StoppingModel(stop_at=4)
    with pytest.raises(Cancelled):
        fork_at_the_end(target)
    assert target.length == 0


def test_a_fork_is_measured_in_the_widths_of_earlier_turns_too() -> None:
    target = RoundingToy()
    _, plain, drafted = forks_of(target, COLD)[0]
    narrow = replace(drafted, widths=(1,) * len(drafted.widths))
    passes = passes_of(target)
    assert explain(target, plain, narrow, COLD).kind is ForkKind.BUG
    assert {tokens for tokens, rows in passes if rows} == {1}
    earlier = replace(drafted, prompt_tokens=plain.prompt_tokens[:2], tokens=plain.prompt_tokens[2:6])
    assert explain(target, plain, narrow, COLD, [(earlier, earlier)]).kind is ForkKind.NEAR_TIE
    assert {tokens for tokens, rows in passes if rows} >= set(drafted.widths)
