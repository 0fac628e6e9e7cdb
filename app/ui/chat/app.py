"""The app around the chat screen: terminal, theme, keys, and leaving."""

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.events import Event, Key, Paste
from textual.screen import Screen

from app.chat_input.keys import KEYS
from app.chat_input.themes import theme_for
from app.shell.paths import log_file
from app.shell.safe_text import shown
from app.shell.terminal import Terminal
from app.ui.drawing.turns import keep_turns_short
from app.ui.terminal.terminal_guard import leave_at_signals, terminal_to_itself
from app.ui.terminal.terminal_keys import driver_class
from models.errors import LocalspecError

if TYPE_CHECKING:
    # The first picture does not wait for the engine's libraries: what needs them is imported where it begins.
    from app.engine.runtime.load import LoadPlan
    from app.flags.request import Request
    from app.ui.chat.chat_screen import ChatScreen
    from app.ui.chat.link import Link, Post
    from app.ui.chat.mailbox import Mailbox

MakeLink = Callable[["LoadPlan", "Post"], "Link"]


class ChatApp(App[int]):
    """The Textual app of the chat."""

    CSS_PATH = "../styles.tcss"
    TITLE = "localspec"
    ENABLE_COMMAND_PALETTE = True
    request: "Request"
    mailbox: "Mailbox"
    # The screen has its own way out.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "quit", "Leave", show=False, priority=False),
    ]

    def __init__(
        self, request: "Request | None", make_link: "MakeLink | None" = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        """Start without a screen; None for `request`: `take` comes later.

        `make_link` makes the engine, by default the real one; `now` returns seconds on a steady clock.
        """
        super().__init__(driver_class=driver_class())
        self.chat: ChatScreen | None = None
        self.failure: LocalspecError | None = None
        """Error that prevented the chat."""
        self.last_words: list[str] = []
        """Notes about saving that came after the screen was closed."""
        self.resumed_by = ""
        """Id that continues the conversation after the screen was closed; "": nothing was saved."""
        self._make_link = make_link
        self._now = now
        if request is not None:
            self.take(request)

    def take(self, request: "Request") -> None:
        """Take the request of the chat."""
        from app.ui.chat.mailbox import Mailbox

        self.request, self.mailbox = request, Mailbox(self._wake)
        self.theme = theme_for(request.screen.theme)
        self.set_keymap(request.screen.keys)

    def on_mount(self) -> None:
        """Open the first screen; a signal ends it in order."""
        self.open_first()
        leave_at_signals(self.exit)

    def open_first(self) -> None:
        """Open the chat."""
        self.push_screen(self.made_chat())

    def made_chat(self) -> "ChatScreen":
        """Return the screen of the chat, with its engine."""
        from app.ui.chat.chat_screen import ChatScreen
        from app.ui.chat.link import EngineLink

        link = (self._make_link or EngineLink)(self.request.plan, self.mailbox.put)
        self.chat = ChatScreen(self.request, link, self.mailbox, self._now)
        return self.chat

    def on_unmount(self) -> None:
        """Write down what is left, and free the models."""
        if self.chat is None:
            # The screen could not be made; `run` reports the error after the app has ended.
            return
        self.failure = self.chat.failure
        record = self.chat.dialogue.record
        record.close()
        self.last_words = record.notes()
        saved = record.conversation is not None and not record.private and bool(record.branch())
        self.resumed_by = record.conversation.id if record.conversation is not None and saved else ""
        self.chat.link.leave(record.key)
        self.chat.link.close()

    def exit(self, *result: Any, **details: Any) -> None:
        """Leave in order, by a key, a command or a signal.

        The model stops first: quick passes would otherwise leave no processor time to close the screen and to save.
        After a terminal is closed, the system kills a process that is still running within a few seconds.
        """
        if self.chat is not None:
            self.chat.link.stop()
        super().exit(*result, **details)

    async def action_quit(self) -> None:
        """Leave in order, also by Textual's own keys."""
        self.exit(0)

    def action_command_palette(self) -> None:
        """Open the palette, also by Textual's own key."""
        if self.chat is not None:
            from app.ui.chat.palette import find_models

            find_models(self.chat)
        super().action_command_palette()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Yield what the palette offers: actions of keys, slash commands, settings, themes and models."""
        chat = self.chat
        if chat is not None and screen is chat:
            from app.ui.chat.key_pages import bound_keys
            from app.ui.chat.palette import palette_offers

            bound = bound_keys(chat, KEYS)
            for name, key in KEYS.items():
                keys = ", ".join(bound.get(name, ()))
                yield SystemCommand(key.help, f"key: {keys}", partial(chat.action_does, key.action))
            yield from (SystemCommand(*offer) for offer in palette_offers(chat))

    async def on_event(self, event: Event) -> None:
        """Pass typed characters to the prompt in their order, wherever the focus is."""
        if isinstance(event, Key | Paste) and not event.is_forwarded and self.chat is not None:
            from app.ui.dialogs.sheet import SheetScreen
            from app.ui.prompt.typed_text import meet_typing

            if isinstance(self.screen, SheetScreen) and (isinstance(event, Paste) or event.is_printable):
                # It may have opened while the user types.
                self.pop_screen()
            if self.screen is self.chat:
                meet_typing(self.chat, event)
        await super().on_event(event)

    def notify(self, message: str, *, title: str = "", **options: Any) -> None:
        """Show a notice, with a sign for what a terminal would obey."""
        super().notify(shown(message), title=shown(title), **options)

    def _wake(self) -> None:
        # After the screen is gone the engine may still have a word to say.
        if self.is_running and self.chat is not None:
            from app.ui.chat.messages import MailCame

            self.chat.post_message(MailCame())


def run_screen(request: "Request") -> int:
    """Chat on a screen until the user leaves; return the exit code. Raises LocalspecError where there is no chat."""
    app = ChatApp(request)
    keep_turns_short()
    return run_app(app, quiet=request.quiet)


def run_app(app: ChatApp, *, quiet: bool) -> int:
    """Run the app of a chat and tell what is left to say; return the exit code. Raises as `run_screen`."""
    with terminal_to_itself():
        code = app.run()
    for note in app.last_words:
        Terminal().warn(note)
    if app.failure is not None:
        raise app.failure
    if app.resumed_by:
        Terminal(quiet=quiet).tell(f"To continue this conversation: localspec run --resume {app.resumed_by}")
    if not isinstance(code, int):
        raise LocalspecError("The screen failed.", hint=f"See {log_file()} for details, and please report it.")
    return code
