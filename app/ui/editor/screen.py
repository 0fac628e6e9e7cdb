"""The editor: a text with what might come next in it, the panel beside it, and the lines above and below."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Footer, TextArea

from app.chat_input.keys import EDIT_KEYS
from app.complete.completer import Completer, Completion
from app.complete.place import Place
from app.complete.settings import Limits
from app.engine.runtime.async_engine import AsyncEngine
from app.ui.chat.failures import survived, told
from app.ui.chat.key_pages import bound_keys
from app.ui.drawing.sparing_screen import SparingScreen
from app.ui.editor.actions import ACTIONS
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
from models.text.fim import FimFormat, no_fim

_WIDE = 110
"""Columns from which on the panel stands beside the text unasked."""
_TALL = 16
"""Lines from which on the keys have a line of their own."""
_DRAW = 0.1
"""Seconds between two drawings of the figures: each costs the model some time."""
Engine = tuple[AsyncEngine, Completer]
MakeEngine = Callable[[Flow, Callable[[], object]], Engine]
"""Makes an engine that tells a flow what it does, and somebody when it did."""


class EditScreen(SparingScreen):
    """One file, and one engine that proposes what might come at the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key.default, f"does('{key.action}')", key.label or key.help, id=name, show=bool(key.label))
        for name, key in EDIT_KEYS.items()
    ]

    def __init__(
        self,
        file: TextFile,
        cursor: tuple[int, int],
        make_engine: MakeEngine,
        limits: Limits = QUICK,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take a file, the line and column to begin at, what makes the engine, how much to ask for, and a clock."""
        super().__init__()
        self.file = file
        self.area: GhostArea = GhostArea(file.text, file.path.name, self, id="text")
        self.flow = Flow()
        self.async_engine, self.completer = make_engine(self.flow, self.figures_changed)
        self.asking = Asking(self.completer, self, limits)
        self.failure: LocalspecError | None = None
        """Why nothing could be proposed."""
        self.is_ready = False
        """Whether the models are loaded."""
        self.unasked = True
        """Whether is asked whenever typing pauses."""
        self.panel_wanted: bool | None = None
        """Whether the panel is shown; None: where there is room."""
        self.leaving = False
        """Whether Ctrl-C was pressed once with nothing selected."""
        self.given_up = False
        """Whether the person said that what is not saved may be lost."""
        self._notice, self._noticed_at = "", -1
        self._cursor, self._now = cursor, now
        self._asked_at, self._first_line = 0.0, ""
        self._asked_for = -1
        """The last moment that was asked for."""
        self._is_due = False

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        yield TitleLine(id="file")
        with Horizontal(id="middle"):
            yield self.area
            yield SpeculationPanel(id="panel")
        with Vertical(id="bottom"):
            yield WantedLine(id="wanted")
            yield StatusLine(id="status")
            yield Footer(id="footer", compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Load the models; the person may type meanwhile."""
        self.area.focus()
        self.go(*self._cursor)
        self.completer.visited(*self.here.noted)
        self.run_worker(self.load(), exit_on_error=False)

    async def load(self) -> None:
        """Load the models; ends the app where they can't be, or can't fill in."""
        try:
            ready = await self.async_engine.load(self._on_progress)
            if not await self.async_engine.look(lambda worker: FimFormat.of(worker.vocab) is not None):
                raise no_fim(ready.model)
        except Exception as error:
            self.failure = told(error)
            self.app.exit(self.failure.exit_code)
            return
        self.flow.ready(ready)
        self.is_ready = True
        self.tell(" ".join(ready.notes))
        if self.is_changed:
            self.ask()

    @property
    def wanted(self) -> WantedLine:
        """The line in which is said what to find."""
        return self.query_one(WantedLine)

    @property
    def notice(self) -> str:
        """What the person should know until the next key."""
        return self._notice if self._noticed_at == self.area.moment else ""

    @property
    def is_changed(self) -> bool:
        """Whether the text is another than was read or saved."""
        return self.area.is_changed

    @property
    def unsaved(self) -> bytes | None:
        """What is lost if this ends now; None: nothing, or nothing that is missed."""
        if self.given_up or not self.is_changed:
            return None
        return replace(self.file, text=self.area.text).data

    @property
    def panel_shown(self) -> bool:
        """Whether the panel stands beside the text."""
        return self.size.width >= _WIDE if self.panel_wanted is None else self.panel_wanted

    @property
    def name_for_model(self) -> str:
        """The file's name as the model is told it, and by which the completer knows the document."""
        return str(self.file.path)

    @property
    def here(self) -> Place:
        """Where the cursor is."""
        return Place.among(self.name_for_model, self.area.document.lines, *self.area.cursor_location)

    @property
    def bound(self) -> Mapping[str, Sequence[str]]:
        """The keys of the editor as they are now, by name."""
        return bound_keys(self, EDIT_KEYS)

    def takes_key(self, key: str) -> bool:
        """Do what one of the editor's keys is for; False where it is none, or has nothing to do here."""
        name = next((name for name, keys in self.bound.items() if key in keys), None)
        self.leaving = self.leaving and name == "edit.interrupt"
        return name is not None and ACTIONS[EDIT_KEYS[name].action](self)

    def taken_in(self, text: str) -> str:
        """Return a text from elsewhere as it can be shown: in signs, which are what they stand for in the file."""
        self.file, shown = self.file.taking_in(plain_ends(text), self.area.document.lines)
        return harmless(shown)

    @survived
    def action_does(self, name: str) -> None:
        """Do what a key of `app.chat_input.keys` is for, when it was not the text that got it."""
        ACTIONS[name](self)

    def on_resize(self) -> None:
        """Give the panel and the keys room, or take it away."""
        self.lay_out()

    def lay_out(self) -> None:
        """Show what there is room for."""
        self.query_one(SpeculationPanel).display = self.panel_shown
        self.query_one(Footer).display = self.size.height >= _TALL
        self.show_all()

    def ask(self, *, at_once: bool = False, limits: Limits | None = None) -> None:
        """Ask what might come at the cursor, once the models are there; for as much as usual if none says otherwise."""
        if self.is_ready:
            self._asked_for = self.area.moment
            self.asking.ask(at_once=at_once, limits=limits)

    @on(TextArea.Changed)
    def _typed(self) -> None:
        area = self.area
        self.completer.edited(*self.here.noted)
        if self.unasked and not area.ghost and self._asked_for != area.moment:
            self.ask()
        self.show_all()

    @on(TextArea.SelectionChanged)
    def _moved(self) -> None:
        # Typing along what is proposed moves the cursor too, and what is still being said goes on.
        if not self.area.ghost and self._asked_for != self.area.moment:
            self.asking.call_off()
        self.show_title()

    @on(WantedLine.Find)
    def _find(self, event: WantedLine.Find) -> None:
        if not self.area.find(event.text):
            self.tell("Not found.")

    @on(WantedLine.Go)
    def _go(self, event: WantedLine.Go) -> None:
        self.close_line()
        self.go(event.line, event.column)

    def go(self, line: int, column: int) -> None:
        """Go to a place, or to the nearest there is."""
        self.area.move_cursor(self.area.clamp_visitable((line, column)), center=True)
        self.show_all()

    def close_line(self) -> None:
        """Go back to the text."""
        self.wanted.display = False
        self.area.focus()

    def place(self) -> tuple[Place, int]:
        """Return where the cursor is, and the moment; time runs from here."""
        self._asked_at, self._first_line = self._now(), ""
        return self.here, self.area.moment

    def heard(self, text: str, moment: int) -> None:
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
        self.tell(told(error).title)

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
            # What the engine calls knows nothing of the app; what the screen is told later does.
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

    def _on_progress(self, name: str, share: float | None) -> None:
        self.flow.loading = (name, share)
        self.figures_changed()

    def _time_first_line(self) -> None:
        if not self._first_line:
            self._first_line = f"first line {seconds_words(self._now() - self._asked_at)}"
