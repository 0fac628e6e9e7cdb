"""The list of completion candidates that opens above the prompt."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option
from textual.worker import Worker, WorkerState

from app.chat_input.folder_files import candidates
from app.shell.safe_text import one_line
from app.ui.prompt.completion import Candidate, Partial, Sources, nearest_first

_MOST_ROWS = 8
_LISTED_FOR = 30.0
"""Seconds after which the files are listed anew."""
_LISTING = "prompt.files"


class CompletionPopup(OptionList, can_focus=False):
    """A list that never takes the focus: the keys go on to the prompt, which moves the choice."""

    DEFAULT_CSS = """
    CompletionPopup {
        display: none;
        overlay: screen;
        constrain: inside inside;
        offset-y: -100%;
        width: 100%;
        max-width: 90;
        height: auto;
        border: none;
        padding: 0;
        background: $panel;
        scrollbar-size-vertical: 1;
        text-wrap: nowrap;
        text-overflow: ellipsis;
        & > .option-list--option-highlighted {
            color: $block-cursor-foreground;
            background: $block-cursor-background;
            text-style: $block-cursor-text-style;
        }
    }
    """

    def __init__(self, folder: Path, sources: Sources, clock: Callable[[], float]) -> None:
        super().__init__()
        self.partial: Partial | None = None
        """Typed text that the candidates complete; None while closed."""
        self._folder = folder
        self._sources = sources
        self._clock = clock
        self._candidates: list[Candidate] = []
        self._width = 0
        self._marked = 0
        self._listed_at: float | None = None
        self._waiting: tuple[Partial, int] | None = None

    @property
    def is_open(self) -> bool:
        """Return whether the list is open."""
        return self.partial is not None

    @property
    def chosen(self) -> Candidate | None:
        """Return the candidate that would be taken."""
        return None if self.highlighted is None or not self.is_open else self._candidates[self.highlighted]

    def offer(self, typed: Partial, room: int) -> None:
        """Show what a text could become, in at most `room` rows, the first one chosen; close when there is nothing."""
        if typed.kind == "file":
            self._list_files()
        found = self._sources.find(typed)
        if not found or room < 1:
            self.close()
        else:
            self._show(found)
            self.partial = typed
            self.styles.max_height = min(_MOST_ROWS, room)
        self._waiting = (typed, room)

    def close(self) -> None:
        """Close the list."""
        self.partial = self._waiting = None
        self.display = False

    def step(self, rows: int) -> None:
        """Choose the next candidate, or the one before; the first follows the last."""
        if self.highlighted is not None:
            self.highlighted = (self.highlighted + rows) % self.option_count

    def watch_highlighted(self, highlighted: int | None) -> None:
        """Mark the chosen row with a sign besides its colour."""
        if highlighted is not None:
            for index in {self._marked, highlighted} & set(range(self.option_count)):
                self.replace_option_prompt_at_index(
                    index, _row(self._candidates[index], self._width, index == highlighted)
                )
            self._marked = highlighted
        super().watch_highlighted(highlighted)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Store the listed files, and offer them if the prompt still waits for them."""
        if event.worker.name == _LISTING and event.state is WorkerState.SUCCESS:
            self._sources.files = event.worker.result or []
            if self._waiting is not None and self._waiting[0].kind == "file":
                self.offer(*self._waiting)

    def _show(self, found: list[Candidate]) -> None:
        self._candidates = found
        self._width = max(len(candidate.shown) for candidate in found)
        self.set_options(Option(_row(candidate, self._width)) for candidate in found)
        self.highlighted = 0
        self.display = True

    def _list_files(self) -> None:
        """Start listing files, unless a recent list exists."""
        now = self._clock()
        if self._listed_at is None or now - self._listed_at > _LISTED_FOR:
            self._listed_at = now
            self.run_worker(partial(_listed, self._folder), name=_LISTING, thread=True, exit_on_error=False)


def _listed(folder: Path) -> list[str]:
    return nearest_first(candidates(folder))


def _row(candidate: Candidate, width: int, chosen: bool = False) -> Content:
    """Return a row: the name with what was typed marked, and what it is for."""
    sign = Content("▸ " if chosen else "  ")
    name = Content(candidate.shown)
    for place in candidate.matched:
        name = name.stylize("bold underline", place, place + 1)
    if not candidate.help:
        return sign + name
    return (
        sign
        + name
        + Content(" " * (width - len(candidate.shown) + 2))
        + Content.styled(one_line(candidate.help), "dim")
    )
