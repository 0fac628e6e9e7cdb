"""What the screen costs: python tests/support/run.py screen_speed [TARGET] [--draft DRAFT]. Figures for people, not a
test.

1. The same question, seed and length on the screen and line by line, both at once but active in turns:
   tokens a second after the first by the engine's clock, of the time in which it was active.
2. The time from a key to its sign on the terminal, while the model decodes.
3. The time to take in a piece of an answer, and to show another page, in a transcript of 50,000 tokens.
"""

import argparse
import asyncio
import math
import random
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from pseudo_terminal import PseudoTerminal
from textual._compositor import CompositorUpdate
from textual.app import App, ComposeResult

from app.engine.costs.provenance import processor_name
from app.history.export import to_record
from app.history.store import Store
from app.ui.transcript.transcript import Transcript

QUESTION = "Write a long tutorial about binary search trees in Python, with code for each step."
SIZE = (120, 36)
TURN = 3.0
"""Seconds that one of two chats is active while the other stands still.

The clock goes on meanwhile: a turn of the screen begins with a drawing that was due before, so turns are not short.
"""
SIGNS = "абвгдежзийклмнопрстуфхцчшщъыьэюяАБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯ"
"""Letters that no English answer has: seen on the terminal, one is the echo of a key."""
PARAGRAPH = (
    "A paragraph with **bold** words, `code`, and a [link](https://example.org), long enough to be wrapped at the "
    "width of most screens, so that its lines have to be found anew at each width.\n\n"
)
CODE = "```python\ndef insert(root, key):\n    if root is None:\n        return Node(key)\n    return root\n```\n\n"
LIST = "1. first, with *emphasis*\n2. second\n   - nested\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens of an answer after the first, and the seconds until its end in which the process was active."""

    tokens: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds


class Chat:
    """localspec in a terminal that only reads: to draw what it reads would take the model's processor."""

    def __init__(self, arguments: Sequence[str], cache: Path, *, plain: bool) -> None:
        self._folder = tempfile.TemporaryDirectory()
        home = Path(self._folder.name)
        self._file = home / "data/localspec/conversations.db"
        self._active = [(time.time(), math.inf)]
        flags = ["--plain"] if plain else []
        extra = {"XDG_CACHE_HOME": str(cache), "XDG_DATA_HOME": str(home / "data"), "NO_COLOR": None}
        self.terminal = PseudoTerminal(["-m", "app", "run", *arguments, *flags], home, SIZE, extra)
        ready = b"\n> " if plain else b"Message, / for commands"
        self.terminal.wait_until(lambda: ready in self.terminal.bytes, 600, 0.1)
        if not plain:
            self.terminal.wait_until(lambda: b"Type a message" in self.terminal.bytes, 600, 0.1)

    def ask(self) -> None:
        self.terminal.type(QUESTION)
        # Keys that come in one go may be taken for a paste.
        time.sleep(0.3)
        self.terminal.type("\r")
        time.sleep(0.1)

    def goes_on(self) -> None:
        """Let it be active."""
        self.terminal.process.send_signal(signal.SIGCONT)
        self._active.append((time.time(), math.inf))

    def waits(self) -> None:
        """Let it stand still."""
        self.terminal.process.send_signal(signal.SIGSTOP)
        self._active[-1] = (self._active[-1][0], time.time())

    def speed(self) -> Speed | None:
        """Return the speed of the answer; None: it is not at its end."""
        store = Store(self._file)
        try:
            for summary in store.latest(1):
                record = to_record(summary.conversation, store.entries(summary.conversation.id))
                answer = record["messages"][-1]
                if answer["role"] == "assistant" and answer["finish"] is not None:
                    return self._speed(answer)
        finally:
            store.close()
        return None

    def _speed(self, answer: dict[str, Any]) -> Speed:
        counted = answer["statistics"]
        first = datetime.fromisoformat(answer["created"]).timestamp() + counted["first_token_seconds"]
        # The clock of the rounds goes on while the process stands still.
        end = first + (counted["emitted"] - 1) / counted["tokens_per_second"]
        seconds = sum(max(0.0, min(stop, end) - max(start, first)) for start, stop in self._active)
        return Speed(counted["emitted"] - 1, seconds)

    def close(self) -> None:
        self.terminal.close()
        self._folder.cleanup()


def compare(arguments: Sequence[str], pairs: int, cache: Path) -> None:
    """Measure screen and plain, in turns: a machine that slows down meanwhile slows both."""
    ratios: list[float] = []
    for number in range(pairs):
        chats = [Chat(arguments, cache, plain=plain) for plain in (False, True)]
        screen, plain = _speeds(chats, chats[:: -1 if number % 2 else 1])
        for chat in chats:
            chat.close()
        ratios.append(screen.rate / plain.rate)
        print(f"  screen {screen.rate:.1f}, plain {plain.rate:.1f} tokens/s, ratio {ratios[-1]:.3f}", flush=True)
    print(f"ratio: median {statistics.median(ratios):.3f}, mean {statistics.fmean(ratios):.3f}")


def _speeds(chats: Sequence[Chat], order: Sequence[Chat]) -> list[Speed]:
    for chat in order:
        chat.ask()
        chat.waits()
    while True:
        for chat in order:
            chat.goes_on()
            time.sleep(TURN)
            chat.waits()
        speeds = [speed for chat in chats if (speed := chat.speed()) is not None]
        if len(speeds) == len(chats):
            return speeds


def keys(arguments: Sequence[str], presses: int, cache: Path) -> None:
    """Measure how long a key takes to be seen while an answer runs."""
    chat = Chat(arguments, cache, plain=False)
    chat.ask()
    chat.terminal.wait_until(lambda: chat.speed() is not None or b"tok/s" in chat.terminal.bytes, 600, 0.05)
    moments, times = random.Random(1), []
    for sign in SIGNS[:presses]:
        time.sleep(moments.uniform(0.05, 0.3))
        start = time.perf_counter()
        chat.terminal.type(sign)
        written = sign.encode()
        chat.terminal.wait_until(partial(chat.terminal.bytes.__contains__, written), 30, 0.002)
        times.append(chat.terminal.written_at(chat.terminal.bytes.index(written)) - start)
    running = chat.speed() is None
    chat.close()
    tell("key to screen" if running else "key to screen (the answer ended before: give more -n)", times)


class _Host(App[None]):
    """The transcript alone, drawn as for a terminal; what would go there goes nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = asyncio.Event()

    def compose(self) -> ComposeResult:
        yield Transcript(id="transcript")

    def _display(self, _: object, renderable: Any) -> None:
        # A test has no terminal, and would leave this out.
        if isinstance(renderable, CompositorUpdate):
            renderable.render_segments(self.console)
            self.shown.set()


@dataclass(slots=True)
class Frames:
    """Times of drawings."""

    work: list[float] = field(default_factory=list)
    """Seconds of the processor, whatever else it does."""
    shown: list[float] = field(default_factory=list)
    """Seconds until the terminal has it; Textual draws sixty times a second at most."""

    async def take(self, app: _Host, change: Callable[[], None]) -> None:
        """Measure a change, if it is one that is seen."""
        app.shown.clear()
        start, work = time.perf_counter(), time.thread_time()
        change()
        with suppress(TimeoutError):
            await asyncio.wait_for(app.shown.wait(), 0.5)
            self.shown.append(time.perf_counter() - start)
            self.work.append(time.thread_time() - work)

    def tell(self, what: str) -> None:
        """Print both."""
        tell(f"{what}, work", self.work)
        tell(f"{what}, to terminal", self.shown)


def frames(tokens: int) -> None:
    """Measure pieces and pages in a long transcript."""
    asyncio.run(_frames(tokens))


async def _frames(tokens: int) -> None:
    app = _Host()
    async with app.run_test(size=SIZE) as pilot:
        transcript = app.query_one(Transcript)
        # Four characters a token.
        text = (PARAGRAPH * 3 + CODE + LIST) * 6
        answers = max(1, tokens * 4 // len(text))
        for key in range(answers):
            transcript.add_user(2 * key, "And then?")
            transcript.add_answer(2 * key + 1, text)
        await pilot.pause(0.5)
        transcript.begin_answer(-1)
        pieces, pages = Frames(), Frames()
        for at in range(0, 2000, 5):
            await pieces.take(app, partial(_append, transcript, text[at : at + 5]))
        pieces.tell(f"a piece, after {answers * len(text) // 4:,} tokens")
        for number in range(200):
            page = transcript.scroll_page_up if number < 150 else transcript.scroll_page_down
            await pages.take(app, partial(page, animate=False))
        pages.tell("a page")


def _append(transcript: Transcript, piece: str) -> None:
    transcript.append(-1, piece, (len(piece),))
    # At once, and not in the rhythm that leaves the processor to the model.
    transcript._draw()


def tell(what: str, seconds: Sequence[float]) -> None:
    """Print percentiles."""
    cuts = statistics.quantiles(seconds, n=100)
    print(f"{what}: p50 {1e3 * cuts[49]:.1f} ms, p95 {1e3 * cuts[94]:.1f} ms, n {len(seconds)}", flush=True)


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", nargs="?", default="starter")
    parser.add_argument("--draft", default="auto")
    parser.add_argument("-n", type=int, default=256, help="tokens of an answer")
    parser.add_argument("-t", type=int, default=0, help="threads of the model; 0: one a physical core")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--presses", type=int, default=60)
    parser.add_argument("--tokens", type=int, default=50_000)
    parser.add_argument("--only", choices=["speed", "keys", "frames"])
    asked = parser.parse_args()
    arguments = [asked.target, "--draft", asked.draft, "--seed", "7", "--temp", "0", "-t", str(asked.t)]
    print(f"{processor_name()}, {asked.target}, draft {asked.draft}, {SIZE[0]} x {SIZE[1]} cells")
    with tempfile.TemporaryDirectory() as cache:
        if asked.only in (None, "speed"):
            compare([*arguments, "-n", str(asked.n)], asked.pairs, Path(cache))
        if asked.only in (None, "keys"):
            keys([*arguments, "-n", "4000"], asked.presses, Path(cache))
    if asked.only in (None, "frames"):
        frames(asked.tokens)


if __name__ == "__main__":
    main()
