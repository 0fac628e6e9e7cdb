"""Several conversations in one worker, and answers that are bounded by lines or time."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import FakeClock

from app.engine.conversation.early_stop import EarlyStop
from app.engine.conversation.messages import Ended, Message, Ready, Said
from app.engine.conversation.session import Reading
from app.engine.conversation.transcript import Transcript
from app.engine.decoding.ending import Finish
from app.engine.decoding.request import Question
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.worker import Worker
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.errors import LocalspecError, MemoryLimitError
from models.llama.load import LlamaOptions
from models.sampling.sampler import SamplingParams
from models.text.fim import Chunk, Infill
from models.text.prompts import Message as Turn
from models.toy import ToyModel

SAMPLING = SamplingParams(seed=5)
WILD = SamplingParams(seed=5, temperature=2.0, top_k=0, top_p=1.0, min_p=0.0)
"""With it the toy begins new lines."""
INFILL = Infill("def add(a, b):\n    return ", "\n\nadd(one, two)\n")


@pytest.fixture(autouse=True)
def folder_for_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def worker(drafter: str = "auto", slots: int = 1, clock: Callable[[], float] | None = None) -> Worker:
    plan = LoadPlan("toy-fim", parse_drafter(drafter), LlamaOptions(), Path("memory.json"), slots=slots)
    made = Worker(plan, AbortFlag(), clock or FakeClock())
    list(made.load(lambda _, __: None))
    return made


def chat(text: str, **settings: object) -> Question:
    return Question((Turn("user", text),), SAMPLING, **{"max_tokens": 40, **settings})  # type: ignore[arg-type]


def fill(infill: Infill = INFILL, **settings: object) -> Question:
    return Question((), **{"sampling": SAMPLING, "infill": infill, "max_tokens": 40, **settings})  # type: ignore[arg-type]


def ask(worker: Worker, question: Question) -> Ended:
    *_, end = worker.answer(question)
    assert isinstance(end, Ended)
    return end


def test_the_controller_knows_what_fills_a_infill_and_what_is_an_answer() -> None:
    made = worker()
    for question in (chat("hi"), fill(), fill(), chat("hi")):
        ask(made, question)
        adaptive = made._slots[0].drafting.adaptive
        assert adaptive is not None
        assert adaptive.settings.infill == adaptive.state.losses._infill == (question.infill is not None)


QUESTIONS = [chat("the cat sat on the mat. " * 3), fill(), chat("and then? "), fill(Infill("x = ", ""))]


@pytest.mark.parametrize("drafter", ["off", "lookup", "auto", "toy", "model:toy"])
def test_answers_that_are_given_in_turns_are_those_given_alone(drafter: str) -> None:
    alone = [ask(worker(drafter), question).answer for question in QUESTIONS]
    shared = worker(drafter, slots=4)
    streams = [shared.answer(question) for question in QUESTIONS]
    # The slot is taken at once, and each stream is begun before the next question comes.
    said: list[list[Message]] = [[] for _ in streams]
    running = [*zip(said, streams, strict=True)]
    while running:
        for entry in [*running]:
            message = next(entry[1], None)
            entry[0].append(message) if message else running.remove(entry)
    ends = [messages[-1] for messages in said]
    assert [end.answer for end in ends if isinstance(end, Ended)] == alone
    shared.close()


def test_a_question_that_is_being_answered_is_answered_to_another_on_a_lane_that_is_free() -> None:
    engine = worker(slots=2)
    first = engine.answer(QUESTIONS[0])
    # Its lane has read all of the question, and more of it than any other.
    while not isinstance(next(first), Said):
        pass
    second = ask(engine, QUESTIONS[0])
    *_, end = first
    assert isinstance(end, Ended)
    assert end.answer == second.answer == ask(worker(), QUESTIONS[0]).answer


def test_a_question_goes_to_the_lane_that_has_read_most_of_it_else_to_the_one_left_alone_longest() -> None:
    shared = worker(slots=3)
    for question in (QUESTIONS[0], QUESTIONS[1], QUESTIONS[2]):
        assert ask(shared, question).stats.reused_tokens == 0
    for question in (QUESTIONS[1], QUESTIONS[0], QUESTIONS[2]):
        stats = ask(shared, question).stats
        assert stats.reused_tokens == stats.prompt_tokens - 1


def test_a_new_conversation_takes_a_free_lane_then_one_of_its_kind_then_the_oldest() -> None:
    shared = worker(slots=2)
    ask(shared, QUESTIONS[0])
    ask(shared, QUESTIONS[1])
    ask(shared, fill(Infill("q", "z")))
    assert ask(shared, QUESTIONS[0]).stats.reused_tokens > 10, "a completion has taken the place of a completion"
    alike = chat("the cat sat on a wall, and what it saw there nobody will ever be told by anyone at all")
    ask(shared, alike)
    assert ask(shared, QUESTIONS[0]).stats.reused_tokens < 20, "one that only begins alike has taken its place"
    assert ask(shared, fill(Infill("q", "z"))).stats.reused_tokens == 4
    ask(shared, QUESTIONS[2])


def test_a_conversation_that_only_begins_like_another_does_not_take_its_place() -> None:
    shared = worker(slots=2)
    older, newer = chat("once upon a time there was a cat"), chat("the sea is deep and the sea is wide and so on")
    for question in (older, newer, chat("the sea, as everybody knows who has ever been there, is a place for ships")):
        ask(shared, question)
    stats = ask(shared, newer).stats
    assert stats.reused_tokens == stats.prompt_tokens - 1
    assert ask(shared, older).stats.reused_tokens < 3, "the one left alone longest made room"


def test_what_a_lane_learns_of_its_passes_stays_with_it() -> None:
    shared = worker("toy", slots=2)
    one, other = (slot.drafting.adaptive for slot in shared._slots)
    assert one is not None
    assert other is not None
    assert one.state.model is not None
    assert other.state.model is not None
    for curve, twin in ((one.state.curve, other.state.curve), (one.state.model.curve, other.state.model.curve)):
        assert curve.measured == twin.measured
        before = twin.seconds(2)
        curve.observe(2, 10 * curve.seconds(2))
        assert twin.seconds(2) == before


def test_another_drafter_is_another_drafter_on_every_lane() -> None:
    shared = worker("off", slots=2)
    *_, ready = shared.use_drafter(parse_drafter("lookup"), lambda _, __: None)
    assert isinstance(ready, Ready)
    assert (ready.drafter, ready.slots) == ("lookup", 2)
    assert [ask(shared, question).drafter for question in QUESTIONS[:2]] == ["lookup", "lookup"]


def test_a_drafter_for_which_a_lane_has_no_memory_is_used_on_none(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = worker("lookup", slots=3)
    made: list[ToyModel] = []
    closed: list[ToyModel] = []
    real = ToyModel.twin

    def twin(model: ToyModel) -> ToyModel:
        if made:
            raise MemoryLimitError("toy-0 does not fit in memory.")
        made.append(real(model))
        return made[-1]

    monkeypatch.setattr(ToyModel, "twin", twin)
    monkeypatch.setattr(ToyModel, "close", lambda model: closed.append(model))
    with pytest.raises(MemoryLimitError):
        list(shared.use_drafter(parse_drafter("model:toy"), lambda _, __: None))
    assert len(closed) == 2, "the draft model and its twin"
    assert made[0] in closed
    assert {ask(shared, question).drafter for question in QUESTIONS[:3]} == {"lookup"}


def test_where_memory_is_short_there_are_fewer_lanes_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ToyModel] = []
    real = ToyModel.twin

    def twin(model: ToyModel) -> ToyModel:
        if made:
            raise MemoryLimitError("toy-0 does not fit in memory.", cause="The cache needs too much.")
        made.append(real(model))
        return made[-1]

    monkeypatch.setattr(ToyModel, "twin", twin)
    plan = LoadPlan("toy-fim", parse_drafter("auto"), LlamaOptions(), Path("memory.json"), slots=4)
    shared = Worker(plan, AbortFlag(), FakeClock())
    (ready,) = shared.load(lambda _, __: None)
    assert isinstance(ready, Ready)
    assert (ready.slots, shared.slots) == (2, 2)
    assert "Answers at once: 2 of 4. The cache needs too much." in ready.notes


def test_a_lane_that_fails_to_be_made_frees_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[ToyModel] = []
    monkeypatch.setattr(ToyModel, "close", lambda model: closed.append(model))

    def twin(_: ToyModel) -> ToyModel:
        raise LocalspecError("No.")

    monkeypatch.setattr(ToyModel, "twin", twin)
    with pytest.raises(LocalspecError, match="No"):
        worker(slots=2)
    assert len(closed) == 1


def test_lines_end_an_answer_and_empty_ones_count_for_nothing() -> None:
    engine = worker()
    whole = ask(engine, fill(max_tokens=400, sampling=WILD)).answer
    assert whole.count("\n") > 4, "a toy that writes lines"
    for wanted in (1, 2, 3):
        end = ask(engine, fill(max_tokens=400, sampling=WILD, lines=wanted))
        assert whole.startswith(end.answer + "\n")
        assert len([line for line in end.answer.split("\n") if line.strip()]) == wanted
        assert end.finish is Finish.STOP


def test_time_ends_an_answer_after_its_first_line() -> None:
    whole = ask(worker(), fill(max_tokens=400, sampling=WILD)).answer
    first = whole[: whole.index("\n", 1)]
    end = ask(worker(clock=FakeClock()), fill(max_tokens=400, sampling=WILD, seconds=0.0))
    assert end.finish is Finish.TIME
    assert whole.startswith(end.answer)
    assert first in end.answer
    assert len(end.answer) < len(first) + 40
    assert ask(worker(), fill(max_tokens=400, sampling=WILD, seconds=1e9)).answer == whole


@pytest.mark.parametrize("said", ["", " ", "x", "\n", " \n", "\n  \n", "\n  \n  x = 1"])
def test_time_alone_ends_nothing_before_a_line_is_whole(said: str) -> None:
    limit = EarlyStop(Question((), SamplingParams(), seconds=0.0), FakeClock())
    assert [limit.reached([said]), limit.reached([said, "y = 2"])] == [None, None]
    assert limit.reached([said, "y = 2\n"]) is Finish.TIME


def test_a_infill_is_asked_with_its_chunks_and_keeps_room_for_what_fills_it() -> None:
    engine = worker()
    crowded = replace(INFILL, filename="a.py", chunks=tuple(Chunk(f"{place}.py", "text " * 20) for place in range(9)))
    end = ask(engine, fill(crowded, max_tokens=100))
    assert 100 < end.stats.prompt_tokens <= 512 // 2
    assert end.finish is not Finish.CONTEXT


def test_what_fills_a_infill_is_not_taken_for_a_turn_of_the_conversation() -> None:
    engine = worker("off")
    first = ask(engine, QUESTIONS[0])
    ask(engine, fill())
    turns = (*QUESTIONS[0].turns, Turn("assistant", first.answer), Turn("user", "and?"))
    assert (
        ask(engine, replace(QUESTIONS[0], turns=turns)).answer
        == ask(worker("off"), replace(QUESTIONS[0], turns=turns)).answer
    )


@pytest.mark.parametrize(
    "other", [fill(), Question((), SAMPLING, tokens=(1, 2, 3), max_tokens=40)], ids=["infill", "ids"]
)
def test_of_what_is_no_conversation_the_transcript_keeps_nothing(
    monkeypatch: pytest.MonkeyPatch, other: Question
) -> None:
    kept: list[str] = []
    monkeypatch.setattr(Transcript, "keep", lambda _, answer, __: kept.append(answer))
    engine = worker("off")
    first = ask(engine, QUESTIONS[0])
    ask(engine, other)
    assert kept == [first.answer]


def test_reading_alone_says_nothing_and_is_told() -> None:
    engine = worker()
    messages = list(engine.answer(fill(Infill("abcdefgh " * 30, "x"), max_tokens=0)))
    assert [type(message) for message in messages[:-1]] == [Reading] * (len(messages) - 1)
    assert len(messages) > 3
    assert not any(isinstance(message, Said) for message in messages)
