"""Driving the chat screen in tests: the real engine on the toy model, keys pressed by a pilot, messages waited for."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from app.engine.runtime.load import LoadPlan
from app.engine.runtime.loader import Loader
from app.flags.request import Request, read_request
from app.ui.chat import actions
from app.ui.chat.app import ChatApp
from app.ui.chat.chat_screen import ChatScreen
from app.ui.chat.link import EngineLink, Link, Post
from app.ui.chat.messages import Heard, Mail
from models.base import LanguageModel
from models.toy import ToyModel

WIDE = (140, 40)


def request(**changes: Any) -> Request:
    """Return what `localspec run toy` asks for, with some flags changed."""
    from app.command_line.cli import command_line

    command = command_line.commands["run"]
    context = command.make_context("run", ["toy", "-n", "40", "--seed", "1", "--draft", "lookup", "-c", "2000"])
    model, words = context.params.pop("model"), context.params.pop("prompt")
    # Read as on a terminal: a pipe would be a question.
    return read_request(model, words, {**context.params, **changes})


@contextmanager
def within_run(*flags: str) -> Iterator[None]:
    """Be within the command `run` with some flags, as a chat is: they are among its settings."""
    from app.command_line.cli import command_line

    with command_line.make_context("localspec", ["run"]) as group:
        group.invoked_subcommand = "run"
        with command_line.commands["run"].make_context("run", ["toy", *flags], parent=group):
            yield


class Chat:
    """A chat on a screen, with all that the engine said to it."""

    def __init__(self, app: ChatApp, pilot: Pilot[Any], heard: list[Heard]) -> None:
        self.app = app
        self.pilot = pilot
        self.heard = heard

    @property
    def screen(self) -> ChatScreen:
        return self.app.chat

    @property
    def said(self) -> list[object]:
        return [mail.message for mail in self.heard]

    @property
    def messages(self) -> list[str]:
        transcript = self.screen.transcript
        return [transcript.text_of(key) for key in transcript.message_keys()]

    @property
    def notes(self) -> str:
        return "\n".join(entry.text for entry in self.screen.transcript._all if entry.key is None)

    @property
    def shown(self) -> str:
        """What is on the screen."""
        return "\n".join(line.text.rstrip() for line in self.app.screen._compositor.render_strips())

    async def until(self, condition: Callable[[], object], seconds: float = 60.0) -> None:
        """Let the app run until something is so."""
        for _ in range(int(seconds / 0.02)):
            await self.pilot.pause(0.02)
            if condition():
                return
        raise AssertionError(f"waited in vain; heard {self.said[-3:]}, messages {self.messages}, notes {self.notes}")

    async def ready(self) -> None:
        """Wait until the engine waits."""
        await self.until(lambda: self.screen.ready is not None and not self.screen.busy and not self.screen.waiting)

    async def type(self, text: str) -> None:
        """Put a text into the prompt and press Enter."""
        self.screen.prompt.set_text(text)
        self.screen.prompt.focus()
        await self.pilot.press("enter")
        await self.pilot.pause()

    async def ask(self, text: str) -> str:
        """Ask, and return the answer when it is complete."""
        before = len(self.messages)
        await self.type(text)
        await self.until(lambda: self.messages and len(self.messages) >= before and self.screen.busy == "")
        return self.messages[-1]


def app_for(asked: Request, make_link: Callable[[LoadPlan, Post], Link] = EngineLink) -> ChatApp:
    return ChatApp(asked, make_link)


def overhear(app: ChatApp, listen: Callable[[Mail], object]) -> None:
    """Tell a test what the screen is about to handle."""
    take = app.mailbox.take

    def told() -> list[Mail]:
        mail = take()
        for one in mail:
            listen(one)
        return mail

    app.mailbox.take = told  # type: ignore[method-assign]


@asynccontextmanager
async def chatting(
    asked: Request | None = None,
    size: tuple[int, int] = (80, 24),
    *,
    notices: bool = False,
    moment: float = 0.0,
    **flags: Any,
) -> AsyncIterator[Chat]:
    """Start a chat on the toy model, and end it in order.

    `notices`: show them. `moment`: seconds after an answer in which Escape does nothing.
    """
    before, actions.MOMENT = actions.MOMENT, moment
    try:
        async with _chatting(asked, size, notices, flags) as chat:
            yield chat
    finally:
        actions.MOMENT = before


@asynccontextmanager
async def _chatting(
    asked: Request | None, size: tuple[int, int], notices: bool, flags: dict[str, Any]
) -> AsyncIterator[Chat]:
    heard: list[Heard] = []
    app = app_for(asked or request(**flags))

    overhear(app, lambda mail: heard.append(mail) if isinstance(mail, Heard) else None)
    async with app.run_test(size=size, notifications=notices) as pilot:
        chat = Chat(app, pilot, heard)
        await chat.until(lambda: isinstance(app.screen, ChatScreen))
        try:
            yield chat
        finally:
            # As the program does when it ends: the screen is closed while the model gives no more tokens.
            app.chat.link.stop()


def drive(steps: Coroutine[Any, Any, None]) -> None:
    """Run what a test does with a chat."""
    asyncio.run(steps)


def slowly(monkeypatch: Any, seconds: float = 0.005) -> None:
    """Let the toy model take its time, so that an answer can be met while it runs."""
    decode = ToyModel.decode

    def slow(self: ToyModel, *arguments: Any, **options: Any) -> Any:
        time.sleep(seconds)
        return decode(self, *arguments, **options)

    monkeypatch.setattr(ToyModel, "decode", slow)


def silent_until_stopped(monkeypatch: Any) -> None:
    """Let the toy model make no pass before it is stopped."""
    decode, stop, stopped = ToyModel.decode, EngineLink.stop, threading.Event()

    def waiting(self: ToyModel, *arguments: Any, **options: Any) -> Any:
        assert stopped.wait(60)
        return decode(self, *arguments, **options)

    def stopping(self: EngineLink) -> None:
        stop(self)
        stopped.set()

    monkeypatch.setattr(ToyModel, "decode", waiting)
    monkeypatch.setattr(EngineLink, "stop", stopping)


def gated(monkeypatch: Any) -> threading.Event:
    """Let no model be loaded before an event is set."""
    target, gate = Loader.target, threading.Event()

    def slow(self: Loader) -> LanguageModel:
        assert gate.wait(60)
        return target(self)

    monkeypatch.setattr(Loader, "target", slow)
    return gate


def own_folders(monkeypatch: Any, folder: Path) -> None:
    """Let everything that is kept fall into a folder that is thrown away."""
    for name in ("DATA", "STATE", "CACHE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(folder / name.lower()))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.chdir(folder)
