"""The app around the start screen; it returns what to open."""

from collections.abc import Sequence
from typing import Any, ClassVar

from textual import on
from textual.app import App
from textual.binding import Binding, BindingType

from app.chat_input.themes import theme_for
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

    def __init__(self, theme: str) -> None:
        """Take the name of the theme."""
        super().__init__(driver_class=driver_class())
        self.theme = theme_for(theme)

    def on_mount(self) -> None:
        """Open the screen."""
        self.push_screen(StartScreen())
        leave_at_signals(self.exit)

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


def run_start(theme: str) -> Sequence[str] | int:
    """Show the start screen; return the arguments of localspec to go on with, or an exit code.

    Raises LocalspecError if the screen failed.
    """
    app = StartApp(theme)
    with terminal_to_itself():
        chosen: Any = app.run()
    if app.return_code:
        raise LocalspecError("The screen failed.", hint=f"See {log_file()} for details, and please report it.")
    return 0 if chosen is None else chosen
