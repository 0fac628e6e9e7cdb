"""Going back to a round: it is told as it was, and the conversation does not notice."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fakes import FakeClock, RaisingDrafter, ScriptedDrafter, StoppingModel

from app.engine.conversation.messages import Ended, Said, Walked
from app.engine.conversation.round_history import KEPT, RoundHistory
from app.engine.conversation.session import Session
from app.engine.decoding.controller import Controller, FixedLength
from app.engine.decoding.ending import Ending
from app.engine.decoding.request import Question
from app.engine.decoding.round import Round
from app.engine.runtime import load
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.worker import Worker
from app.engine.trace.trace import Fate, LastTokenKind, Walk
from drafters.base import Drafter, NullDrafter
from drafters.draft_model import DraftModel
from drafters.recycle import Recycle
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.base import Logits
from models.errors import Cancelled, LocalspecError
from models.llama.load import LlamaOptions
from models.sampling.accept import Accept
from models.sampling.sampler import Sampler, SamplingParams
from models.text.prompts import Message as Turn
from models.toy import ToyModel, ToyVocab

VOCAB = ToyVocab()
PROMPT = VOCAB.tokenize("the cat sat on the mat. the cat")
FOLLOW_UP = VOCAB.tokenize(" and then? ")
SAMPLING = SamplingParams(seed=5, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
RULES = list(Accept)


class Told:
    """A session whose rounds are kept, and told again."""

    def __init__(self, target: ToyModel, drafter: Drafter, rule: Accept = Accept.COUPLED) -> None:
        self.target = target
        self.session = Session(target, drafter, FakeClock())
        self.sampler = Sampler(SAMPLING, rule)
        self.recent = RoundHistory()
        self.rounds: list[Round] = []

    def ask(
        self, prompt: Sequence[int], controller: Controller | None = None, budget: int = 40, stops: Sequence[str] = ()
    ) -> list[int]:
        self.rounds = []
        self.recent.begin(self.sampler)
        ending = Ending(VOCAB, stops=stops, budget=budget)
        for event in self.session.answer(prompt, self.sampler, ending, controller or FixedLength(3)):
            if isinstance(event, Round):
                self.recent.observe(event)
                self.rounds.append(event)
        return self.session.tokens[len(prompt) :]

    def walk(self, back: int | None = None) -> Walk | str:
        told = self.recent.walk(self.session, back, exact_width=4)
        return told.walk or told.reason

    def walked(self, back: int | None = None) -> Walk:
        walk = self.walk(back)
        assert isinstance(walk, Walk), walk
        return walk

    def drafted(self) -> list[tuple[int, Round]]:
        return [(number, one) for number, one in enumerate(self.rounds, start=1) if one.draft.tokens][-KEPT:]


def modelled(rule: Accept = Accept.COUPLED, target: ToyModel | None = None, unlikeness: float = 0.8) -> Told:
    return Told(target or ToyModel(), DraftModel(ToyModel(unlikeness=unlikeness), VOCAB), rule)


def scripted(*drafts: Sequence[int], target: ToyModel | None = None) -> Told:
    return Told(target or ToyModel(), ScriptedDrafter(drafts))


@pytest.mark.parametrize("siblings", [0, 2])
@pytest.mark.parametrize("rule", RULES)
def test_every_round_is_told_as_it_was(rule: Accept, siblings: int) -> None:
    if siblings and rule in (Accept.BLOCK, Accept.TYPICAL):
        return
    told = modelled(rule)
    told.ask(PROMPT, FixedLength(3, siblings))
    for back, (number, round_) in enumerate(reversed(told.drafted()), start=1):
        walk = told.walked(back)
        assert (walk.number, walk.verdict, walk.source) == (number, round_.verdict, round_.draft.source)
        assert tuple(word.token for word in walk.emitted) == round_.emitted
        assert {step.word.token for step in walk.steps} == set(round_.draft.checked)
        before = [word.token for word in walk.before]
        assert before == told.session.tokens[: round_.prefix_length][-len(before) :]


@pytest.mark.parametrize("rule", [Accept.COUPLED, Accept.RESIDUAL])
def test_every_round_with_a_tree_is_told_as_it_was(rule: Accept) -> None:
    told, branches = Told(ToyModel(), Recycle(VOCAB.is_end), rule), 0
    for _ in range(3):
        told.ask([*told.session.tokens, *PROMPT], FixedLength(8, branches=8), 60)
        for back, (number, round_) in enumerate(reversed(told.drafted()), start=1):
            walk = told.walked(back)
            assert (walk.number, walk.verdict, walk.source) == (number, round_.verdict, "recycle")
            assert sorted(step.word.token for step in walk.steps) == sorted(round_.draft.checked)
            names = [(step.place, step.branch) for step in walk.steps]
            assert len(set(names)) == len(names), "every token has a name of its own"
            kept = [step.word.token for step in walk.steps if step.fate is Fate.KEPT]
            assert kept == [*round_.draft.tokens[: round_.verdict.accepted], *round_.verdict.branch]
            branches += len(round_.verdict.branch)
    assert branches > 2


@pytest.mark.parametrize("rule", [Accept.COUPLED, Accept.RESIDUAL])
def test_a_round_after_a_second_guess_came_true_is_told_too(rule: Accept) -> None:
    target, after_siblings = StoppingModel(), 0
    told = modelled(rule, target)
    for budget in (30, 50, 70, 90, 110):
        told.ask(PROMPT, FixedLength(3, siblings=3), budget)
        for back, (_, round_) in enumerate(reversed(told.drafted()), start=1):
            done = len(target.passes)
            assert told.walked(back).verdict == round_.verdict
            assert target.passes[done] == (round_.width, round_.draft.size + 1)
            after_siblings += round_.width - round_.draft.size == 2
    assert after_siblings


@pytest.mark.parametrize("back", [1, 2, 5, 8])
def test_the_cache_is_as_before_and_the_next_answer_what_it_would_have_been(back: int) -> None:
    told, other = modelled(), modelled()
    assert told.ask(PROMPT) == other.ask(PROMPT)
    cache = list(told.target._cache)
    told.walked(back)
    assert told.target._cache == cache
    prompt = [*told.session.tokens, *FOLLOW_UP]
    assert told.ask(prompt) == other.ask(prompt)
    assert told.session.stats.reused_tokens == other.session.stats.reused_tokens == len(cache)


def test_what_is_read_again_is_read_no_wider_than_is_exact() -> None:
    target = StoppingModel()
    told = modelled(target=target)
    told.ask(PROMPT)
    round_ = told.drafted()[0][1]
    told.walked(len(told.drafted()))
    first = next(i for i, one in enumerate(target.passes[::-1]) if one[1]) + 1
    assert target.passes[-first] == (round_.width, round_.draft.size + 1), "the pass, as it was"
    assert first > 2
    assert all(tokens <= 4 and rows == 0 for tokens, rows in target.passes[-first + 1 :])


def test_a_round_is_told_though_the_cache_was_emptied() -> None:
    told = modelled()
    told.ask(PROMPT)
    told.target.rewind(0)
    assert told.walked(2).verdict == told.drafted()[-2][1].verdict
    assert told.target._cache == told.session.tokens[: told.target.length]
    assert told.walked(1).verdict == told.drafted()[-1][1].verdict


def test_an_emptied_cache_reads_the_prompt_in_wide_passes() -> None:
    target = StoppingModel()
    told = modelled(target=target)
    told.ask(PROMPT)
    target.rewind(0)
    done = len(target.passes)
    told.walked(len(told.drafted()))
    assert target.passes[done] == (len(PROMPT) - 1, 0)
    assert all(tokens <= 4 for tokens, _ in target.passes[done + 1 :])


def test_rounds_that_did_not_draft_are_numbered_and_passed_over() -> None:
    told = scripted((), (1, 2), (), (), (3,))
    told.ask(PROMPT, budget=12)
    assert told.walked(1).number == 5
    assert told.walked(2).number == 2
    assert told.walk(3) == f"There are 2 rounds to explain: the last ones with a draft, at most {KEPT}."


def test_the_last_rounds_are_kept_and_no_more() -> None:
    told = modelled()
    told.ask(PROMPT, budget=60)
    assert len([one for one in told.rounds if one.draft.tokens]) > KEPT
    assert isinstance(told.walk(KEPT), Walk)
    assert told.walk(KEPT + 1) == f"There are {KEPT} rounds to explain: the last ones with a draft, at most {KEPT}."


def test_where_nothing_was_drafted_there_is_nothing_to_tell() -> None:
    told = Told(ToyModel(), NullDrafter())
    assert told.walk() == "No round of the last answer drafted, so there is none to explain."
    told.ask(PROMPT)
    assert told.walk(1) == "No round of the last answer drafted, so there is none to explain."


def test_a_new_answer_makes_the_last_one_forgotten() -> None:
    told = scripted((1,), (2,))
    told.ask(PROMPT, budget=2)
    assert told.walked().number == 1
    told.ask([*PROMPT, *FOLLOW_UP], controller=FixedLength(0))
    assert isinstance(told.walk(), str)


def test_the_rounds_of_each_answer_are_numbered_from_1() -> None:
    told = modelled()
    for prompt in (PROMPT, [*PROMPT, *FOLLOW_UP]):
        told.ask(prompt)
        assert told.walked(1).number == told.drafted()[-1][0]


def plain_answer() -> list[int]:
    return Told(ToyModel(), NullDrafter()).ask(PROMPT)


def test_the_round_that_shows_most_is_the_last_with_a_rejected_guess() -> None:
    said = plain_answer()
    wrong = (said[3] + 1) % 28
    told = scripted((said[0], said[1]), (wrong,), (said[4], said[5]), (said[7],))
    told.ask(PROMPT, budget=20)
    assert [one.verdict.accepted for one in told.rounds[:4]] == [2, 0, 2, 1]
    assert told.walked().number == 2
    assert told.walked().kind is LastTokenKind.REPLACEMENT


def test_where_all_was_kept_the_last_round_shows_most() -> None:
    said = plain_answer()
    told = scripted((said[0], said[1]), (said[3], said[4]))
    told.ask(PROMPT, budget=20)
    walk = told.walked()
    assert (walk.number, walk.kind) == (2, LastTokenKind.BONUS)
    assert [step.fate for step in walk.steps] == [Fate.KEPT] * 2


def test_a_round_that_the_end_of_the_answer_cut_says_so() -> None:
    said = plain_answer()
    told = scripted(said[:3])
    told.ask(PROMPT, budget=20, stops=[VOCAB.piece(said[0]).decode() + VOCAB.piece(said[1]).decode()])
    walk = told.walked()
    assert tuple(word.token for word in walk.emitted) == tuple(said[:2])
    assert walk.judged == 4


@pytest.mark.parametrize("limit", [1, 3])
def test_a_memory_that_can_not_go_back_says_so_and_is_left_alone(limit: int) -> None:
    told = modelled(target=ToyModel(rewind_limit=limit))
    told.ask(PROMPT)
    cache = list(told.target._cache)
    assert told.walk(5) == "toy-0 can't go back to that round: a list of tokens."
    assert told.target._cache == cache


@pytest.mark.parametrize("stop_at", [1, 2, 3])
def test_stopped_anywhere_it_leaves_a_cache_that_the_conversation_goes_on_from(stop_at: int) -> None:
    target = StoppingModel()
    told, other = modelled(target=target), modelled()
    assert told.ask(PROMPT) == other.ask(PROMPT)
    target.stop_at = len(target.passes) + stop_at
    with pytest.raises(Cancelled):
        told.walk(KEPT)
    assert target._cache == told.session.tokens[: target.length]
    target.stop_at = 0
    prompt = [*told.session.tokens, *FOLLOW_UP]
    assert told.ask(prompt) == other.ask(prompt)


class Feverish(ToyModel):
    """A toy that returns no numbers when it is told to."""

    ill = False

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        logits = super().decode(tokens, rows, parents)
        return np.full_like(logits, np.nan) if self.ill else logits


@pytest.mark.parametrize("limit", [None, 3])
def test_a_pass_that_fails_leaves_no_guess_in_the_cache(limit: int | None) -> None:
    target = Feverish(rewind_limit=limit)
    told = scripted(*[(1, 2, 3)] * 9, target=target)
    told.ask(PROMPT, budget=9)
    target.ill = True
    with pytest.raises(LocalspecError, match="NaN"):
        told.walk(1)
    assert target._cache == told.session.tokens[: target.length]


class Drifting(ToyModel):
    """A toy that begins to say something else."""

    drifted = False

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        logits = super().decode(tokens, rows, parents)
        return np.roll(logits, 1, axis=1) if self.drifted else logits


def test_a_pass_that_comes_out_otherwise_is_not_told_as_the_one_that_was() -> None:
    target = Drifting()
    told = modelled(target=target)
    told.ask(PROMPT)
    cache = list(target._cache)
    target.drifted = True
    reason = told.walk(1)
    assert isinstance(reason, str)
    assert "gave a different result" in reason
    assert target._cache == cache


# --- through the worker -----------------------------------------------------------------------------------------------


@pytest.fixture
def unlike_toys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Make every second toy that is loaded, the draft model, one that often guesses wrong."""
    made: list[ToyModel] = []

    def make(**options: object) -> ToyModel:
        made.append(ToyModel(unlikeness=0.8 * (len(made) % 2), **options))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(load, "ToyModel", make)
    return tmp_path


def loaded(home: Path, drafter: str) -> Worker:
    worker = Worker(LoadPlan("toy", parse_drafter(drafter), LlamaOptions(), home / "memory"), AbortFlag(), FakeClock())
    list(worker.load(lambda *_: None))
    return worker


def asked(rule: Accept, text: str = "the cat sat on the mat. the cat") -> Question:
    return Question((Turn("user", text),), SAMPLING, max_tokens=30, adapt=False, accept=rule)


def walked(worker: Worker, back: int | None = None) -> Walked:
    (message,) = worker.walk(back)
    assert isinstance(message, Walked)
    return message


@pytest.mark.parametrize("rule", RULES)
def test_the_worker_tells_of_its_last_answer(unlike_toys: Path, rule: Accept) -> None:
    worker = loaded(unlike_toys, "model:toy")
    messages = list(worker.answer(asked(rule)))
    rounds = [message.round for message in messages if isinstance(message, Said) and message.round.draft.tokens]
    for back in range(1, KEPT + 1):
        walk = walked(worker, back).walk
        assert walk is not None
        assert walk.rule is rule
        assert walk.verdict == rounds[-back].verdict
    assert any(one.verdict.accepted < len(one.draft.tokens) for one in rounds), "some guesses were wrong"
    shown = walked(worker).walk
    assert shown is not None
    assert Fate.REJECTED in {step.fate for step in shown.steps}


def test_an_answer_after_a_walk_is_that_of_a_worker_that_took_none(unlike_toys: Path) -> None:
    answers = []
    for backs in ((), (1, 8, 3)):
        worker = loaded(unlike_toys, "model:toy")
        first = list(worker.answer(asked(Accept.COUPLED)))[-1]
        for back in backs:
            assert walked(worker, back).walk is not None
        second = list(worker.answer(asked(Accept.COUPLED, "the cat sat on the mat. the dog")))[-1]
        assert isinstance(first, Ended)
        assert isinstance(second, Ended)
        answers.append((first.answer, second.answer, second.stats.reused_tokens))
    assert answers[0] == answers[1]


def test_the_worker_reads_again_as_wide_as_this_machine_is_exact(
    unlike_toys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "ToyModel", lambda context_size, **_: StoppingModel(context_size=context_size))
    worker = loaded(unlike_toys, "lookup")
    list(worker.answer(asked(Accept.COUPLED)))
    target = worker._slot.target
    assert isinstance(target, StoppingModel)
    for exact in (3, 5):
        worker._slot._drafting = replace(worker._slot.drafting, exact_draft=exact)
        done = len(target.passes)
        assert walked(worker, 4).walk is not None
        assert target.passes[done + 1] == (exact + 1, 0)


def test_a_change_of_the_drafter_leaves_the_last_answer_to_be_told(unlike_toys: Path) -> None:
    worker = loaded(unlike_toys, "model:toy")
    list(worker.answer(asked(Accept.RESIDUAL)))
    before = walked(worker, 3).walk
    for drafter in ("lookup", "off"):
        list(worker.use_drafter(parse_drafter(drafter), lambda *_: None))
        assert walked(worker, 3).walk == before


def test_a_worker_that_has_not_answered_has_nothing_to_tell(unlike_toys: Path) -> None:
    assert walked(loaded(unlike_toys, "off")) == Walked(
        None, "No round of the last answer drafted, so there is none to explain."
    )


def test_a_round_that_failed_half_way_is_not_told(unlike_toys: Path) -> None:
    worker = loaded(unlike_toys, "model:toy")
    session = worker._slot.session
    session.drafter = RaisingDrafter(session.drafter, "accept", Cancelled("Stopped."), at=3)
    messages = list(worker.answer(asked(Accept.COUPLED)))
    told = [message.round for message in messages if isinstance(message, Said)]
    assert len(told) == 2
    walk = walked(worker, 1).walk
    assert walk is not None
    assert walk.number == 2
    assert isinstance(walked(worker, 3).walk, type(None))
