"""The app around the start screen; it returns what to open."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from textual import on
from textual.app import App
from textual.binding import Binding, BindingType

from app.chat_input.themes import THEMES, theme_for
from app.shell.paths import log_file
from app.ui.start.start_screen import StartScreen
from app.ui.terminal.terminal_guard import leave_at_signals, terminal_to_itself
from app.ui.terminal.terminal_keys import driver_class
from models.errors import LocalspecError


class StartApp(App[tuple[str, ...] | int]):
    """Returns the arguments of localspec that open what was chosen, or an exit code; None: 0."""

    CSS_PATH = "../styles.tcss"
    TITLE = "localspec"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+q", "leave", "Leave", show=False)]

    def __init__(self, theme: str, check: Callable[[], object] = lambda: None) -> None:
        """Take the name of the theme, and a function that is called on another thread after the first picture.

        A LocalspecError that it raises ends the app.
        """
        super().__init__(driver_class=driver_class())
        self.theme = theme_for(theme if theme in THEMES else "auto")
        self.failure: LocalspecError | None = None
        """Error that ended the app."""
        self._check = check

    def on_mount(self) -> None:
        """Open the screen."""
        self.push_screen(StartScreen())
        leave_at_signals(self.exit)
        self.call_after_refresh(threading.Thread(target=self._run_check, daemon=True, name="start-check").start)

    def _run_check(self) -> None:
        try:
            self._check()
        except LocalspecError as error:
            self.failure = error
            # The user may have left meanwhile.
            with suppress(RuntimeError):
                self.call_from_thread(self.exit)

    def action_leave(self) -> None:
        """Leave without a choice."""
        self.exit()

    @on(StartScreen.Chosen)
    def _chosen(self, event: StartScreen.Chosen) -> None:
        if event.row.offer is None:
            self.exit(event.row.arguments)
        else:
            # Not before: the first picture does not wait for it.
            from app.ui.start.fetch_screen import FetchScreen

            self.push_screen(FetchScreen(event.row.offer), self._fetched)

    def _fetched(self, arguments: tuple[str, ...] | None) -> None:
        if arguments:
            self.exit(arguments)
            return
        start = self.screen
        if isinstance(start, StartScreen):
            # Some of it may be on this machine now.
            start.look()


def run_start(theme: str, check: Callable[[], object]) -> Sequence[str] | int:
    """Show the start screen; return the arguments of localspec to go on with, or an exit code.

    Raises LocalspecError if the screen failed, or `check` raised it; see `StartApp`.
    """
    app = StartApp(theme, check)
    with terminal_to_itself():
        chosen: Any = app.run()
    if app.failure is not None:
        raise app.failure
    if app.return_code:
        raise LocalspecError("The screen failed.", hint=f"See {log_file()} for details, and please report it.")
    return 0 if chosen is None else chosen
