"""The chat's first picture, shown before the engine's libraries are imported; what is typed meanwhile is kept."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.events import Event, Key, Paste
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static

from app.chat_input.themes import THEMES, theme_for
from app.ui.chat.app import ChatApp, run_app
from app.ui.drawing.places import PLACEHOLDER, TALL
from app.ui.drawing.turns import keep_turns_short
from app.ui.panel.load_words import load_words
from models.errors import LocalspecError

if TYPE_CHECKING:
    from app.flags.request import Request

_CURSOR = "$input-cursor-foreground on $input-cursor-background"
Read = Callable[[], "Request"]
"""Reads the request of a chat; it may raise LocalspecError."""


class OpeningScreen(Screen[None]):
    """Says what is loaded, in the places of the chat's greeting and prompt."""

    DEFAULT_CSS = """
    OpeningScreen {
        align-horizontal: center;
        & #greeting {
            height: 1fr; max-width: 104; margin: 1 0 0 0; padding: 0 1 0 3; color: $text-muted; text-style: italic;
        }
        & #below { dock: bottom; height: auto; align-horizontal: center; }
        & #typed {
            max-width: 105; height: 1; margin: 1 0 0 0; border-left: outer $accent; padding: 0 1;
            background: $surface; color: $text-disabled;
        }
        & #keys { dock: bottom; height: 1; background: $footer-background; }
    }
    """

    def __init__(self, model: str) -> None:
        """Take the name of the model."""
        super().__init__()
        self._model = model

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        yield Static(load_words(self._model, None, 0), id="greeting", markup=False)
        with Vertical(id="below"):
            yield Static(Content.assemble((PLACEHOLDER[0], _CURSOR), PLACEHOLDER[1:]), id="typed", markup=False)
            yield Static(id="keys")

    def on_resize(self) -> None:
        """Leave out the line of keys where the chat does."""
        self.query_one("#keys").display = self.size.height >= TALL


class OpeningApp(ChatApp):
    """The app of a chat whose request is read after the first picture. Keys wait for the chat, in their order."""

    @dataclass
    class Opened(Message):
        """The request was read, or refused."""

        request: "Request | LocalspecError"

    def __init__(self, model: str, theme: str, read: Read) -> None:
        """Take the names of model and theme for the first picture, and what reads the request, on another thread."""
        super().__init__(None)
        self.theme = theme_for(theme if theme in THEMES else "auto")
        self.other_front = False
        """Whether the request is for another front than the chat; the app has ended then."""
        self._model = model
        self._read = read
        self._held: list[Event] | None = []
        """Keys that were pressed before there was a chat; None: there is one."""

    def open_first(self) -> None:
        """Show the first picture, then read the request."""
        self.push_screen(OpeningScreen(self._model))
        self.call_after_refresh(threading.Thread(target=self._open, daemon=True, name="chat-opening").start)

    async def on_event(self, event: Event) -> None:
        """Keep typed characters until there is a prompt for them."""
        if self._held is not None and isinstance(event, Key | Paste) and not event.is_forwarded:
            self._held.append(event)
        else:
            await super().on_event(event)

    def _open(self) -> None:
        """Read the request and import what a chat needs, on a thread of its own."""
        from app.ui.chat.failures import localspec_error

        opened: Request | LocalspecError
        try:
            opened = self._read()
            import app.ui.chat.chat_screen
            import app.ui.chat.link  # noqa: F401 - imported for the main thread
        except Exception as error:  # one that left this thread would leave the screen waiting
            opened = localspec_error(error)
        self.post_message(self.Opened(opened))

    @on(Opened)
    async def _opened(self, event: Opened) -> None:
        """Replace the first picture by the chat, and hand it what was typed."""
        request = event.request
        if isinstance(request, LocalspecError):
            self.failure = request
            self.exit(request.exit_code)
            return
        self.take(request)
        if request.prompt is not None or request.edit is not None or request.plain:
            self.other_front = True
            self.exit(0)
            return
        keep_turns_short()
        await self.switch_screen(self.made_chat())
        while self._held:
            await super().on_event(self._held.pop(0))
        self._held = None


def run_opening(model: str, theme: str, read: Read, *, quiet: bool) -> "int | Request":
    """Open a chat on a screen at once, and chat; return the exit code, or the request if it is for another front.

    Raises LocalspecError for a request that is refused, and where there is no chat.
    """
    app = OpeningApp(model, theme, read)
    code = run_app(app, quiet=quiet)
    return app.request if app.other_front else code
