"""Many questions to one engine: the urgent first, each on a slot of its own, and nothing changes what is said."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import pytest

import app.engine.runtime.async_engine as async_engine_module
from app.engine.conversation.messages import Ended, Said
from app.engine.decoding.ending import Finish
from app.engine.decoding.request import Question
from app.engine.runtime.async_engine import AnswerMessage, AsyncEngine
from app.engine.runtime.jobs import Urgency
from app.engine.runtime.load import LoadPlan
from drafters.registry import parse_drafter
from models.errors import BusyError, LocalspecError, ModelFileError
from models.llama.load import LlamaOptions
from models.sampling.sampler import SamplingParams
from models.text.fim import Infill
from models.text.prompts import Message as Turn
from models.toy import ToyModel

SAMPLING = SamplingParams(seed=5)
INFILL = Infill("def add(a, b):\n    return ", "\n\nadd(one, two)\n")


def chat(text: str = "the cat sat on the mat. " * 4, tokens: int = 60) -> Question:
    return Question((Turn("user", text),), SAMPLING, max_tokens=tokens)


def fill(infill: Infill = INFILL, tokens: int = 20) -> Question:
    return Question((), SAMPLING, infill=infill, max_tokens=tokens)


@asynccontextmanager
async def async_engine(slots: int = 2, model: str = "toy-fim") -> AsyncIterator[AsyncEngine]:
    plan = LoadPlan(model, parse_drafter("auto"), LlamaOptions(context_size=4096), Path("memory.json"), slots=slots)
    opened = AsyncEngine(plan)
    try:
        await opened.load()
        yield opened
    finally:
        await asyncio.to_thread(opened.close)


def on_an_engine(test: Callable[[AsyncEngine], Awaitable[None]], slots: int = 2, model: str = "toy-fim") -> None:
    async def run() -> None:
        async with async_engine(slots, model) as opened:
            await asyncio.wait_for(test(opened), 20)

    asyncio.run(run())


async def ended(
    async_engine: AsyncEngine, question: Question, urgency: Urgency = Urgency.ANSWER, wait: float | None = None
) -> Ended:
    messages = [message async for message in async_engine.answer(question, urgency, wait)]
    assert isinstance(messages[-1], Ended)
    return messages[-1]


async def decoded(async_engine: AsyncEngine) -> int:
    """Return how many tokens went through the one target."""
    return await async_engine.look(lambda worker: cast(ToyModel, worker._slots[0].target).decoded)


@pytest.fixture(autouse=True)
def folder_for_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_an_answer_is_the_same_alone_and_among_others() -> None:
    questions = [chat(), fill(), chat("and then? "), fill(Infill("x = ", "\n"))]

    async def test(async_engine: AsyncEngine) -> None:
        alone = [(await ended(async_engine, question)).answer for question in questions]
        together = await asyncio.gather(*(ended(async_engine, question) for question in questions * 3))
        assert [end.answer for end in together] == alone * 3
        assert len(set(alone)) == len(alone)

    on_an_engine(test)


class Held:
    """A toy that makes so many passes, and no more until it may; and all that its engine said, in its order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passes = 10**9
        self.goes_on = threading.Event()
        self.said: list[object] = []
        decode, post = ToyModel.decode, async_engine_module._post

        def held(model: ToyModel, *arguments: Any, **options: Any) -> Any:
            self.passes -= 1
            assert self.passes > 0 or self.goes_on.wait(20)
            return decode(model, *arguments, **options)

        def heard(loop: Any, take: Any, *what: object) -> None:
            self.said += what
            post(loop, take, *what)

        monkeypatch.setattr(ToyModel, "decode", held)
        monkeypatch.setattr(async_engine_module, "_post", heard)


def test_a_completion_goes_before_an_answer_which_goes_on_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)

    async def test(async_engine: AsyncEngine) -> None:
        alone = (await ended(async_engine, chat("once upon a time. " * 3, 200))).answer
        asked: asyncio.Task[Ended] | None = None
        held.passes = 5
        held.said.clear()
        answered: list[AnswerMessage] = []
        async with aclosing(async_engine.answer(chat("once upon a time. " * 3, 200))) as messages:
            async for message in messages:
                if isinstance(message, Said) and asked is None:
                    asked = asyncio.create_task(ended(async_engine, fill(), Urgency.COMPLETION))
                    await asyncio.sleep(0)
                    held.goes_on.set()
                answered.append(message)
        assert asked is not None
        await asked
        words = [message for message in held.said if isinstance(message, Said | Ended)]
        whose = [any(message is one for one in answered) for message in words]
        assert [mine for mine, _ in groupby(whose)] == [True, False, True], "all of the completion in one go"
        assert isinstance(answered[-1], Ended)
        assert answered[-1].answer == alone

    on_an_engine(test)


def test_each_keeps_its_own_cache() -> None:
    async def test(async_engine: AsyncEngine) -> None:
        first, other = await ended(async_engine, chat()), await ended(async_engine, fill())
        again, filled = await ended(async_engine, chat()), await ended(async_engine, fill())
        assert (first.stats.reused_tokens, other.stats.reused_tokens) == (0, 0)
        assert again.stats.reused_tokens == again.stats.prompt_tokens - 1
        assert filled.stats.reused_tokens == filled.stats.prompt_tokens - 1

    on_an_engine(test)


def test_with_one_lane_the_second_waits_and_reads_anew() -> None:
    async def test(async_engine: AsyncEngine) -> None:
        await ended(async_engine, chat())
        await ended(async_engine, fill())
        assert (await ended(async_engine, chat())).stats.reused_tokens == 0

    on_an_engine(test, slots=1)


def test_who_waits_too_long_is_told_so_and_touches_nothing() -> None:
    async def test(async_engine: AsyncEngine) -> None:
        async with aclosing(async_engine.answer(chat(tokens=300))) as messages:
            await anext(messages)
            with pytest.raises(BusyError, match="busy"):
                await ended(async_engine, fill(), wait=0.0)
            rest = [message async for message in messages]
        assert isinstance(rest[-1], Ended)
        assert rest[-1].finish is Finish.LENGTH
        # The slot is free now, and stays what it is.
        with pytest.raises(BusyError, match="busy"):
            await ended(async_engine, fill(), wait=0.0)
        again = await ended(async_engine, chat(tokens=1))
        assert again.stats.reused_tokens == again.stats.prompt_tokens - 1

    on_an_engine(test, slots=1)


def test_who_leaves_is_answered_no_further_and_the_cache_stays() -> None:
    async def test(async_engine: AsyncEngine) -> None:
        before = await decoded(async_engine)
        async with aclosing(async_engine.answer(chat(tokens=3000))) as messages:
            async for message in messages:
                if isinstance(message, Said):
                    break
        after = await ended(async_engine, chat(tokens=1))
        assert after.stats.reused_tokens == after.stats.prompt_tokens - 1
        assert await decoded(async_engine) < before + 1500, "it was answered to the end"

    on_an_engine(test, slots=1)


def test_idle_work_gives_way_to_any_question(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)

    async def test(async_engine: AsyncEngine) -> None:
        held.passes = 5
        async with aclosing(async_engine.answer(fill(tokens=400), Urgency.IDLE)) as idle:
            await anext(idle)
            asking = asyncio.create_task(ended(async_engine, chat(tokens=5)))
            await asyncio.sleep(0)
            held.goes_on.set()
            told = [message async for message in idle]
        assert isinstance(told[-1], Ended)
        assert told[-1].finish is Finish.CANCELLED
        assert (await asking).finish is Finish.LENGTH

    on_an_engine(test, slots=1)


def test_a_look_needs_no_lane_and_its_error_arrives() -> None:
    async def test(async_engine: AsyncEngine) -> None:
        async with aclosing(async_engine.answer(chat(tokens=300))) as messages:
            await anext(messages)
            assert await async_engine.look(lambda worker: worker.vocab.tokenize("ab")) == [2, 19]
            with pytest.raises(IndexError):
                await async_engine.look(lambda worker: worker.vocab.piece(10**6))

    on_an_engine(test, slots=1)


def test_a_prompt_can_be_read_and_nothing_said() -> None:
    async def test(async_engine: AsyncEngine) -> None:
        read = await ended(async_engine, fill(tokens=0))
        assert (read.answer, read.finish, read.stats.emitted) == ("", Finish.LENGTH, 0)
        assert (await ended(async_engine, fill())).stats.reused_tokens == read.stats.prompt_tokens - 1

    on_an_engine(test, slots=1)


def test_a_model_without_markers_refuses_infills_and_answers_on() -> None:
    async def test(async_engine: AsyncEngine) -> None:
        with pytest.raises(LocalspecError, match="toy-0 can't fill in code"):
            await ended(async_engine, fill())
        assert (await ended(async_engine, chat())).finish is Finish.LENGTH

    on_an_engine(test, model="toy")


def test_a_load_that_fails_is_raised_and_can_be_followed_by_another() -> None:
    async def run() -> None:
        opened = AsyncEngine(LoadPlan("none.gguf", parse_drafter("auto"), LlamaOptions(), Path("memory.json")))
        try:
            with pytest.raises(ModelFileError, match=r"none\.gguf"):
                await opened.load()
        finally:
            await asyncio.to_thread(opened.close)

    asyncio.run(run())
