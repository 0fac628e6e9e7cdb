"""A whole comparison on the toy: what is counted, what it shows, and what it is said to hold for."""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from bench_fakes import COLD, PROMPTS
from rounding import RoundingHistory, RoundingToy, with_amplitude

import app.engine.runtime.load
from app.bench.measuring.arm_names import parse_arms
from app.bench.measuring.arms import ArmAnswer, BenchPrompt, Skipped
from app.engine.conversation.session import Session
from app.engine.costs.provenance import file_hash, processor_name
from app.engine.decoding import speculate
from app.engine.decoding.verify import Verdict
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.loader import Loader
from app.verify.tokens.certify import CertificateOutcome, Certification, Compared, outcome, tallies
from app.verify.tokens.fork import ForkKind
from drafters.base import Draft, NullDrafter
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.base import Logits
from models.errors import Cancelled, ModelFileError
from models.llama.load import LlamaOptions
from models.sampling.accept import Accept
from models.sampling.sampler import Sampler
from models.toy import ToyModel

ARMS = ("auto", "lookup:2", "suffix:5", "model:3")
TALK = tuple(replace(prompt, turns=(*prompt.turns, "and then? ")) for prompt in PROMPTS)
WARM = replace(COLD, temperature=0.8)


class Trial:
    """A comparison on the toy, whatever class that is at the moment."""

    def __init__(
        self,
        arms: Sequence[str] = ARMS,
        *,
        allow_rounding: bool = False,
        prompts: Sequence[BenchPrompt] = PROMPTS,
    ) -> None:
        self._prompts = prompts
        self.abort = AbortFlag()
        plan = LoadPlan("toy", parse_drafter("toy"), LlamaOptions(), Path("never used"))
        loader = Loader(plan, self.abort, time.perf_counter, lambda _, __: None)
        specs = parse_arms(arms, 3, has_draft=True)
        self.certification = Certification(loader, time.perf_counter, specs, self.abort)
        self.conditions = self.certification.load(allow_rounding=allow_rounding)
        self.forks: list[ArmAnswer] = []

    def compared(self, *samplings: object, tokens: int = 40) -> list[Compared]:
        events = self.certification.run(
            self._prompts, samplings or (COLD, WARM), tokens, Accept.COUPLED, lambda _, __: None, self.forks.append
        )  # type: ignore[arg-type]
        found = [event for event in events if not isinstance(event, Skipped)]
        self.certification.close()
        return found


def takes_every_draft_token(rows: Logits, draft: Draft, sampler: Sampler, tokens: Sequence[int]) -> Verdict:
    return Verdict(len(draft.tokens), sampler.pick(rows[-1], tokens, draft.tokens), is_bonus=True)


def test_on_the_toy_every_arm_is_exact_and_everything_is_counted() -> None:
    compared = Trial().compared()
    assert outcome(compared) is CertificateOutcome.EXACT
    assert all(one.forks == () for one in compared)
    found = tallies(compared)
    assert [(tally.temperature, tally.arm) for tally in found] == [(t, arm) for t in (0.0, 0.8) for arm in ARMS]
    for tally in found:
        turns = [one.turn for one in compared if one.turn[0].temperature == tally.temperature]
        answers = [turn[1 + ARMS.index(tally.arm)] for turn in turns]
        assert tally.answers == len(answers) == len(PROMPTS)
        assert tally.tokens == sum(len(answer.tokens) for answer in answers)
        assert (tally.near_ties, tally.bugs) == (0, 0)
        drafted = [width - 1 for answer in answers for width in answer.widths]
        assert tally.drafted == sum(drafted)
        assert set(tally.widths) == {width + 1 for width in drafted}
    assert sum(tally.accepted for tally in found) > 0
    assert {tally.widths[-1] for tally in found if tally.arm == "model:3"} == {4}


@pytest.mark.parametrize("allow_rounding", [False, True])
def test_where_wide_passes_round_differently_every_fork_is_a_near_tie(
    monkeypatch: pytest.MonkeyPatch, allow_rounding: bool
) -> None:
    monkeypatch.setattr(app.engine.runtime.load, "ToyModel", RoundingToy)
    trial = Trial(allow_rounding=allow_rounding)
    assert trial.conditions.exact_draft == 0
    compared = trial.compared()
    forks = [fork for one in compared for fork in one.forks]
    assert len(forks) == len(trial.forks) > 3
    assert {fork.kind for fork in forks} == {ForkKind.NEAR_TIE}
    assert {fork.temperature for fork in forks} == {0.0, 0.8}
    assert outcome(compared) is CertificateOutcome.ROUNDING
    assert sum(tally.near_ties for tally in tallies(compared)) == len(forks)
    assert sum(tally.bugs for tally in tallies(compared)) == 0


def test_a_fault_that_shows_in_the_next_turn_alone_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = Session._rewind_to_common

    def leaves_a_wrong_token(session: Session, prompt: Sequence[int]) -> int:
        same = cut(session, prompt)
        if same and not isinstance(session.drafter, NullDrafter) and same < len(prompt) - 1:
            session.target.decode([prompt[same] ^ 1], rows=0)
        return same

    monkeypatch.setattr(Session, "_rewind_to_common", leaves_a_wrong_token)
    compared = Trial(prompts=TALK).compared()
    assert outcome(compared) is CertificateOutcome.BUG
    assert {fork.turn for one in compared for fork in one.forks} == {1}


def test_later_turns_go_on_from_what_the_arm_itself_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.engine.runtime.load, "ToyModel", RoundingToy)
    compared = Trial(allow_rounding=True, prompts=TALK).compared()
    turns = {turn: [one for one in compared if one.turn[0].turn == turn] for turn in (0, 1)}
    assert len(turns[0]) == len(turns[1]) == 2 * len(TALK)
    for first, second in zip(turns[0], turns[1], strict=True):
        same = {one.arm for one in first.turn if one.fork is None}
        assert {one.arm for one in second.turn} == same
        assert all(one.prompt_tokens == second.turn[0].prompt_tokens for one in second.turn)
    assert {fork.kind for one in compared for fork in one.forks} == {ForkKind.NEAR_TIE}


def test_what_earlier_answers_left_rounded_explains_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.engine.runtime.load, "ToyModel", RoundingHistory)
    compared = Trial(allow_rounding=True, prompts=TALK).compared(tokens=12)
    forks = [fork for one in compared for fork in one.forks]
    assert {fork.turn for fork in forks} == {0, 1}
    assert {fork.kind for fork in forks} == {ForkKind.NEAR_TIE}


def test_on_the_toy_conversations_are_exact_too() -> None:
    compared = Trial(prompts=TALK).compared()
    assert outcome(compared) is CertificateOutcome.EXACT
    assert [one.turn[0].turn for one in compared] == [0, 1, 0, 1, 0, 1] * 2
    assert all([answer.arm for answer in one.turn] == ["off", *ARMS] for one in compared)


def test_tokens_after_a_fork_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.engine.runtime.load, "ToyModel", RoundingToy)
    compared = Trial(["lookup:2"]).compared()
    forks = {(fork.temperature, fork.prompt): fork.place for one in compared for fork in one.forks}
    assert forks
    for tally in tallies(compared):
        answers = [one.turn[1] for one in compared if one.turn[1].temperature == tally.temperature]
        kept = [forks.get((tally.temperature, answer.prompt), len(answer.tokens)) for answer in answers]
        assert tally.tokens == sum(kept)


@pytest.mark.parametrize("toy", [ToyModel, with_amplitude(0.001)], ids=("exact", "rounding"))
def test_a_broken_rule_is_a_bug_in_the_arms_that_use_it(monkeypatch: pytest.MonkeyPatch, toy: type[ToyModel]) -> None:
    monkeypatch.setattr(app.engine.runtime.load, "ToyModel", toy)
    monkeypatch.setattr(speculate, "verify", takes_every_draft_token)
    compared = Trial().compared()
    assert outcome(compared) is CertificateOutcome.BUG
    forks = [fork for one in compared for fork in one.forks]
    assert sum(tally.bugs + tally.near_ties for tally in tallies(compared)) == len(forks)
    assert sum(tally.bugs for tally in tallies(compared)) == sum(fork.kind is ForkKind.BUG for fork in forks) > 5
    for one in compared:
        answers = {answer.arm: answer for answer in one.turn}
        assert {fork.arm: fork.place for fork in one.forks} == {
            arm: answer.fork for arm, answer in answers.items() if answer.fork is not None
        }
        assert all(fork.turn == 0 and fork.seed == one.turn[0].seed for fork in one.forks)


def test_one_bug_outweighs_any_number_of_near_ties(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.engine.runtime.load, "ToyModel", RoundingToy)
    compared = Trial().compared()
    (first, *others) = [one for one in compared if one.forks]
    worse = replace(first, forks=(replace(first.forks[0], kind=ForkKind.BUG), *first.forks[1:]))
    assert outcome([worse, *others]) is CertificateOutcome.BUG


def test_passes_are_timed_only_for_who_decides_by_it() -> None:
    for arms, timed in ((["auto", "lookup:2"], True), (["lookup:2"], False)):
        trial = Trial(arms)
        trial.certification.close()
        assert (trial.conditions.oracle is not None) == timed


def test_where_nothing_was_drafted_nothing_is_shown() -> None:
    compared = Trial(["off"]).compared()
    assert tallies(compared) == []
    assert outcome(compared) is CertificateOutcome.NOTHING


def test_a_stop_is_heard_between_answers_and_inside_an_explanation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speculate, "verify", takes_every_draft_token)
    trial = Trial(["lookup:2"])
    events = trial.certification.run(
        PROMPTS, [WARM], 40, Accept.COUPLED, lambda _, __: None, lambda _: trial.abort.set()
    )
    with pytest.raises(Cancelled):
        next(events)
    trial.certification.close()


def test_the_models_are_written_down_the_toy_without_a_file() -> None:
    trial = Trial()
    told: list[str] = []
    found = trial.certification.provenance(lambda name, _: told.append(name))
    trial.certification.close()
    assert (found.model.name, found.model.sha256) == ("toy-0", "")
    assert found.draft_model is not None
    assert (found.draft_model.sha256, found.build, found.settings, told) == ("", "", None, [])
    assert found.processor == processor_name() != ""
    assert found.cores >= 1


def test_a_file_is_hashed_to_its_last_byte_and_its_progress_told(tmp_path: Path) -> None:
    file = tmp_path / "weights.gguf"
    content = bytes(range(256)) * 10_000 + b"end"
    file.write_bytes(content)
    shares: list[float] = []
    assert file_hash(file, AbortFlag(), shares.append) == hashlib.sha256(content).hexdigest()
    assert len(shares) == 3
    assert shares == sorted(shares)
    assert (shares[0] < 0.5, shares[-1]) == (True, 1.0)


def test_a_stop_is_heard_while_hashing_and_a_file_that_is_gone_is_said(tmp_path: Path) -> None:
    file = tmp_path / "weights.gguf"
    file.write_bytes(b"x" * (3 << 20))
    abort = AbortFlag()
    with pytest.raises(Cancelled):
        file_hash(file, abort, lambda _: abort.set())
    with pytest.raises(ModelFileError, match=r"gone\.gguf"):
        file_hash(tmp_path / "gone.gguf", AbortFlag(), lambda _: None)
