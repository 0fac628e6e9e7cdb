"""When the editor asks: only the newest request runs, and its listener gets the result."""

import asyncio
from collections.abc import Callable

from app.complete.completer import Completer, Completion
from app.complete.place import CursorPosition
from app.complete.settings import Limits
from app.ui.editor.asking import PATIENT, Asking

PAUSE = 0.03


class SlowCompleter(Completer):
    """Says what the text is, after as many turns of the loop as it is told."""

    def __init__(self) -> None:
        self.running = self.most = self.prefetched = 0
        self.asked: list[str] = []
        self.limits: list[Limits] = []
        self.error: Exception | None = None

    async def complete(
        self, place: CursorPosition, limits: Limits = PATIENT, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        self.asked.append(place.text)
        self.limits.append(limits)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(0.01)
            if self.error is not None:
                raise self.error
            if on_text is not None:
                on_text(f"{place.text}!")
            return Completion(f"{place.text}!?" if place.text else "", place, None)
        finally:
            self.running -= 1

    def prefetch(self, completion: Completion) -> None:  # noqa: ARG002
        self.prefetched += 1

    async def close(self) -> None:
        pass


class Writer:
    """Types, and writes down what it hears."""

    def __init__(self) -> None:
        self.text = ""
        self.said: list[tuple[str, int]] = []
        self.failures: list[Exception] = []
        self.completer = SlowCompleter()
        self.asking = Asking(self.completer, self, Limits(tokens=7), PAUSE)

    def type(self, text: str) -> None:
        self.text += text
        self.asking.ask()

    def place(self) -> tuple[CursorPosition, int]:
        return CursorPosition("a", self.text, 0, len(self.text)), len(self.text)

    def receive(self, text: str, moment: int) -> None:
        self.said.append((text, moment))

    def completed(self, completion: Completion, moment: int) -> None:
        self.said.append((completion.text, moment))

    def failed(self, error: Exception) -> None:
        self.failures.append(error)

    async def quiet(self) -> None:
        while self.asking.asks:
            await asyncio.sleep(0.005)


def test_keys_in_a_row_are_asked_about_once_and_at_once_means_now() -> None:
    async def steps() -> None:
        writer = Writer()
        for letter in "abc":
            writer.type(letter)
            await asyncio.sleep(0)
        await writer.quiet()
        assert writer.completer.asked == ["abc"]
        assert writer.said == [("abc!", 3), ("abc!?", 3)]
        writer.asking.ask(at_once=True, limits=PATIENT)
        await asyncio.sleep(0.001)
        assert writer.completer.asked == ["abc", "abc"]
        assert writer.completer.limits == [Limits(tokens=7), PATIENT]
        await writer.asking.close()

    asyncio.run(steps())


def test_a_thousand_keys_never_leave_two_questions_alive() -> None:
    async def steps() -> None:
        writer = Writer()
        for number in range(1000):
            writer.type("x")
            await asyncio.sleep(0.05 if number % 100 == 0 else 0)
        await writer.quiet()
        await asyncio.sleep(0.02)
        assert (writer.completer.most, writer.completer.running) == (1, 0)
        assert len(asyncio.all_tasks()) == 1
        assert writer.said[-1] == ("x" * 1000 + "!?", 1000)
        assert all(text.startswith("x" * moment + "!") for text, moment in writer.said)

    asyncio.run(steps())


def test_who_fails_says_so_and_the_next_question_is_asked() -> None:
    async def steps() -> None:
        writer = Writer()
        writer.completer.error = RuntimeError("no")
        writer.type("a")
        await writer.quiet()
        assert list(map(str, writer.failures)) == ["no"]
        writer.completer.error = None
        writer.type("b")
        await writer.quiet()
        assert writer.said[-1] == ("ab!?", 2)
        assert len(writer.failures) == 1

    asyncio.run(steps())


def test_only_what_is_worth_showing_is_followed_by_the_next() -> None:
    async def steps() -> None:
        writer = Writer()
        writer.asking.ask()
        await writer.quiet()
        assert (writer.said[-1], writer.completer.prefetched) == (("", 0), 0)
        writer.type("a")
        await writer.quiet()
        assert writer.completer.prefetched == 1
        writer.type("b")
        writer.asking.call_off()
        await asyncio.sleep(2 * PAUSE)
        assert writer.completer.asked[-1] == "a"

    asyncio.run(steps())
