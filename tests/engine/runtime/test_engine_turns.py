"""Several jobs at once: which share the engine, in which order, and which give way."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import cast

import pytest

from app.engine.conversation.messages import Failed, Message
from app.engine.conversation.session import Reading
from app.engine.runtime.jobs import Claim, Ticket, Urgency
from app.engine.runtime.thread import Engine
from app.engine.runtime.worker import Worker
from models.abort import AbortFlag
from models.errors import BusyError, Cancelled

SOON = 10.0
COMPLETION, ANSWER, IDLE = Urgency


@dataclass
class TwoLanes:
    """A worker that gives two answers at once."""

    abort: AbortFlag
    slots: int = 2

    def close(self) -> None:
        pass


@dataclass
class Run:
    """An engine that begins when everything was submitted, and what its jobs told, in order."""

    told: list[str] = field(default_factory=list)
    over: list[str] = field(default_factory=list)
    errors: dict[str, Exception] = field(default_factory=dict)
    go: threading.Event = field(default_factory=threading.Event)
    quiet: threading.Event = field(default_factory=threading.Event)
    open: int = 0

    def __post_init__(self) -> None:
        self.engine = Engine(lambda abort: cast(Worker, TwoLanes(abort)))
        self.engine.submit(self._gate, lambda _: None)

    def _gate(self, worker: Worker) -> Iterator[Message]:  # noqa: ARG002
        assert self.go.wait(SOON)
        yield Reading(1, 1)

    def job(
        self,
        name: str,
        claim: Claim = Claim.SLOT,
        urgency: Urgency = ANSWER,
        wait: float | None = None,
        on_step: Callable[[int], None] = lambda _: None,
        steps: int = 3,
    ) -> Ticket:
        def work(worker: Worker) -> Iterator[Message]:
            for step in range(steps):
                if cast(TwoLanes, worker).abort.is_set:
                    raise Cancelled("Stopped.")
                self.told.append(name)
                on_step(step)
                yield Reading(step, steps)

        def hear(message: Message | None) -> None:
            if isinstance(message, Failed):
                self.errors[name] = message.error
            if message is None:
                self.over.append(name)
                self.open -= 1
                if self.open == 0:
                    self.quiet.set()

        self.open += 1
        return self.engine.submit(work, hear, claim=claim, urgency=urgency, wait=wait)

    def to_the_end(self) -> str:
        """Let the engine go, wait until all is over, and return the names in the order of their messages."""
        self.go.set()
        assert self.quiet.wait(SOON)
        return "".join(self.told)


@pytest.fixture
def run() -> Iterator[Run]:
    run = Run()
    yield run
    run.go.set()
    run.engine.close()


def test_as_many_answers_as_there_are_lanes_take_turns_and_the_next_waits(run: Run) -> None:
    for name in "abc":
        run.job(name)
    assert run.to_the_end() == "abababccc"


def test_the_more_urgent_begins_first_and_goes_on_first(run: Run) -> None:
    run.job("a")
    run.job("c", urgency=COMPLETION)
    assert run.to_the_end() == "cccaaa"


def test_one_that_comes_later_and_is_more_urgent_is_served_between_two_messages(run: Run) -> None:
    run.job("a", on_step=lambda step: run.job("c", urgency=COMPLETION) if step == 0 else None)
    assert run.to_the_end() == "acccaa"


def test_a_job_that_wants_everything_waits_for_those_before_it_and_holds_up_those_after(run: Run) -> None:
    run.job("a")
    run.job("L", Claim.ALL)
    run.job("b")
    run.job("n", Claim.NOTHING, COMPLETION, steps=1)
    assert run.to_the_end() == "aaaLnLLbbb"


@pytest.mark.parametrize("claim", [Claim.SLOT, Claim.ALL])
def test_a_look_comes_between_two_messages_of_any_answer(run: Run, claim: Claim) -> None:
    run.job("a", claim, on_step=lambda step: run.job("n", Claim.NOTHING, COMPLETION, steps=1) if step == 1 else None)
    assert run.to_the_end() == "aana"


def test_idle_work_is_called_off_by_a_question_and_not_by_a_look(run: Run) -> None:
    run.job("i", urgency=IDLE)
    run.job("n", Claim.NOTHING, COMPLETION, steps=1)
    run.job("j", urgency=IDLE, on_step=lambda step: run.job("a") if step == 1 else None)
    assert run.to_the_end() == "nijijaaa"
    assert {name: type(error) for name, error in run.errors.items()} == {"i": Cancelled, "j": Cancelled}


def test_a_question_stops_idle_work_inside_its_pass_and_a_look_does_not(run: Run) -> None:
    stopped = list[bool]()

    def submit(_: int) -> None:
        run.job("n", Claim.NOTHING, COMPLETION, steps=1)
        stopped.append(run.engine._abort.is_set)
        run.job("a")
        stopped.append(run.engine._abort.is_set)

    run.job("i", urgency=IDLE, on_step=submit)
    assert run.to_the_end() == "inaaa"
    assert stopped == [False, True]


def test_idle_work_that_waits_is_called_off_before_it_has_touched_anything(run: Run) -> None:
    run.job("i", urgency=IDLE)
    run.job("a")
    assert run.to_the_end() == "aaa"
    assert isinstance(run.errors["i"], Cancelled)


def test_who_waited_too_long_is_told_so_and_others_are_not_held_up(run: Run) -> None:
    run.job("a", wait=0.0)
    run.job("b", wait=SOON * 10)
    assert run.to_the_end() == "bbb"
    assert isinstance(run.errors["a"], BusyError)
    assert set(run.over) == {"a", "b"}


def test_one_that_has_begun_is_never_too_late(run: Run) -> None:
    tickets = [run.job("a", wait=SOON, on_step=lambda _: setattr(tickets[0], "deadline", 0.0))]
    assert run.to_the_end() == "aaa"
    assert not run.errors


def test_time_is_over_for_one_that_waits_behind_an_answer(run: Run) -> None:
    told_late = threading.Event()
    run.job("a", Claim.ALL, on_step=lambda step: told_late.wait(0.1) if step else None, steps=100)

    def hear(message: Message | None) -> None:
        if isinstance(message, Failed):
            told_late.set()

    run.engine.submit(lambda _: iter(()), hear, claim=Claim.SLOT, wait=0.3)
    run.to_the_end()
    assert told_late.is_set()
    assert run.told == ["a"] * 100


def test_one_that_is_called_off_ends_at_its_next_turn_and_the_others_go_on(run: Run) -> None:
    tickets = [run.job("a", steps=5)]
    run.job("b", on_step=lambda step: run.engine.cancel(tickets[0]) if step == 0 else None)
    assert run.to_the_end() == "abbb"
    assert isinstance(run.errors["a"], Cancelled)


def test_what_wants_everything_and_is_called_off_begins_in_no_answer(run: Run) -> None:
    tickets = []
    run.job("a", on_step=lambda step: run.engine.cancel(tickets[0]) if step == 0 else None)
    tickets.append(run.job("L", Claim.ALL))
    assert run.to_the_end() == "aaa"
    # Until it sees that it is to stop, it may have rewound the cache that the answer goes on in.
    assert run.over == ["a", "L"]
    assert isinstance(run.errors["L"], Cancelled)


def test_closing_calls_off_what_waits_for_a_lane_before_it_has_touched_one(run: Run) -> None:
    def close(step: int) -> None:
        if step == 0:
            threading.Thread(target=run.engine.close).start()
            while not run.engine._closing:
                threading.Event().wait(0.001)

    for name in "abc":
        run.job(name, on_step=close if name == "a" else lambda _: None)
    run.to_the_end()
    assert run.told == ["a"]
    assert {name: type(error) for name, error in run.errors.items()} == dict.fromkeys("abc", Cancelled)
