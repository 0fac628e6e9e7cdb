"""The editor screen: a text with completions at the cursor, the panel beside it, a title above, figures below."""

import time
from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import TextArea

from app.chat_input.keys import EDIT_KEYS
from app.complete.settings import Limits
from app.ui.chat.failures import localspec_error, survived
from app.ui.drawing.key_footer import KeyFooter
from app.ui.editor.actions import ACTIONS
from app.ui.editor.asking import QUICK
from app.ui.editor.file import TextFile
from app.ui.editor.file_screen import FileScreen, MakeEngine
from app.ui.editor.line import WantedLine
from app.ui.editor.status import TitleLine
from app.ui.panel.panel import SpeculationPanel
from app.ui.panel.panel_lines import FOLDS
from app.ui.panel.status import StatusLine
from models.text.fim import FimFormat, no_fim


class EditScreen(FileScreen):
    """The editor screen: keys, layout and event handlers of one file."""

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
        """Begin at line and column `cursor`, counted from 0. `limits` bounds an unasked completion."""
        super().__init__(file, make_engine, limits, now)
        self._cursor = cursor

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        yield TitleLine(id="file")
        with Horizontal(id="middle"):
            yield self.area
            yield SpeculationPanel(id="panel", opened=FOLDS)
        with Vertical(id="bottom"):
            yield WantedLine(id="wanted")
            yield StatusLine(id="status")
            yield KeyFooter(id="footer", compact=True, show_command_palette=False)

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
            self.failure = localspec_error(error)
            self.app.exit(self.failure.exit_code)
            return
        self.flow.ready(ready)
        self.is_ready = True
        self.tell(" ".join(ready.notes))
        if self.is_changed:
            self.ask()

    def takes_key(self, key: str) -> bool:
        """Do what one of the editor's keys is for; False where it is none, or has nothing to do here."""
        name = next((name for name, keys in self.bound.items() if key in keys), None)
        self.leaving = self.leaving and name == "edit.interrupt"
        return name is not None and ACTIONS[EDIT_KEYS[name].action](self)

    @survived
    def action_does(self, name: str) -> None:
        """Do what a key of `app.chat_input.keys` is for, when it was not the text that got it."""
        ACTIONS[name](self)

    def on_resize(self) -> None:
        """Lay out the screen at its new size."""
        self.lay_out()

    @on(TextArea.Changed)
    def _typed(self) -> None:
        area = self.area
        self.completer.edited(*self.here.noted)
        if self.unasked and not area.ghost and self.asked_for != area.moment:
            self.ask()
        self.show_all()

    @on(TextArea.SelectionChanged)
    def _moved(self) -> None:
        # Typing along a proposal moves the cursor too, and must not cancel the running request.
        if not self.area.ghost and self.asked_for != self.area.moment:
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

    def _on_progress(self, name: str, share: float | None) -> None:
        self.flow.loading = (name, share)
        self.figures_changed()
