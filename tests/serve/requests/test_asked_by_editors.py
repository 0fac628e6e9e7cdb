"""What editors send with each key: limits of time, warm-ups one after the other, and more text than fits anywhere."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from serving import Served, served

from app.engine.conversation.messages import Ended
from app.engine.decoding.request import Question
from app.engine.runtime.async_engine import AnswerMessage, AsyncEngine
from app.engine.runtime.jobs import Urgency
from app.serve.replies.errors import Refused
from app.serve.requests.engine_request import EngineRequest, Outcome, RequestKind
from models.text.prompts import Message as Turn

INFILL: dict[str, Any] = {"input_prefix": "the cat ", "input_suffix": " mat."}
CHAT = "/v1/chat/completions"
_LONGEST = 512 * 64
"""Characters that can matter to a context of 512 tokens."""


@pytest.mark.parametrize("path", ["/infill", "/completion"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_is_read_to_its_end_whatever_time_it_is_given(tmp_path: Path, path: str, *, stream: bool) -> None:
    with served(tmp_path, "toy-fim", "-c", "4096") as one:
        text = "the cat " * 400
        asked: dict[str, Any] = {"n_predict": 3, "t_max_prompt_ms": 0.001, "temperature": 0}
        asked |= {"input_prefix": text, "input_suffix": " mat."} if path == "/infill" else {"prompt": text}
        replies = one.events(path, **asked) if stream else [one.post(path, **asked)]
        assert len("".join(reply["content"] for reply in replies)) == 3
        assert replies[-1]["tokens_evaluated"] > 1000


def test_the_time_to_read_a_prompt_is_still_checked(tmp_path: Path) -> None:
    with served(tmp_path, "toy-fim") as one:
        for wrong in ("long", 1e12, [5]):
            status, error = one.refused("/infill", **INFILL, t_max_prompt_ms=wrong)
            assert (status, error["param"]) == (400, "t_max_prompt_ms")


@pytest.mark.parametrize("stream", [False, True])
def test_an_empty_list_of_fields_wants_them_all(tmp_path: Path, *, stream: bool) -> None:
    with served(tmp_path, "toy-fim") as one:
        ask = one.events if stream else one.post
        whole, told = (ask("/infill", **INFILL, n_predict=3, **more) for more in ({}, {"response_fields": []}))
        last, end = (reply[-1] if stream else reply for reply in (whole, told))
        assert sorted(end) == sorted(last)
        assert "timings" in end


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> list[Question]:
    """Everything that the engine is asked."""
    heard: list[Question] = []
    answer = AsyncEngine.answer

    def listen(
        self: AsyncEngine, question: Question, urgency: Urgency, wait: float | None, on_end: Callable[[], None]
    ) -> AsyncGenerator[AnswerMessage]:
        heard.append(question)
        return answer(self, question, urgency, wait, on_end)

    monkeypatch.setattr(AsyncEngine, "answer", listen)
    return heard


@pytest.mark.parametrize(
    ("lengths", "kept"),
    [([9, 8, 7], [9, 8, 7]), ([9, _LONGEST // 2, _LONGEST // 2 - 2], [_LONGEST // 2, _LONGEST // 2 - 2]),
     ([_LONGEST // 2, _LONGEST // 2 + 1, 7], [_LONGEST // 2 + 1, 7]), ([9, _LONGEST + 1], []), ([], [])],
)  # fmt: skip
def test_of_other_files_the_last_that_can_matter_are_taken(
    tmp_path: Path, questions: list[Question], lengths: list[int], kept: list[int]
) -> None:
    extra = [{"filename": "f", "text": "x" * length} for length in lengths]
    with served(tmp_path, "toy-fim") as one:
        assert one.post("/infill", **INFILL, n_predict=1, input_extra=extra)["content"]
    (question,) = questions
    assert question.infill is not None
    assert [len(chunk.text) for chunk in question.infill.chunks] == kept


def test_of_an_expected_answer_the_beginning_that_can_matter_is_taken(
    tmp_path: Path, questions: list[Question]
) -> None:
    expected = "the cat " * 9000
    with served(tmp_path, "toy") as one:
        turns = [{"role": "user", "content": "the cat"}]
        one.post(CHAT, messages=turns, max_tokens=1, prediction={"type": "content", "content": expected})
    assert [question.prediction for question in questions] == [expected[:_LONGEST]]


@pytest.fixture
def end(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """What no answer ends before, however quick the engine is."""
    end = asyncio.Event()
    answer = AsyncEngine.answer

    async def hold(
        self: AsyncEngine, question: Question, urgency: Urgency, wait: float | None, on_end: Callable[[], None]
    ) -> AsyncGenerator[AnswerMessage]:
        async with aclosing(answer(self, question, urgency, wait)) as messages:
            async for message in messages:
                if isinstance(message, Ended):
                    await end.wait()
                    on_end()
                yield message

    monkeypatch.setattr(AsyncEngine, "answer", hold)
    return end


def ask_at_once(one: Served, warming: int, answers: int, end: asyncio.Event) -> tuple[list[Outcome], list[object]]:
    """Ask to warm the cache so often while an answer is given, then real questions; return how each ended."""
    base = one.service.settings.chatting
    long = replace(base, turns=(Turn("user", "the cat"),), max_tokens=300)
    warm = replace(long, turns=(Turn("user", "the dog " * 20),), max_tokens=0)

    async def ask() -> tuple[list[Outcome], list[object]]:
        service = one.service
        real = [asyncio.ensure_future(service.whole(EngineRequest(long, RequestKind.CHAT)))]
        await asyncio.sleep(0.01)
        warmed = [asyncio.ensure_future(service.whole(EngineRequest(warm, RequestKind.INFILL))) for _ in range(warming)]
        await asyncio.sleep(0)
        real += [asyncio.ensure_future(service.whole(EngineRequest(long, RequestKind.CHAT))) for _ in range(answers)]
        await asyncio.wait(real, timeout=5, return_when=asyncio.FIRST_COMPLETED)
        end.set()
        return await asyncio.gather(*warmed), await asyncio.gather(*real, return_exceptions=True)

    assert one.client.portal is not None
    return one.client.portal.call(ask)


def test_warm_ups_take_no_place_of_who_waits_and_are_never_refused(tmp_path: Path, end: asyncio.Event) -> None:
    with served(tmp_path, "toy-fim", "-np", "1", "--queue", "2") as one:
        warmed, ended = ask_at_once(one, 30, 3, end)
        assert [outcome.text for outcome in warmed] == [""] * 30
        refused = [error for error in ended if isinstance(error, Refused)]
        assert [error.code for error in refused] == ["busy"], "one answers, two wait, and one is too many"
        assert (one.service._admitted, one.service._warming) == (0, 0)
        assert one.post("/infill", **INFILL, n_predict=0)["tokens_evaluated"] > 0, "when they are gone, others may come"


@pytest.mark.parametrize("stream", [False, True])
def test_a_warm_up_for_which_there_is_no_room_is_answered_as_any_other(
    tmp_path: Path, questions: list[Question], *, stream: bool
) -> None:
    with served(tmp_path, "toy-fim", "-np", "1") as one:
        one.service._warming = 1
        ask = one.events if stream else one.post
        left_out = ask("/infill", **INFILL, n_predict=0)
        assert not questions
        one.service._warming = 0
        read = ask("/infill", **INFILL, n_predict=0)
        last, other = (reply[-1] if stream else reply for reply in (left_out, read))
        assert (last["content"], last["stop"], sorted(last)) == ("", True, sorted(other))
