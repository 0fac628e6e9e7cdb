"""Answers that share their passes: who does, when guessing leaves it to them, and that nobody's text changes."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import ClassVar

import pytest

from app.engine.adaptive import Adaptive
from app.engine.calibrate import VerifyCurve
from app.engine.company import Company, Sociable
from app.engine.ending import Finish
from app.engine.load import Loader, LoadPlan
from app.engine.messages import Ended, Failed, Message, Said
from app.engine.passes import Bounds, Pass, gathered, together
from app.engine.question import Question
from app.engine.speculate import Round
from app.engine.thread import Claim, Engine, Ticket, Urgency
from app.engine.twins import company
from app.engine.verify import Verdict
from app.engine.worker import Worker
from drafters.base import NO_DRAFT, Draft
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.base import LanguageModel, Logits, Part
from models.errors import LocalspecError
from models.llama_load import LlamaOptions
from models.prompts import Message as Turn
from models.sampling import SamplingParams
from models.toy import ToyModel

SOON = 20.0
CHAT = "chat"
FLAT = {1: 1.0, 32: 1.0}
EVEN = {1: 1.0, 2: 1.6, 3: 2.2, 32: 2.2 + 29 * 0.6}
"""A processor's: another row costs .6 of the first."""
STEEP = {1: 1.0, 32: 32.0}


# --- how many do best in one pass -------------------------------------------------------------------------------------


def among(curve: dict[int, float], speaking: int, exact: int = 32) -> Company:
    company = Company(VerifyCurve(curve), exact)
    for number in range(speaking):
        company.enter(number, CHAT)
    return company


@pytest.mark.parametrize(
    ("curve", "speaking", "widest", "size"),
    [
        (FLAT, 0, 32, 1),
        (FLAT, 1, 32, 1),
        (FLAT, 5, 32, 5),
        (FLAT, 5, 3, 3),
        (EVEN, 4, 3, 3),
        (STEEP, 4, 32, 1),
        ({1: 1.0, 2: 1.5, 3: 2.9, 4: 2.9, 32: 29.0}, 3, 32, 2),
        ({1: 1.0, 2: 1.5, 3: 2.9, 4: 2.9, 32: 29.0}, 4, 32, 4),
    ],
)
def test_the_company_is_the_size_that_says_most_a_second(
    curve: dict[int, float], speaking: int, widest: int, size: int
) -> None:
    assert among(curve, speaking).size(CHAT, widest) == size


def test_who_speaks_for_another_purpose_or_no_more_is_not_counted() -> None:
    company = among(FLAT, 2)
    company.enter("editor", "completion")
    assert (company.size(CHAT, 32), company.size("completion", 32)) == (2, 1)
    company.leave(0)
    company.leave(0)
    assert company.size(CHAT, 32) == 1


# --- drafting in company ----------------------------------------------------------------------------------------------


def knowing(curve: dict[int, float], longest: int = 16) -> Adaptive:
    """Return a controller whose guesses were right again and again, after the first round of an answer."""
    adaptive = Adaptive(VerifyCurve(curve), longest)
    adaptive.begin()
    for _ in range(12):
        played(adaptive, adaptive.trim(copied(8), 16))
    adaptive.begin()
    played(adaptive, NO_DRAFT)
    return adaptive


def played(adaptive: Adaptive, checked: Draft) -> None:
    verdict = Verdict(len(checked.tokens), 99, is_bonus=True)
    width = len(checked.tokens) + 1
    seconds = adaptive.curve.seconds(width)
    adaptive.observe(Round(checked, verdict, verdict.emitted(checked), 10, 0.0, seconds, 0.0, None, width))


def sociable(curve: dict[int, float], others: int, widest: int = 32) -> Sociable:
    decides = Sociable(knowing(curve), among(curve, others), CHAT, ToyModel(), widest)
    decides.begin()
    adaptive = decides._inner
    assert isinstance(adaptive, Adaptive)
    played(adaptive, NO_DRAFT)
    return decides


def copied(length: int, sure: float = 0.95) -> Draft:
    return Draft(tuple(range(length)), confidence=(sure,) * length, source="suffix")


def decided(decides: Sociable, draft: Draft) -> tuple[int, Bounds | None]:
    limit = decides.limit()
    return len(decides.trim(draft.shortened(limit), limit).tokens), decides.bounds


def test_with_nobody_else_it_drafts_as_ever() -> None:
    for curve in (FLAT, EVEN, STEEP):
        alone = knowing(curve)
        played(alone, NO_DRAFT)
        limit = alone.limit()
        checked = alone.trim(copied(8).shortened(limit), limit)
        assert decided(sociable(curve, 0), copied(8)) == (len(checked.tokens), None)


def test_without_a_draft_passes_are_shared() -> None:
    decides = sociable(EVEN, 2, widest=3)
    length, bounds = decided(decides, NO_DRAFT)
    assert length == 0
    assert bounds is not None
    assert bounds.passes == 3


def test_a_sure_copy_leaves_where_little_is_shared_and_stays_where_much_is() -> None:
    # Two share a pass at 1.9 and not 2.0: little to lose by leaving, and four guesses more cost .1.
    length, bounds = decided(sociable({1: 1.0, 2: 1.9, 16: 2.0, 32: 2.0}, 1), copied(4, 0.99))
    assert (length > 0, bounds) == (True, None)
    # Here they share at 1.05, and leaving costs the others nearly a pass.
    length, bounds = decided(sociable({1: 1.0, 2: 1.05, 16: 1.9, 32: 2.0}, 1), copied(1, 0.99))
    assert (length, bounds is None) == (0, False)


def test_the_more_there_are_the_less_is_drafted() -> None:
    """A cheap pass of several: a copy is worth less and less beside all the others that it would keep waiting."""
    shared = [decided(sociable(FLAT, others), copied(8))[1] for others in (0, 1, 3, 7)]
    assert shared[0] is None
    assert shared[-1] is not None
    assert [bounds is not None for bounds in shared] == sorted(bounds is not None for bounds in shared)


def test_what_is_learnt_of_a_copy_does_not_depend_on_whether_it_was_checked() -> None:
    decides = sociable({1: 1.0, 2: 1.05, 16: 1.9, 32: 2.0}, 1)
    adaptive = decides._inner
    assert isinstance(adaptive, Adaptive)
    before = adaptive.acceptance.counts["suffix"].guessed_at[0]
    decided(decides, copied(1))
    decides.observe(Round(NO_DRAFT, Verdict(0, 0, is_bonus=True), (0,), 10, 0.0, 1.05, 0.0, None, 1, others=1))
    assert adaptive.acceptance.counts["suffix"].guessed_at[0] == before + 1


def test_what_was_drawn_is_checked_whole_and_alone() -> None:
    decides = sociable(FLAT, 3)
    limit = decides.limit()
    drawn = Draft((1, 2, 3), probs=(None,) * 3, source="model")  # type: ignore[arg-type]
    assert len(decides.trim(drawn, limit).tokens) == 3
    assert decides.bounds is None


def test_what_is_asked_for_by_length_is_not_cut_for_company() -> None:
    worker = loaded("lookup", lanes=2)
    question = chat("the cat sat on the mat. " * 3, adapt=False, draft_length=3)
    others = worker.answer(chat("and then? "))
    next(others)
    assert not any(isinstance(event, Pass) for event in worker.answer(question))
    worker.close()


# --- passes -----------------------------------------------------------------------------------------------------------


class Counted(ToyModel):
    """A toy that notes which passes were done as one."""

    groups: ClassVar[list[int]] = []

    def decode_together(self, parts: Sequence[Part]) -> list[Logits]:
        Counted.groups.append(len(parts))
        return super().decode_together(parts)


class Neighbours(ToyModel):
    """Texts that can be decoded together only with those beside them."""

    place = 0

    def can_join(self, other: LanguageModel) -> bool:
        return isinstance(other, Neighbours) and super().can_join(other) and abs(self.place - other.place) == 1


def waiting(places: Sequence[int], passes: int = 9, kind: type[ToyModel] = ToyModel) -> list[Pass]:
    first = kind(seed=3)
    texts = [first, *(first.twin() for _ in places[1:])]
    found = []
    for text, place in zip(texts, places, strict=True):
        text.place = place  # type: ignore[attr-defined]
        one = Pass(text, [1], 1, ())
        one.bounds = Bounds(text, passes)
        found.append(one)
    return found


@pytest.mark.parametrize(
    ("places", "passes", "chosen"),
    [
        ([0, 1, 2], 9, [0, 1, 2]),
        ([0, 1, 2], 2, [0, 1]),
        ([0, 2, 1], 9, [0, 2, 1]),
        ([0, 2, 1], 2, [0, 1]),
        ([0, 2, 3], 9, [0]),
        ([2, 0, 3], 9, [2, 3]),
        ([5, 3, 4, 6], 3, [5, 4, 3]),
    ],
)
def test_neighbours_that_wait_longest_go_together(places: list[int], passes: int, chosen: list[int]) -> None:
    found = gathered(waiting(places, passes, Neighbours))
    assert {one.target.place for one in found} == set(chosen)  # type: ignore[attr-defined]
    assert found[0].target.place == chosen[0]  # type: ignore[attr-defined]


def test_drafts_strangers_and_who_wants_no_company_stay_alone() -> None:
    one, other = waiting([0, 1])
    one.tokens = [1, 2]
    assert gathered([one, other]) == [one]
    assert gathered([other, one]) == [other]
    one, other = waiting([0, 1])
    other.bounds = None
    assert gathered([one, other]) == [one]
    assert gathered([other, one]) == [other]
    (one,), (stranger,) = waiting([0]), waiting([0])
    assert gathered([one, stranger]) == [one]


def test_a_shared_pass_tells_each_what_it_took_and_who_was_there() -> None:
    passes = waiting([0, 1])
    for one, text in zip(passes, ([1, 2], [3]), strict=True):
        one.target.decode(text, 0)
    alone = []
    for text in ([1, 2], [3]):
        model = ToyModel(seed=3)
        model.decode(text, 0)
        alone.append(model.decode([1], 1))
    together(passes, partial(next, count()))
    assert [(one.others, one.seconds) for one in passes] == [(1, 1), (1, 1)]
    assert all((one.rows() == rows).all() for one, rows in zip(passes, alone, strict=True))
    assert [one.target.length for one in passes] == [3, 2]


# --- through the engine's thread --------------------------------------------------------------------------------------


def chat(text: str, **settings: object) -> Question:
    return Question((Turn("user", text),), SamplingParams(seed=5), **{"max_tokens": 40, **settings})  # type: ignore[arg-type]


QUESTIONS = [chat("the cat sat on the mat. " * 3), chat("and then? "), chat("who is there? "), chat("the mat. " * 5)]


@pytest.fixture(autouse=True)
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Counted.groups = []
    monkeypatch.setattr("app.engine.load.ToyModel", Counted)


def plan(drafter: str, lanes: int) -> LoadPlan:
    return LoadPlan("toy", parse_drafter(drafter), LlamaOptions(), Path("memory.json"), lanes=lanes)


def loader(drafter: str, **settings: bool) -> Loader:
    return Loader(replace(plan(drafter, 2), **settings), AbortFlag(), partial(next, count()), lambda *_: None)  # type: ignore[arg-type]


def loaded(drafter: str, lanes: int) -> Worker:
    made = Worker(plan(drafter, lanes), AbortFlag(), partial(next, count()))
    list(made.load(lambda _, __: None))
    return made


def texts_alone(drafter: str, questions: Sequence[Question]) -> list[str]:
    found = []
    for question in questions:
        worker = loaded(drafter, lanes=1)
        *_, end = worker.answer(question)
        assert isinstance(end, Ended)
        found.append(end.answer)
        worker.close()
    return found


class Party:
    """An engine whose questions are all asked before the first is answered."""

    def __init__(self, drafter: str, lanes: int = 4) -> None:
        self.engine = Engine(lambda abort: Worker(plan(drafter, lanes), abort, partial(next, count())))
        self._go = threading.Event()
        list(self.engine.stream(lambda worker: worker.load(lambda _, __: None)))
        self.engine.submit(self._wait, lambda _: None)

    def _wait(self, worker: Worker) -> Iterator[Message]:  # noqa: ARG002
        assert self._go.wait(SOON)
        yield from ()

    def ask(
        self, questions: Sequence[Question], on_message: Callable[[int, Ticket, Message], None] = lambda *_: None
    ) -> list[list[Message]]:
        told: list[list[Message]] = [[] for _ in questions]
        over: SimpleQueue[int] = SimpleQueue()
        tickets: list[Ticket] = []

        def heard(number: int, message: Message | None) -> None:
            if message is None:
                over.put(number)
            else:
                told[number].append(message)
                on_message(number, tickets[number], message)

        for number, question in enumerate(questions):
            urgency = Urgency.ANSWER if question.hole is None else Urgency.COMPLETION
            job = partial(self._answer, question)
            tickets.append(self.engine.submit(job, partial(heard, number), claim=Claim.LANE, urgency=urgency))
        self._go.set()
        for _ in questions:
            over.get(timeout=SOON)
        self.engine.close()
        return told

    @staticmethod
    def _answer(question: Question, worker: Worker) -> Iterator[Message | Pass]:
        return worker.answer(question)


def answers(told: list[list[Message]]) -> list[str]:
    return [messages[-1].answer for messages in told if isinstance(messages[-1], Ended)]


@pytest.mark.parametrize("drafter", ["off", "lookup", "auto", "toy", "model:toy"])
def test_answers_that_share_passes_are_those_given_alone(drafter: str) -> None:
    told = Party(drafter).ask(QUESTIONS)
    assert answers(told) == texts_alone(drafter, QUESTIONS)
    assert max(Counted.groups) == 4
    shared = [message.round for messages in told for message in messages if isinstance(message, Said)]
    assert sum(round_.others > 0 for round_ in shared) == sum(Counted.groups)


def test_one_that_is_called_off_leaves_the_others_their_company() -> None:
    party = Party("off")
    seen: list[int] = []

    def stop_the_second(number: int, ticket: Ticket, message: Message) -> None:
        if number == 1 and isinstance(message, Said):
            seen.append(number)
            if len(seen) == 3:
                party.engine.cancel(ticket)

    told = party.ask(QUESTIONS, stop_the_second)
    wanted = texts_alone("off", QUESTIONS)
    ends = [messages[-1] for messages in told]
    assert all(isinstance(end, Ended) for end in ends)
    assert [end.finish is Finish.CANCELLED for end in ends if isinstance(end, Ended)] == [False, True, False, False]
    assert [answers(told)[place] for place in (0, 2, 3)] == [wanted[place] for place in (0, 2, 3)]
    assert wanted[1].startswith(answers(told)[1])
    assert Counted.groups[-1] == 3


def test_a_pass_that_can_t_be_shared_is_done_alone_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: Counted, parts: Sequence[Part]) -> list[Logits]:
        Counted.groups.append(len(parts))
        raise LocalspecError("no")

    monkeypatch.setattr(Counted, "decode_together", fails)
    told = Party("off").ask(QUESTIONS)
    assert Counted.groups
    assert answers(told) == texts_alone("off", QUESTIONS)


def test_one_that_fails_alone_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    party = Party("off")
    real, broken = Counted.decode, []

    def decode(self: Counted, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        if self.length > 60:
            broken.append(self.length)
            raise LocalspecError("broken")
        return real(self, tokens, rows, parents)

    wanted = texts_alone("off", QUESTIONS)
    monkeypatch.setattr(Counted, "decode", decode)
    told = party.ask(QUESTIONS)
    assert broken
    assert [isinstance(messages[-1], Failed) for messages in told] == [True, False, False, True]
    assert answers(told) == [wanted[1], wanted[2]]


def test_lanes_with_caches_of_their_own_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counted, "can_join", lambda *_: False)
    told = Party("auto").ask(QUESTIONS)
    assert answers(told) == texts_alone("auto", QUESTIONS)
    assert Counted.groups == []


@pytest.mark.parametrize(("curve", "shares"), [({1: 1.0, 2: 1.7}, True), ({1: 1.0, 2: 1.95}, False)])
def test_where_two_passes_cost_hardly_more_than_one_for_both_each_answer_has_its_own(
    monkeypatch: pytest.MonkeyPatch, curve: dict[int, float], shares: bool
) -> None:
    monkeypatch.setattr(Loader, "curve", lambda *_: curve)
    assert (company(loader("off"), ToyModel(), 2) is not None) is shares


def test_one_lane_checked_settings_and_a_memory_that_can_t_go_back_share_nothing() -> None:
    assert company(loader("off"), ToyModel(), 1) is None
    assert company(loader("off", strict=True), ToyModel(), 2) is None
    assert company(loader("off"), ToyModel(rewind_limit=4), 2) is None
    assert company(loader("off"), ToyModel(), 2) is not None


@pytest.mark.parametrize("rounding", [False, True])
def test_a_device_that_is_never_exact_says_so_and_shares(monkeypatch: pytest.MonkeyPatch, rounding: bool) -> None:
    monkeypatch.setattr("app.engine.load.exact_width", lambda _: 1)
    asked = loader("off", allow_rounding=rounding)
    assert company(asked, ToyModel(), 2) is not None
    assert [note for note in asked.notes if "-np 1" in note]


def test_a_device_that_is_exact_for_single_tokens_alone_shares_nothing_wider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.engine.load.exact_width", lambda _: 2)
    told = Party("off").ask(QUESTIONS)
    assert answers(told) == texts_alone("off", QUESTIONS)
    assert set(Counted.groups) == {2}


def test_a_question_goes_beside_who_speaks_already(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.engine.load.ToyModel", Neighbours)
    worker = loaded("off", lanes=4)
    lanes = list(worker._lanes)
    for number, lane in enumerate(lanes):
        lane.target.place = number  # type: ignore[attr-defined]
    spoken = worker.answer(QUESTIONS[0])
    next(spoken)
    first = next(lane for lane in lanes if lane.busy)
    others = worker.answer(QUESTIONS[1])
    next(others)
    (second,) = [lane for lane in lanes if lane.busy and lane is not first]
    assert abs(lanes.index(first) - lanes.index(second)) == 1
    worker.close()


def test_a_pass_wider_than_exact_is_never_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.engine.load.exact_width", lambda _: 3)
    told = Party("auto").ask(QUESTIONS)
    assert answers(told) == texts_alone("auto", QUESTIONS)
    assert max(Counted.groups) == 3
