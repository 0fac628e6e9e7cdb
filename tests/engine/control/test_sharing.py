"""Passes that are shared: which go together, whose turn it is, and that every answer is the one given alone."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import ClassVar

import pytest

from app.engine.conversation.messages import Ended, Failed, Message, Said
from app.engine.decoding.controller import RoundPlan
from app.engine.decoding.ending import Ending, Finish
from app.engine.decoding.request import Question
from app.engine.decoding.round import Round
from app.engine.decoding.shared_pass import Bounds, Pass, gathered, together
from app.engine.decoding.speculate import rounds_and_passes
from app.engine.runtime.jobs import Claim, Ticket, Urgency
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.loader import Loader
from app.engine.runtime.slots import shared_batch
from app.engine.runtime.thread import Engine
from app.engine.runtime.worker import Worker
from drafters.base import Draft, NullDrafter
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.base import LanguageModel, Logits, Part
from models.errors import LocalspecError
from models.forms.grammar import Grammar
from models.llama.load import LlamaOptions
from models.sampling.sampler import Sampler, SamplingParams
from models.text.prompts import Message as Turn
from models.toy import ToyModel

SOON = 20.0


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
    assert [one.counts for one in passes] == [True, False]
    assert all((one.rows() == rows).all() for one, rows in zip(passes, alone, strict=True))
    assert [one.target.length for one in passes] == [3, 2]


class Steady:
    """A controller that drafts nothing and always waits to share its passes."""

    def __init__(self, text: ToyModel) -> None:
        self.bounds = Bounds(text, 9)

    def begin(self) -> None:
        pass

    def plan(self) -> RoundPlan:
        return RoundPlan()

    def select(self, draft: Draft, room: int) -> Draft:  # noqa: ARG002
        return draft

    def observe(self, round_: Round) -> None:
        pass


def test_a_round_takes_the_time_and_the_company_of_its_pass() -> None:
    target = ToyModel(seed=3)
    ending = Ending(target.vocab, budget=2)
    sampler, clock = Sampler(SamplingParams(seed=5)), partial(next, count())
    events = rounds_and_passes(target, NullDrafter(), sampler, [1], ending, Steady(target), clock)
    wanted = next(events)
    assert isinstance(wanted, Pass)
    wanted.done(target.decode(wanted.tokens, 1), 2, 7.5)
    shared = next(events)
    assert isinstance(next(events), Pass)
    alone = next(events)
    assert isinstance(shared, Round)
    assert isinstance(alone, Round)
    assert (shared.verify_seconds, shared.others) == (7.5, 2)
    assert (alone.verify_seconds, alone.others) == (1, 0)
    assert list(events) == []


# --- through the engine's thread --------------------------------------------------------------------------------------


def chat(text: str, **settings: object) -> Question:
    return Question((Turn("user", text),), SamplingParams(seed=5), **{"max_tokens": 40, **settings})  # type: ignore[arg-type]


QUESTIONS = [chat("the cat sat on the mat. " * 3), chat("and then? "), chat("who is there? "), chat("the mat. " * 5)]


@pytest.fixture(autouse=True)
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Counted.groups = []
    monkeypatch.setattr("app.engine.runtime.load.ToyModel", Counted)


def plan(drafter: str, slots: int) -> LoadPlan:
    return LoadPlan("toy", parse_drafter(drafter), LlamaOptions(), Path("memory.json"), slots=slots)


def loader(drafter: str, **settings: bool) -> Loader:
    return Loader(replace(plan(drafter, 2), **settings), AbortFlag(), partial(next, count()), lambda *_: None)  # type: ignore[arg-type]


def loaded(drafter: str, slots: int) -> Worker:
    made = Worker(plan(drafter, slots), AbortFlag(), partial(next, count()))
    list(made.load(lambda _, __: None))
    return made


def texts_alone(drafter: str, questions: Sequence[Question]) -> list[str]:
    found = []
    for question in questions:
        worker = loaded(drafter, slots=1)
        *_, end = worker.answer(question)
        assert isinstance(end, Ended)
        found.append(end.answer)
        worker.close()
    return found


class Party:
    """An engine whose questions are all asked before the first is answered."""

    def __init__(self, drafter: str, slots: int = 4) -> None:
        self.engine = Engine(lambda abort: Worker(plan(drafter, slots), abort, partial(next, count())))
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
            urgency = Urgency.ANSWER if question.infill is None else Urgency.COMPLETION
            job = partial(self._answer, question)
            tickets.append(self.engine.submit(job, partial(heard, number), claim=Claim.SLOT, urgency=urgency))
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


def test_what_is_asked_for_by_length_is_not_cut_for_company() -> None:
    worker = loaded("lookup", slots=2)
    question = chat("the cat sat on the mat. " * 3, adapt=False, draft_length=3)
    others = worker.answer(chat("and then? "))
    next(others)
    assert not any(isinstance(event, Pass) for event in worker.answer(question))
    worker.close()


@pytest.mark.parametrize("form", [None, Grammar.of_text('root ::= ("the " [a-z] [a-z] " of the sea. ")+')])
@pytest.mark.parametrize("drafter", ["off", "lookup", "auto", "toy", "model:toy"])
def test_answers_that_share_passes_are_those_given_alone(drafter: str, form: Grammar | None) -> None:
    questions = [replace(question, grammar=form) for question in QUESTIONS]
    told = Party(drafter).ask(questions)
    assert answers(told) == texts_alone(drafter, questions)
    assert max(Counted.groups) == 4
    shared = [message.round for messages in told for message in messages if isinstance(message, Said)]
    assert sum(round_.others > 0 for round_ in shared) == sum(Counted.groups)
    assert sum(round_.counts for round_ in shared if round_.others > 0) == len(Counted.groups), "each pass counts once"


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


def test_what_nobody_foresaw_in_a_shared_pass_is_told_to_each_and_the_engine_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def breaks(_: Counted, parts: Sequence[Part]) -> list[Logits]:
        raise ValueError(f"{len(parts)} parts")

    monkeypatch.setattr(Counted, "decode_together", breaks)
    # Each hears how it ended, or this waits in vain.
    told = Party("off").ask(QUESTIONS)
    failed = [messages[-1] for messages in told if isinstance(messages[-1], Failed)]
    assert len(failed) >= 2
    assert all("Internal error" in one.error.title for one in failed)
    assert len(failed) + len(answers(told)) == len(QUESTIONS)


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


def test_who_has_ended_is_waited_for_no_more() -> None:
    worker = loaded("off", slots=2)
    for question in QUESTIONS[:2]:
        assert not any(isinstance(event, Pass) for event in worker.answer(question))
    worker.close()


def test_a_pass_of_several_is_not_stopped_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    party, tickets, stopped = Party("off"), dict[int, Ticket](), list[bool]()
    real = Counted.decode_together

    def one_leaves(self: Counted, parts: Sequence[Part]) -> list[Logits]:
        if len(Counted.groups) == 5:
            for ticket in [*tickets.values()][1:]:
                party.engine.cancel(ticket)
            stopped.append(self._abort.is_set)
        return real(self, parts)

    monkeypatch.setattr(Counted, "decode_together", one_leaves)
    told = party.ask(QUESTIONS, lambda number, ticket, _: tickets.setdefault(number, ticket) and None)
    assert stopped == [False]
    ends = [messages[-1] for messages in told]
    assert [end.finish is Finish.CANCELLED for end in ends if isinstance(end, Ended)] == [False, True, True, True]
    assert answers(told)[0] == texts_alone("off", QUESTIONS)[0]


def test_answers_called_off_while_their_pass_is_put_together_end_and_the_engine_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    share = Engine._share

    def called_off_now(self: Engine, first: Ticket, worker: Worker) -> None:
        for ticket in self._active:
            self.cancel(ticket)
        share(self, first, worker)

    party = Party("off")
    with monkeypatch.context() as patched:
        patched.setattr(Engine, "_share", called_off_now)
        ends = [messages[-1] for messages in party.ask(QUESTIONS[:2])]
    assert [isinstance(end, Ended) and end.finish is Finish.CANCELLED for end in ends] == [True, True]


def test_one_called_off_while_the_others_pass_is_put_together_does_not_stop_it(monkeypatch: pytest.MonkeyPatch) -> None:
    share, called_off = Engine._share, list[Ticket]()

    def call_off_the_last(self: Engine, first: Ticket, worker: Worker) -> None:
        last = self._current
        if not called_off and last is not None and last is not first and last.wanted is not None:
            called_off.append(last)
            self.cancel(last)
        share(self, first, worker)

    monkeypatch.setattr(Engine, "_share", call_off_the_last)
    told = Party("off").ask(QUESTIONS)
    ends = [messages[-1] for messages in told]
    assert sum(isinstance(end, Ended) and end.finish is Finish.CANCELLED for end in ends) == len(called_off) == 1
    shared = [message.round for messages in told for message in messages if isinstance(message, Said)]
    assert sum(round_.others > 0 for round_ in shared) == sum(Counted.groups)


def test_the_more_urgent_share_among_themselves_first() -> None:
    order: list[str] = []
    engine = Engine(lambda abort: Worker(plan("off", 4), abort, partial(next, count())))
    over: SimpleQueue[None] = SimpleQueue()
    go = threading.Event()
    list(engine.stream(lambda worker: worker.load(lambda _, __: None)))
    first = ToyModel(seed=3)

    def job(name: str, text: ToyModel, then: Callable[[], None], worker: Worker) -> Iterator[Message | Pass]:  # noqa: ARG001
        assert go.wait(SOON)
        for _ in range(3):
            wanted = Pass(text, [1], 1, ())
            wanted.bounds = Bounds(text, 9)
            yield wanted
            wanted.rows()
            order.append(f"{name}{wanted.others}")
            if len(order) == 1:
                then()

    def submit(name: str, urgency: Urgency, then: Callable[[], None] = lambda: None) -> None:
        heard = lambda message: over.put(None) if message is None else None  # noqa: E731
        engine.submit(partial(job, name, first.twin(), then), heard, claim=Claim.SLOT, urgency=urgency)

    def others_come() -> None:
        submit("c", Urgency.COMPLETION)
        submit("d", Urgency.COMPLETION)

    submit("a", Urgency.ANSWER, others_come)
    submit("b", Urgency.ANSWER)
    go.set()
    for _ in range(4):
        over.get(timeout=SOON)
    engine.close()
    assert order == ["a1", "b1", *["c1", "d1"] * 3, *["a1", "b1"] * 2]


def test_lanes_with_caches_of_their_own_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counted, "can_join", lambda *_: False)
    told = Party("auto").ask(QUESTIONS)
    assert answers(told) == texts_alone("auto", QUESTIONS)
    assert Counted.groups == []
    worker = loaded("auto", slots=2)
    first = worker.answer(QUESTIONS[0])
    assert any(isinstance(event, Said) for event in first), "it speaks"
    assert not any(isinstance(event, Pass) for event in worker.answer(QUESTIONS[1])), "nobody to wait for"
    worker.close()


@pytest.mark.parametrize(
    ("curve", "slots", "shares"),
    [
        ({1: 1.0, 2: 1.7}, 2, True),
        ({1: 1.0, 2: 1.95}, 2, False),
        ({1: 1.0, 2: 1.95, 3: 2.9, 4: 3.0}, 4, True),
        ({1: 1.0, 2: 1.95, 3: 2.9, 4: 3.0}, 3, False),
        ({1: 1.0, 2: 1.95, 3: 2.9, 4: 3.9}, 4, False),
    ],
    ids=["two", "two dear", "four in a block", "no fourth", "none"],
)
def test_where_passes_cost_hardly_more_than_one_for_all_each_answer_has_its_own(
    monkeypatch: pytest.MonkeyPatch, curve: dict[int, float], slots: int, shares: bool
) -> None:
    monkeypatch.setattr(Loader, "curve", lambda *_: curve)
    assert (shared_batch(loader("off"), ToyModel(), slots) is not None) is shares


def test_one_lane_checked_settings_and_a_memory_that_can_t_go_back_share_nothing() -> None:
    assert shared_batch(loader("off"), ToyModel(), 1) is None
    assert shared_batch(loader("off", strict=True), ToyModel(), 2) is None
    assert shared_batch(loader("off"), ToyModel(rewind_limit=4), 2) is None
    assert shared_batch(loader("off"), ToyModel(), 2) is not None


@pytest.mark.parametrize("rounding", [False, True])
def test_a_device_that_is_never_exact_says_so_and_shares(monkeypatch: pytest.MonkeyPatch, rounding: bool) -> None:
    monkeypatch.setattr("app.engine.runtime.machine_measurements.exact_width", lambda _: 1)
    asked = loader("off", allow_rounding=rounding)
    assert shared_batch(asked, ToyModel(), 2) is not None
    assert [note for note in asked.notes if "-np 1" in note]


def test_a_device_that_is_exact_for_single_tokens_alone_shares_nothing_wider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.engine.runtime.machine_measurements.exact_width", lambda _: 2)
    told = Party("off").ask(QUESTIONS)
    assert answers(told) == texts_alone("off", QUESTIONS)
    assert set(Counted.groups) == {2}


def test_a_question_goes_beside_who_speaks_already(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.engine.runtime.load.ToyModel", Neighbours)
    worker = loaded("off", slots=4)
    slots = list(worker._slots)
    for number, slot in enumerate(slots):
        slot.target.place = number  # type: ignore[attr-defined]
    # The next in turn is not beside the first.
    worker._slots = [slots[place] for place in (0, 2, 3, 1)]
    spoken = worker.answer(QUESTIONS[0])
    next(spoken)
    first = next(slot for slot in slots if slot.busy)
    others = worker.answer(QUESTIONS[1])
    next(others)
    (second,) = [slot for slot in slots if slot.busy and slot is not first]
    assert abs(slots.index(first) - slots.index(second)) == 1
    worker.close()


def test_a_pass_wider_than_exact_is_never_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.engine.runtime.machine_measurements.exact_width", lambda _: 3)
    told = Party("auto").ask(QUESTIONS)
    assert answers(told) == texts_alone("auto", QUESTIONS)
    assert max(Counted.groups) == 3


def test_of_four_where_three_fit_the_fourth_is_in_the_next_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.engine.runtime.machine_measurements.exact_width", lambda _: 3)
    told = Party("off").ask(QUESTIONS)
    rounds = [message.round for messages in told for message in messages if isinstance(message, Said)]
    alone = sum(round_.others == 0 for round_ in rounds)
    assert len(rounds) == 4 * 40
    assert alone <= 8, "in the beginning, before all have come so far, and in the end"
