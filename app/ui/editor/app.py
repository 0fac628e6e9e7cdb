"""The app around the editor: terminal, theme, keys, and leaving."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from textual import on
from textual.app import App
from textual.binding import Binding, BindingType
from textual.events import DescendantFocus
from textual.widgets import TextArea
from textual.widgets._toast import ToastRack

from app.chat_input.themes import theme_for
from app.complete.completer import Completer
from app.complete.settings import CompletionSettings, Limits
from app.engine.runtime.load import TOY, TOY_FIM, LoadPlan
from app.flags.request import Request, ScreenSettings
from app.shell.paths import log_file, unsaved_folder
from app.shell.safe_text import shown
from app.shell.terminal import Terminal
from app.ui.drawing.turns import keep_turns_short
from app.ui.editor.asking import QUICK
from app.ui.editor.file import TextFile, open_file, parse_place
from app.ui.editor.file_screen import Engine, MakeEngine
from app.ui.editor.screen import EditScreen
from app.ui.editor.watched_engine import WatchedEngine
from app.ui.editor.writing import write_aside
from app.ui.panel.flow import Flow
from app.ui.terminal.terminal_guard import leave_at_signals, terminal_to_itself
from app.ui.terminal.terminal_keys import driver_class
from app.ui.transcript.code_lines import warm_up
from models.errors import LocalspecError
from models.gguf.model_info import model_info
from models.library.catalog import find_model
from models.text.fim import no_fim


class EditApp(App[int]):
    """The app around the editor."""

    CSS_PATH = "../styles.tcss"
    TITLE = "localspec"
    ENABLE_COMMAND_PALETTE = False
    # The screen has its own way out.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "quit", "Leave", show=False, priority=False),
    ]

    def __init__(
        self,
        file: TextFile,
        cursor: tuple[int, int],
        make_engine: MakeEngine,
        settings: ScreenSettings,
        limits: Limits = QUICK,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Open a file at a line and column, both from 0. `limits` bounds an unasked completion; `now` is a clock."""
        super().__init__(driver_class=driver_class())
        self.editor = EditScreen(file, cursor, make_engine, limits, now)
        self.unsaved: bytes | None = None
        """Unsaved bytes after an end without a question to the user."""
        self.theme = theme_for(settings.theme)
        self.set_keymap(settings.keys)

    def on_mount(self) -> None:
        """Open the editor; a signal ends it in order."""
        self.push_screen(self.editor)
        leave_at_signals(self.exit)

    async def on_unmount(self) -> None:
        """Keep the unsaved bytes, and cancel the running request."""
        self.unsaved = self.editor.unsaved
        await self.editor.asking.close()

    async def action_quit(self) -> None:
        """Leave in order, also by Textual's own keys."""
        self.exit(0)

    def notify(self, message: str, *, title: str = "", **options: Any) -> None:
        """Show a notice, with a sign for what a terminal would obey."""
        super().notify(shown(message), title=shown(title), **options)

    @on(TextArea.SelectionChanged)
    @on(DescendantFocus)
    def _make_way(self) -> None:
        """Show notices in the half of the screen without the cursor."""
        area = self.editor.area
        above = area.has_focus and area.cursor_screen_offset.y < self.size.height // 2
        self.editor.query(ToastRack).set_class(above, "-low")


def run_editor(request: Request, named: str) -> int:
    """Edit FILE, FILE:LINE or FILE:LINE:COLUMN until the person leaves; return the exit code.

    Raises LocalspecError for a file that can't be edited, and for a model that can't be loaded, or can't fill in.
    """
    path, *cursor = parse_place(named)
    file = open_file(path)
    _check_fills_in(request.plan)
    limits = Limits() if request.settings.max_tokens is None else Limits(tokens=request.settings.max_tokens)
    app = EditApp(file, (cursor[0], cursor[1]), partial(engine_for, request), request.screen, limits)
    warm_up()
    keep_turns_short()
    with terminal_to_itself():
        code = app.run()
        # First: freeing models during a load may take ten seconds, and a supervisor may kill the process sooner.
        note = _keep_unsaved(app.unsaved, path)
        # After the screen has closed, a slow end is not seen.
        app.editor.async_engine.close()
    if note:
        Terminal().warn(note)
    if app.editor.failure is not None:
        raise app.editor.failure
    if not isinstance(code, int):
        raise LocalspecError("The screen failed.", hint=f"See {log_file()} for details, and please report it.")
    return code


def engine_for(request: Request, flow: Flow, changed: Callable[[], object]) -> Engine:
    """Return the engine of a request. It updates a flow and calls `changed` after each update."""
    async_engine = WatchedEngine(request.plan, flow, time.monotonic, changed)
    chat = request.settings
    settings = CompletionSettings(
        sampling=chat.sampling,
        draft_length=chat.draft_length,
        adapt=chat.adapt,
        accept=chat.accept,
        allow_rounding=chat.allow_rounding,
    )
    return async_engine, Completer(async_engine, settings)


def _check_fills_in(plan: LoadPlan) -> None:
    """Refuse, before anything is loaded, a model whose file says that it can't fill in."""
    if plan.model == TOY:
        raise no_fim(TOY)
    if plan.model != TOY_FIM and not (info := model_info(find_model(plan.model))).fim:
        raise no_fim(info.path.stem)


def _keep_unsaved(unsaved: bytes | None, path: Path) -> str:
    """Write unsaved bytes to another file, and return a note about it; "": nothing was unsaved."""
    if unsaved is None:
        return ""
    kept = write_aside(unsaved_folder(), path.name, unsaved)
    return f"the unsaved changes of {path} are in {kept}" if kept else f"{path} was not saved"
