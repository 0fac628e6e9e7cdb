"""A conversation that outgrows the context: what is left out, when, and that it stays so for a while."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest
from checking import FIXED
from fakes import FakeClock
from hypothesis import given
from hypothesis import strategies as st

from app.engine.conversation.messages import Ended
from app.engine.conversation.truncate_history import kept
from app.engine.decoding.request import Question
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.worker import Worker
from app.wording.report import end_record, summary
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.errors import ContextFullError
from models.llama.load import LlamaOptions
from models.sampling.sampler import SamplingParams
from models.text.prompts import Message

SYSTEM = Message("system", "s" * 5)
SIZE = 160


def talk(*lengths: int) -> list[Message]:
    return [Message("assistant" if n % 2 else "user", f"{n}".ljust(length, ".")) for n, length in enumerate(lengths)]


def tokens(turns: Sequence[Message]) -> int:
    return sum(len(turn.text) for turn in turns)


def test_what_fits_stays_whole() -> None:
    turns = [SYSTEM, *talk(60, 60, 15)]
    assert tokens(turns) == SIZE - SIZE // 8
    assert kept(turns, tokens, SIZE, None) == turns


def test_the_oldest_turns_go_and_the_system_message_and_the_question_stay() -> None:
    turns = [SYSTEM, *talk(30, 30, 30, 30, 30)]
    assert kept(turns, tokens, SIZE, None) == [SYSTEM, *turns[3:]]
    assert kept(turns[1:], tokens, SIZE, 40) == turns[3:], "without a system message"
    assert kept(turns, tokens, 20, None) == [SYSTEM, turns[-1]], "though it does not fit"
    assert kept([SYSTEM, *talk(500)], tokens, SIZE, None) == [SYSTEM, *talk(500)]


def test_a_short_answer_needs_no_more_room_than_it_may_take() -> None:
    turns = talk(60, 60, 35)
    assert kept(turns, tokens, SIZE, 5) == turns
    assert kept(turns, tokens, SIZE, 6) == turns[2:]


@given(st.lists(st.integers(1, 12), min_size=150, max_size=150))
def test_a_conversation_that_goes_on_mostly_begins_where_it_began(lengths: list[int]) -> None:
    turns = talk(*lengths)
    begins = [
        turns.index(kept(turns[: n + 1], tokens, SIZE, None)[0])  # type: ignore[index]
        for n in range(0, len(turns), 2)
    ]
    assert begins == sorted(begins), "what was left out does not come back"
    changes = sum(one != other for one, other in pairwise(begins))
    assert changes <= 1 + tokens(turns) // (SIZE // 4)


@FIXED
@given(st.lists(st.integers(1, 60), min_size=1, max_size=40), st.integers(0, 100))
def test_what_is_kept_fits_wherever_the_question_alone_does(lengths: list[int], answer: int) -> None:
    turns = talk(*lengths)[: len(lengths) - (len(lengths) + 1) % 2]
    rest = kept(turns, tokens, SIZE, answer)
    assert rest[-1] == turns[-1]
    assert [*rest] == turns[len(turns) - len(rest) :]
    assert rest[0].role == "user"
    assert tokens(rest) <= SIZE - min(answer, SIZE // 4)


# --- in the engine ----------------------------------------------------------------------------------------------------

GREEDY = SamplingParams(temperature=0)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    options = LlamaOptions(context_size=SIZE)
    plan = LoadPlan("toy", parse_drafter("suffix"), options, tmp_path / "memory.json")
    with closing(Worker(plan, AbortFlag(), FakeClock(0.01))) as one:
        list(one.load(lambda *_: None))
        yield one


def answered(worker: Worker, turns: Sequence[Message], *, drops: bool = True) -> Ended:
    question = Question(tuple(turns), GREEDY, max_tokens=9, drops_oldest=drops)
    return cast(Ended, [*worker.answer(question)][-1])


def test_an_answer_is_the_one_to_what_was_kept_and_the_next_goes_on_from_there(worker: Worker) -> None:
    turns = talk(30, 30, 30, 30, 30, 30, 15)
    first = answered(worker, turns)
    assert first.left_out == 4
    assert first.answer == answered(worker, turns[4:], drops=False).answer
    assert "context full: oldest 4 messages left out" in summary(first)
    assert end_record(first)["left_out_messages"] == 4
    second = answered(worker, [*turns, Message("assistant", first.answer), Message("user", "so")])
    assert second.left_out == 4
    assert second.stats.reused_tokens == first.stats.prompt_tokens


def test_who_wants_that_gets_an_error_instead(worker: Worker) -> None:
    turns = talk(60, 60, 60)
    with pytest.raises(ContextFullError):
        answered(worker, turns, drops=False)
    with pytest.raises(ContextFullError):
        answered(worker, [*turns[:2], *talk(300)])
    assert answered(worker, turns).left_out == 2
    assert "left out" not in summary(answered(worker, talk(30)))
