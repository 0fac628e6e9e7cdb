"""Base class of the editor screen: the state of a file and its display, used by the keys."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from textual.widgets import Footer

from app.chat_input.keys import EDIT_KEYS
from app.complete.completer import Completer, Completion
from app.complete.place import CursorPosition
from app.complete.settings import Limits
from app.engine.runtime.async_engine import AsyncEngine
from app.ui.chat.failures import localspec_error
from app.ui.chat.key_pages import bound_keys
from app.ui.drawing.sparing_screen import SparingScreen
from app.ui.editor.asking import QUICK, Asking
from app.ui.editor.file import TextFile
from app.ui.editor.ghost_area import GhostArea
from app.ui.editor.line import WantedLine
from app.ui.editor.status import TitleLine, file_notes, seconds_words
from app.ui.panel.flow import Flow
from app.ui.panel.panel import SpeculationPanel
from app.ui.panel.status import StatusLine
from app.ui.prompt.pastes import harmless, plain_ends
from models.errors import LocalspecError

_WIDE = 110
"""Least columns of the screen at which the panel is shown by default."""
_TALL = 16
"""Least lines of the screen at which the footer with the keys is shown."""
_DRAW = 0.1
"""Seconds between two drawings of the figures: each slows decoding."""
Engine = tuple[AsyncEngine, Completer]
MakeEngine = Callable[[Flow, Callable[[], object]], Engine]
"""Makes an engine that updates a flow and calls a function after each update."""


class FileScreen(SparingScreen):
    """One file, and one engine that proposes what might come at the cursor.

    `EditScreen` adds the keys, the widgets and the event handlers.
    """

    def __init__(
        self,
        file: TextFile,
        make_engine: MakeEngine,
        limits: Limits = QUICK,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start without a model. `limits` bounds an unasked completion; `now` returns seconds on a steady clock."""
        super().__init__()
        self.file = file
        self.area: GhostArea = GhostArea(file.text, file.path.name, self, id="text")
        self.flow = Flow()
        self.async_engine, self.completer = make_engine(self.flow, self.figures_changed)
        self.asking = Asking(self.completer, self, limits)
        self.failure: LocalspecError | None = None
        """Error that kept the models from loading."""
        self.is_ready = False
        """Whether the models are loaded."""
        self.unasked = True
        """Whether completions are requested at every pause in typing."""
        self.panel_wanted: bool | None = None
        """Whether the panel is shown; None: where there is room."""
        self.leaving = False
        """Whether Ctrl-C was pressed once with nothing selected."""
        self.given_up = False
        """Whether the user chose to lose unsaved changes."""
        self._notice, self._noticed_at = "", -1
        self._now = now
        self._requested_at, self._first_line = 0.0, ""
        self.asked_for = -1
        """Moment of the last request."""
        self._is_due = False

    @property
    def wanted(self) -> WantedLine:
        """The line for a text to find or a place to go to."""
        return self.query_one(WantedLine)

    @property
    def notice(self) -> str:
        """Notice shown until the next key."""
        return self._notice if self._noticed_at == self.area.moment else ""

    @property
    def is_changed(self) -> bool:
        """Whether the text is another than was read or saved."""
        return self.area.is_changed

    @property
    def unsaved(self) -> bytes | None:
        """Unsaved bytes of the file; None if there are none, or the user gave them up."""
        if self.given_up or not self.is_changed:
            return None
        return replace(self.file, text=self.area.text).data

    @property
    def panel_shown(self) -> bool:
        """Whether the panel stands beside the text."""
        return self.size.width >= _WIDE if self.panel_wanted is None else self.panel_wanted

    @property
    def name_for_model(self) -> str:
        """The file's path, as sent to the model and used by the completer."""
        return str(self.file.path)

    @property
    def here(self) -> CursorPosition:
        """Position of the cursor."""
        return CursorPosition.among(self.name_for_model, self.area.document.lines, *self.area.cursor_location)

    @property
    def bound(self) -> Mapping[str, Sequence[str]]:
        """The keys of the editor as they are now, by name."""
        return bound_keys(self, EDIT_KEYS)

    def takes_key(self, key: str) -> bool:  # noqa: ARG002
        """Return whether a key has an action and it was done; this class has no keys."""
        return False

    def taken_in(self, text: str) -> str:
        """Return a text from elsewhere as it can be shown: in signs, which are what they stand for in the file."""
        self.file, shown = self.file.taking_in(plain_ends(text), self.area.document.lines)
        return harmless(shown)

    def lay_out(self) -> None:
        """Show what there is room for."""
        self.query_one(SpeculationPanel).display = self.panel_shown
        self.query_one(Footer).display = self.size.height >= _TALL
        self.show_all()

    def ask(self, *, at_once: bool = False, limits: Limits | None = None) -> None:
        """Request a completion at the cursor if the models are loaded. `limits` replaces the usual limits."""
        if self.is_ready:
            self.asked_for = self.area.moment
            self.asking.ask(at_once=at_once, limits=limits)

    def go(self, line: int, column: int) -> None:
        """Move the cursor to a place, or to the nearest one in the text."""
        self.area.move_cursor(self.area.clamp_visitable((line, column)), center=True)
        self.show_all()

    def close_line(self) -> None:
        """Close the line, and focus the text."""
        self.wanted.display = False
        self.area.focus()

    def place(self) -> tuple[CursorPosition, int]:
        """Return the cursor's place and the moment, and start the time of the first line."""
        self._requested_at, self._first_line = self._now(), ""
        return self.here, self.area.moment

    def receive(self, text: str, moment: int) -> None:
        """Show what is proposed so far, as soon as it has a line."""
        if "\n" in text.lstrip("\n"):
            self._time_first_line()
            self.area.propose(text, moment)

    def completed(self, completion: Completion, moment: int) -> None:
        """Show what is proposed."""
        if completion.text:
            self._time_first_line()
        self.area.propose(completion.text, moment)
        self.tell(self.notice if completion.text or self.notice else "No completion here.")

    def failed(self, error: Exception) -> None:
        """Show what failed."""
        self.tell(localspec_error(error).title)

    def fail(self, error: LocalspecError) -> None:
        """Show what failed, why, and what to do."""
        self.app.notify(str(error), severity="error", markup=False)
        self.tell(error.title)

    def tell(self, notice: str) -> None:
        """Show a notice until the next key."""
        self._notice, self._noticed_at = notice, self.area.moment
        self.show_all()

    def figures_changed(self) -> None:
        """Draw the figures in a moment."""
        if not self._is_due and self.is_mounted:
            self._is_due = True
            # The engine's callback runs outside the app's context; a call through the screen runs in it.
            self.call_later(self.set_timer, _DRAW, self.show_flow)

    def show_all(self) -> None:
        """Draw the lines and the figures."""
        self.show_title()
        self.show_flow()

    def show_title(self) -> None:
        """Draw the line above the text."""
        (row, column), notes = self.area.cursor_location, file_notes(self.file, is_changed=self.is_changed)
        where = f"{row + 1}:{column + 1}"
        self.query_one(TitleLine).show(self.name_for_model, notes, self.flow.model, where)

    def show_flow(self) -> None:
        """Draw the figures."""
        self._is_due = False
        panel = self.query_one(SpeculationPanel)
        if panel.display:
            panel.show(self.flow)
        mode = self.notice or self._first_line or ("" if self.unasked else "completes on request")
        self.query_one(StatusLine).show(self.flow, mode)

    def _time_first_line(self) -> None:
        if not self._first_line:
            self._first_line = f"first line {seconds_words(self._now() - self._requested_at)}"
