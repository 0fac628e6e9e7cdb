"""The chat screen with a recorded engine behind it: it says what a test tells it to, on a clock that stands still."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from io import StringIO
from typing import Any

from recorded import Recorded
from rich.console import Console
from rich.segment import Segment, Segments
from rich.style import Style
from textual.app import App
from textual.widgets import Input, TextArea
from ui_chat import Chat, overhear, request

from app.engine.conversation.messages import Message
from app.engine.decoding.request import Question
from app.engine.runtime.load import LoadPlan
from app.ui.chat.app import ChatApp
from app.ui.chat.chat_screen import ChatScreen
from app.ui.chat.link import Post
from app.ui.chat.messages import Heard, LoadProgress, Mail
from app.ui.drawing.key_footer import KeyFooter
from app.ui.panel.flow import Flow
from drafters.registry import DrafterSpec

_MEMORY = 1_912_602_624


class RecordedLink:
    """A `app.ui.chat.link.Link` that does nothing by itself but count the jobs."""

    def __init__(self, _: LoadPlan, post: Post) -> None:
        self._post = post
        self.jobs = 0
        self.plans: list[LoadPlan | None] = []
        self.asked: list[Question] = []
        self.stops = 0
        self.kept: list[str] = []

    def say(self, *messages: Message) -> None:
        """Post what the engine says to the last job."""
        for message in messages:
            self._post(Heard(self.jobs, message))

    def end(self, *messages: Message) -> None:
        """Post the last of what it says, and that the job is over."""
        self.say(*messages)
        self._post(Heard(self.jobs, None))

    def progress(self, name: str, fraction: float | None) -> None:
        """Post how far a file is read."""
        self._post(LoadProgress(self.jobs, name, fraction))

    def load(self, plan: LoadPlan | None = None) -> int:
        self.plans.append(plan)
        return self._next()

    def use_drafter(self, spec: DrafterSpec) -> int:  # noqa: ARG002
        return self._next()

    def answer(self, question: Question) -> int:
        self.asked.append(question)
        return self._next()

    def recall(self, conversation: Question, spelled: Sequence[Sequence[int]], key: str = "") -> int:  # noqa: ARG002
        return self._next()

    def keep(self, key: str) -> None:
        self.kept.append(key)

    def leave(self, key: str) -> None:
        self.kept.append(f"{key} at the end")

    def explain(self, settings: Question) -> int:  # noqa: ARG002
        return self._next()

    def walk(self, back: int | None) -> int:  # noqa: ARG002
        return self._next()

    def stop(self) -> None:
        self.stops += 1

    def close(self) -> None:
        pass

    def _next(self) -> int:
        self.jobs += 1
        return self.jobs


class Told(Chat):
    """A chat whose engine is a recording."""

    @property
    def link(self) -> RecordedLink:
        link = self.screen.link
        assert isinstance(link, RecordedLink)
        return link

    async def hear(self, *messages: Message, over: bool = True) -> None:
        """Let the engine say something, and wait until the screen knows it all."""
        (self.link.end if over else self.link.say)(*messages)
        await self.pilot.pause()
        await self.until(lambda: not self.app.mailbox._mail)
        await self.pilot.pause()

    async def drawn(self) -> None:
        """Wait until all that is seen is drawn, and all that isn't is measured."""
        transcript, footer = self.screen.transcript, self.screen.query_one(KeyFooter)
        # Keys that are composed anew have no place before the next layout.
        await self.until(lambda: not footer.display or all(key.region.width for key in footer.children))
        await self.until(
            lambda: not (transcript._is_due or transcript._is_measuring or transcript.column.has_estimates)
        )

    async def load(self, recorded: Recorded) -> None:
        """Let the models be there."""
        await self.hear(recorded.ready)

    async def answer(self, recorded: Recorded, *messages: Message, over: bool = True) -> None:
        """Ask what was asked then, and hear what was said, or a part of it."""
        await self.type(recorded.prompt)
        await self.hear(*(messages or recorded.told), over=over)


@asynccontextmanager
async def told(
    size: tuple[int, int],
    model: str = "toy",
    theme: str = "dark",
    listen: Callable[[Mail], object] | None = None,
) -> AsyncIterator[Told]:
    """Open the chat on a recorded engine, which has loaded nothing yet."""
    asked = request(theme=theme)
    app = ChatApp(replace(asked, plan=replace(asked.plan, model=model)), RecordedLink, now=lambda: 0.0)
    app.animation_level = "none"
    if listen is not None:
        overhear(app, listen)
    async with app.run_test(size=size) as pilot:
        chat = Told(app, pilot, [])
        await chat.until(lambda: isinstance(app.screen, ChatScreen) and app.screen.is_mounted)
        yield chat


def picture(app: App[Any]) -> str:
    """Return what is on the screen as SVG: the same for screens that look the same, however they came about."""
    width, height = app.size
    console = Console(
        width=width, height=height, file=StringIO(), record=True, force_terminal=True, color_system="truecolor"
    )
    update = app.screen._compositor.render_update(full=True, screen_stack=app._background_screens)
    for line in update.strips:
        parts = Segment.simplify(_seen(part) for strip in line for part in strip)
        blanks_apart = (piece for part in parts for piece in _blanks_apart(part))
        console.print(Segments([*Segment.simplify(blanks_apart), Segment.line()]), end="")
    return console.export_svg(title=app.title)


def _seen(part: Segment) -> Segment:
    """Return a part of a line without what a click on it would do."""
    return Segment(part.text, part.style and part.style.clear_meta_and_links())


def _blanks_apart(part: Segment) -> Iterator[Segment]:
    """Yield a part of a line with the blanks around it, whose only look is what is behind them."""
    text, style = part.text, part.style
    if style is None or style.reverse or style.underline or style.strike:
        yield part
        return
    behind, words = Style(bgcolor=style.bgcolor), text.strip(" ")
    before = len(text) - len(text.lstrip(" "))
    pieces = (text[:before], behind), (words, style), (text[before + len(words) :], behind)
    yield from (Segment(*piece) for piece in pieces if piece[0])


def stand_still(monkeypatch: Any) -> None:
    """Let nothing on the screen depend on the moment or the machine: cursors don't blink, memory is always the same."""
    monkeypatch.setattr("app.ui.chat.mailbox._LONGEST", 0.001)
    monkeypatch.setattr("app.ui.chat.mailbox._SHORTEST", 0.001)
    monkeypatch.setattr(TextArea, "_toggle_cursor_blink_visible", lambda _: None)
    monkeypatch.setattr(Input, "_toggle_cursor", lambda _: None)
    monkeypatch.setattr(Input, "_toggle_cursor", lambda _: None)
    monkeypatch.setattr("app.ui.chat.conversation_screen.Flow", partial(Flow, lambda: _MEMORY, lambda: 0.0))
