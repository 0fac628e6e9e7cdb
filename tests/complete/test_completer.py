"""Completions during typing: only the latest position runs, no request is repeated, and none is left behind."""

import asyncio
import random
import threading
import time
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from app.complete.asking import infill_at
from app.complete.completer import Completer, Completion
from app.complete.place import CursorPosition, Windows
from app.complete.ring import RingSize
from app.complete.settings import CompletionSettings, Limits
from app.complete.tidy import shown
from app.engine.conversation.messages import Ended, Said
from app.engine.decoding.ending import Finish
from app.engine.decoding.request import Question
from app.engine.runtime.async_engine import AnswerMessage, AsyncEngine
from app.engine.runtime.jobs import Urgency
from app.engine.runtime.load import LoadPlan
from drafters.registry import parse_drafter
from models.errors import BusyError, LocalspecError
from models.llama.load import LlamaOptions
from models.sampling.sampler import SamplingParams
from models.text.prompts import Message as Turn

CODE = "def add(a, b):\n    return a\n\n\ndef twice(a):\n    b = |\n\n\nprint(twice(add(one, two)))\n"
SHORT = Limits(tokens=24, seconds=None)
LONG = Limits(tokens=3600, seconds=None)
"""Long enough to be called off before it is over."""
GREEDY = SamplingParams(temperature=0.0)
OPEN = CompletionSettings(SamplingParams(temperature=2.0, top_k=0, top_p=1.0, min_p=0.0, seed=3), tidies=False)
"""Says many lines."""
CHAT = Question((Turn("user", "once upon a time"),), SamplingParams(seed=5), max_tokens=2000)


def at(document: str, path: str = "a.py") -> CursorPosition:
    return CursorPosition.between(path, *document.split("|"))


class WatchedEngine(AsyncEngine):
    """A desk that notes what it is asked, and how that ends; its engine can be made to stand still."""

    def __init__(self, plan: LoadPlan) -> None:
        super().__init__(plan, self._clock)
        self.stands = False
        self._goes_on = threading.Event()
        self._goes_on.set()
        self.asked: list[tuple[Question, Urgency]] = []
        self.running = self.most_running = self.most_queued = self.called_off = 0

    async def answer(
        self, question: Question, urgency: Urgency = Urgency.ANSWER, wait: float | None = None
    ) -> AsyncGenerator[AnswerMessage]:
        self.asked.append((question, urgency))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        over = False
        try:
            async with aclosing(super().answer(question, urgency, wait)) as messages:
                async for message in messages:
                    self.most_queued = max(self.most_queued, self.queued)
                    yield message
            over = True
        finally:
            self.running -= 1
            self.called_off += not over

    async def begun(self, count: int) -> None:
        """Wait until so many questions were asked and the last is being answered; it goes on a moment after this.

        A toy may have said all it can before a loop with something to call off has its next turn.
        """
        self._goes_on.clear()
        while len(self.asked) < count or not self.stands:
            await asyncio.sleep(0.001)
        asyncio.get_running_loop().call_later(0.02, self._goes_on.set)

    def _clock(self) -> float:
        self.stands = not self._goes_on.is_set()
        assert self._goes_on.wait(20)
        self.stands = False
        return time.perf_counter()

    @property
    def queued(self) -> int:
        return len(self._engine._waiting) + len(self._engine._active)

    async def idle(self) -> None:
        """Wait until the engine is idle, and its caller has the result."""
        while self.queued or self.running:
            await asyncio.sleep(0.002)


Test = Callable[[WatchedEngine, Completer], Awaitable[None]]


def run(test: Test, settings: CompletionSettings | None = None, model: str = "toy-fim", drafter: str = "off") -> None:
    plan = LoadPlan(model, parse_drafter(drafter), LlamaOptions(context_size=4096), Path("memory.json"), slots=2)

    async def main() -> None:
        async_engine = WatchedEngine(plan)
        try:
            await async_engine.load()
            completer = Completer(async_engine, settings)
            await asyncio.wait_for(test(async_engine, completer), 30)
            await completer.close()
            await asyncio.wait_for(async_engine.idle(), 10)
            assert async_engine.running == 0
        finally:
            await asyncio.to_thread(async_engine.close)

    asyncio.run(main())


@pytest.fixture(autouse=True)
def folder_for_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_it_is_what_the_model_says_tidied() -> None:
    async def test(async_engine: WatchedEngine, completer: Completer) -> None:
        place = at(CODE)
        infill, around = infill_at(place, CompletionSettings())
        question = Question((), GREEDY, infill=infill, max_tokens=24)
        ends = [message async for message in async_engine.answer(question) if isinstance(message, Ended)]
        heard: list[str] = []
        completion = await completer.complete(place, SHORT, heard.append)
        assert ends[0].answer
        assert completion.text == heard[-1] == shown(ends[0].answer, around, broken_off=True)
        assert len(heard) > 5
        assert completion.place is place
        assert completion.ended is not None
        assert completion.ended.finish is Finish.LENGTH
        assert [urgency for _, urgency in async_engine.asked[1:]] == [Urgency.COMPLETION]

    run(test)


def test_the_prefix_ends_where_the_line_began_and_the_rest_is_the_beginning_of_the_answer() -> None:
    async def test(async_engine: WatchedEngine, completer: Completer) -> None:
        await completer.complete(at("a\nb = |  # c\nd"), SHORT)
        infill = async_engine.asked[0][0].infill
        assert infill is not None
        assert (infill.prefix, infill.begun, infill.suffix) == ("a\n", "b =", "  # c\nd")
        assert async_engine.asked[0][0].lines == 1, "text follows on the line"

    run(test)


def test_what_is_typed_along_is_known() -> None:
    async def test(async_engine: WatchedEngine, completer: Completer) -> None:
        first = await completer.complete(at(CODE), SHORT)
        assert len(first.text) > 10
        for typed in (1, 2, 5, 9, 4, 0):
            heard: list[str] = []
            place = at(CODE.replace("|", first.text[:typed] + "|"))
            rest = await completer.complete(place, SHORT, heard.append)
            assert (rest.text, rest.place, rest.ended) == (first.text[typed:], place, None)
            assert heard == [rest.text]
        assert len(async_engine.asked) == 1
        await completer.complete(at(CODE.replace("|", first.text[:3] + "!|")), SHORT)
        assert len(async_engine.asked) == 2, "another text was typed"
        await completer.complete(at(CODE.replace("|", first.text[:1] + "|")), replace(SHORT, lines=2))
        assert len(async_engine.asked) == 3, "something else is wanted"
        await completer.complete(at(CODE.replace("|", first.text[:1] + "|") + "more"), SHORT)
        assert len(async_engine.asked) == 4, "something else follows"

    run(test)


def test_results_are_remembered_and_bounded() -> None:
    async def test(async_engine: WatchedEngine, completer: Completer) -> None:
        places = [at(f"# {number}\nx = |\n", f"{number}.py") for number in range(8)]
        texts = [(await completer.complete(place, SHORT)).text for place in places]
        assert len(async_engine.asked) == 8
        again = [await completer.complete(place, SHORT) for place in places[:2:-1]]
        assert [one.text for one in again] == texts[:2:-1]
        assert all(one.ended is None for one in again)
        assert len(async_engine.asked) == 8
        assert len(completer._results) == 5
        await completer.complete(places[0], SHORT)
        assert len(async_engine.asked) == 9

    run(test, CompletionSettings(results=5, ring=RingSize(chunks=0)))


def test_what_its_time_cut_off_is_typed_along_and_not_remembered_for_later() -> None:
    async def test(async_engine: WatchedEngine, completer: Completer) -> None:
        hasty = replace(LONG, seconds=0.0)
        first = await completer.complete(at(CODE), hasty)
        assert first.ended is not None
        assert first.ended.finish is Finish.TIME
        rest = await completer.complete(first.place.after(first.text[:2]), hasty)
        assert (rest.text, rest.ended) == (first.text[2:], None)
        longer = await completer.complete(first.place.after(first.text[:2]), LONG)
        assert longer.ended is not None, "there is more time"
        for number in range(3):
            await completer.complete(at(f"x{number} = |\n"), SHORT)
        asked = len(async_engine.asked)
        again = await completer.complete(at(CODE), hasty)
        assert (len(async_engine.asked), again.ended is None) == (asked + 1, False)

    run(test, OPEN)


def test_one_line_further_down_the_prompt_is_still_in_the_cache() -> None:
    async def test(async_engine: WatchedEngine, completer: Completer) -> None:
        document = "".join(f"line {number}\n" for number in range(100)) + "x = |\n" + "end\n" * 30
        first = await completer.complete(at(document), SHORT)
        await completer.complete(at(document.replace("|", first.text + "\n    y|")), SHORT)
        second = await completer.complete(at(document.replace("|", first.text + "\n    y = 1\n|")), SHORT)
        await completer.complete(at(document.replace("|", first.text + "\n    y = |")), SHORT)
        assert second.ended is not None
        stats = second.ended.stats
        assert stats.prompt_tokens > 900
        assert stats.prompt_tokens - stats.reused_tokens < 12
        assert (
            len(
                {
                    (question.infill.prefix, question.infill.suffix)
                    for question, _ in async_engine.asked
                    if question.infill
                }
            )
            == 1
        )

    run(test)


def test_only_the_latest_place_counts() -> None:
    async def test(async_engine: WatchedEngine, completer: Completer) -> None:
        waiting = [asyncio.create_task(completer.complete(at(f"x{n} = |\n"), LONG)) for n in range(5)]
        await async_engine.begun(1)
        last = await completer.complete(at("y = |\n"), SHORT)
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in results)
        assert last.text
        await asyncio.wait_for(async_engine.idle(), 2)
        assert async_engine.most_running == 1

    run(test)


def test_the_same_place_asked_about_twice_is_answered_once_to_who_asked_last() -> None:
    async def test(async_engine: WatchedEngine, completer: Completer) -> None:
        older = asyncio.create_task(completer.complete(at(CODE), SHORT))
        await async_engine.begun(1)
        assert (await completer.complete(at(CODE), SHORT)).text
        assert len(async_engine.asked) == 1
        with pytest.raises(asyncio.CancelledError):
            await older

    run(test)


def test_who_stops_waiting_calls_it_off() -> None:
    async def test(async_engine: WatchedEngine, completer: Completer) -> None:
        task = asyncio.create_task(completer.complete(at(CODE), LONG))
        await async_engine.begun(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(async_engine.idle(), 2)
        assert async_engine.called_off == 1
        assert (await completer.complete(at(CODE), SHORT)).ended is not None, "a part of an answer is no answer"

    run(test)


def test_the_next_completion_is_fetched_before_it_is_asked_for() -> None:
    async def test(async_engine: WatchedEngine, completer: Completer) -> None:
        first = await completer.complete(at(CODE), SHORT)
        completer.prefetch(first)
        completer.prefetch(first)
        await completer.settled()
        accepted = first.place.after(first.text)
        second = await completer.complete(accepted, SHORT)
        assert second.text
        assert second.ended is None
        assert [urgency for _, urgency in async_engine.asked] == [Urgency.COMPLETION, Urgency.IDLE]
        typed = await completer.complete(accepted.after(second.text[:3]), SHORT)
        assert typed.text == second.text[3:]
        assert len(async_engine.asked) == 2

    run(test)


def test_a_fetch_that_runs_is_taken_over() -> None:
    async def test(async_engine: WatchedEngine, completer: Completer) -> None:
        first = await completer.complete(at(CODE), LONG)
        completer.prefetch(first)
        await async_engine.begun(2)
        heard: list[str] = []
        second = await completer.complete(first.place.after(first.text), LONG, heard.append)
        assert second.ended is None
        assert heard[-1] == second.text != ""
        assert len(async_engine.asked) == 2
        assert async_engine.called_off == 0

    run(test, CompletionSettings(tidies=False))


def test_any_other_request_calls_a_fetch_off() -> None:
    async def test(async_engine: WatchedEngine, completer: Completer) -> None:
        first = await completer.complete(at(CODE), LONG)
        completer.prefetch(first)
        await async_engine.begun(2)
        other = await completer.complete(at("z = |\n"), SHORT)
        assert other.text
        assert async_engine.called_off == 1

    run(test, CompletionSettings(tidies=False))


def test_a_fetch_that_the_engine_called_off_is_asked_for_anew() -> None:
    async def test(async_engine: WatchedEngine, completer: Completer) -> None:
        first = await completer.complete(at(CODE), LONG)
        completer.prefetch(first)
        await async_engine.begun(2)
        waiting = asyncio.create_task(completer.complete(first.place.after(first.text), LONG))
        await asyncio.sleep(0)
        async with aclosing(async_engine.answer(CHAT)) as messages:
            async for message in messages:
                if isinstance(message, Said):
                    break
            second = await waiting
        assert second.text
        assert second.ended is not None
        assert [urgency for _, urgency in async_engine.asked][-2:] == [Urgency.ANSWER, Urgency.COMPLETION]

    run(test, CompletionSettings(tidies=False))


def test_who_waits_is_not_disturbed_by_a_fetch() -> None:
    async def test(async_engine: WatchedEngine, completer: Completer) -> None:
        first = await completer.complete(at(CODE), SHORT)
        waiting = asyncio.create_task(completer.complete(at("z = |\n"), SHORT))
        await async_engine.begun(2)
        completer.prefetch(first)
        assert (await waiting).text
        assert len(async_engine.asked) == 2

    run(test)


def test_failures_are_raised_and_the_next_is_answered() -> None:
    async def refused(async_engine: WatchedEngine, completer: Completer) -> None:
        for _ in range(2):
            with pytest.raises(LocalspecError, match="can't fill in code"):
                await completer.complete(at(CODE), SHORT)
        completer.prefetch(Completion("x", at(CODE), None))
        await completer.settled()
        assert len(async_engine.asked) == 3

    async def busy(async_engine: WatchedEngine, completer: Completer) -> None:
        async with aclosing(async_engine.answer(CHAT)) as one, aclosing(async_engine.answer(CHAT)) as other:
            assert await anext(one)
            assert await anext(other)
            with pytest.raises(BusyError):
                await completer.complete(at(CODE), replace(SHORT, wait=0.01))
        assert (await completer.complete(at(CODE), replace(SHORT, wait=5))).text

    run(refused, model="toy")
    run(busy)


def test_lines_end_as_in_the_document() -> None:
    async def test(async_engine: WatchedEngine, completer: Completer) -> None:
        bare = await completer.complete(at(CODE), LONG)
        other = await completer.complete(at(CODE.replace("\n", "\r\n")), LONG)
        assert bare.text.count("\n") > 1
        assert other.text == bare.text.replace("\n", "\r\n")
        rest = await completer.complete(other.place.after(other.text[: other.text.index("\r\n") + 2]), LONG)
        assert rest.text == other.text[other.text.index("\r\n") + 2 :]
        assert rest.ended is None
        assert async_engine.asked[0][0].infill == async_engine.asked[1][0].infill

    run(test, OPEN)


def test_other_files_are_shown_and_the_same_ones_from_key_to_key() -> None:
    now = [0.0]

    async def test(async_engine: WatchedEngine, _: Completer) -> None:
        completer = Completer(async_engine, clock=lambda: now[0])
        completer.visited("b.py", "def other():\n    return 1\n", 0)
        completer.visited("a.py", CODE, 2)
        completer.edited("c.py", "counted = 1\n", 0)
        now[0] = 5.0
        await completer.complete(at(CODE), SHORT)
        completer.edited("d.py", "d = 1\n", 0)
        now[0] = 10.0
        await completer.complete(at(CODE.replace("|", "x|")), SHORT)
        await completer.complete(at(CODE.replace("def add", "def plus")), SHORT)
        shown = [
            [chunk.filename for chunk in question.infill.chunks]
            for question, _ in async_engine.asked
            if question.infill
        ]
        assert shown == [["b.py"], ["b.py"], ["b.py", "c.py"]]
        await completer.close()

    run(test)


def test_what_is_beyond_the_windows_is_there_to_copy_from() -> None:
    settings = CompletionSettings(windows=Windows(prefix=8, suffix=4))

    async def test(async_engine: WatchedEngine, completer: Completer) -> None:
        lines = [f"line {number}" for number in range(60)]
        for line in (21, 22, 23):
            text = "\n".join([*lines[:line], "x = |", *lines[line:]])
            await completer.complete(at(text), SHORT)
        predictions = [question.prediction for question, _ in async_engine.asked]
        infill = async_engine.asked[0][0].infill
        assert infill is not None
        assert predictions[0].startswith("line 0\n")
        assert "line 50" in predictions[0]
        assert "line 16" in infill.prefix
        assert "line 16\n" not in predictions[0]
        assert predictions == [predictions[0]] * 3, "what is learned with each key takes time"

    run(test, settings)


def test_a_closed_file_leaves_its_text_nowhere() -> None:
    async def test(async_engine: WatchedEngine, completer: Completer) -> None:
        first = await completer.complete(at(CODE), SHORT)
        completer.edited("a.py", CODE, 0)
        completer.closed("a.py")
        held = (completer._edited, completer._asking._anchor, list(completer._results._bases))
        assert held == (None, None, [])
        assert (await completer.complete(at(CODE), SHORT)).text == first.text
        assert len(async_engine.asked) == 1

    run(test)


def test_a_thousand_keys_as_fast_as_they_come() -> None:
    """No queue, nothing stale at the end, memory flat, and what is shown is always about the text that is there."""
    dice = random.Random(7)
    settings = CompletionSettings(results=20, ring=RingSize(chunks=4, seconds=0.01))

    async def test(async_engine: WatchedEngine, completer: Completer) -> None:
        text = "".join(f"value_{number} = {number}\n" for number in range(6))
        newest = place = CursorPosition("a.py", text, 3, 0)
        shown, stale, sizes = 0, 0, []
        tasks: set[asyncio.Task[None]] = set()

        async def ask(asked: CursorPosition) -> None:
            # An answer may be ready while the next key is on its way: it is not late before that one is asked about.
            nonlocal shown, stale, newest
            newest = asked
            completion = await completer.complete(asked, Limits(tokens=6, seconds=None))
            shown += 1
            stale += completion.place is not newest
            completer.prefetch(completion)

        tracemalloc.start()
        for key in range(1000):
            place = _typed(place, dice)
            completer.edited("a.py", place.text, place.line)
            task = asyncio.create_task(ask(place))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            await (asyncio.wait([task]) if dice.random() < 0.12 else asyncio.sleep(dice.choice((0, 0, 0.001))))
            async_engine.asked.clear()
            # A cancelled task needs some turns of the loop to end.
            assert len(tasks) <= 5
            if key in (300, 999):
                own = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/app/complete/*")])
                sizes.append(sum(trace.size for trace in own.traces))
        tracemalloc.stop()
        for task in list(tasks):
            with suppress(asyncio.CancelledError):
                await task
        assert shown > 100
        assert stale == 0
        assert async_engine.called_off > 100
        assert async_engine.most_running == 1
        # One is ending while the next one waits for its turn, and a cancelled one may be among them.
        assert async_engine.most_queued <= 4
        # The text grows, too; what a key leaves behind would be a megabyte by now.
        assert sizes[1] < sizes[0] + 200_000

    run(test, settings)


def _typed(place: CursorPosition, dice: random.Random) -> CursorPosition:
    """Return a place after a key: a letter, a new line, a step back, or the cursor elsewhere."""
    key = dice.random()
    if key < 0.75 and len(place.behind) < 30:
        return place.after(dice.choice("abc xyz=()"))
    if key < 0.8:
        return place.after("\n")
    if key < 0.95 and place.behind:
        return CursorPosition.between(place.path, place.prefix[:-1], place.suffix)
    lines = place.text.split("\n")[:8]
    return CursorPosition(place.path, "\n".join(lines), dice.randrange(len(lines)), 0)
