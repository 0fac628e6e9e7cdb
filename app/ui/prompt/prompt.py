"""The prompt of the chat: it grows with its text, completes commands and files, and walks the history."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import OptionList, TextArea

from app.chat_input.input_text import typed_again, working_directory
from app.shell.paths import prompts_file
from app.ui.drawing.places import PLACEHOLDER
from app.ui.prompt.completion import Sources, partial_at
from app.ui.prompt.completion_popup import CompletionPopup
from app.ui.prompt.external_editor import EditorFailedError, edited_outside
from app.ui.prompt.held_line import HeldLine
from app.ui.prompt.pastes import Pastes, harmless
from app.ui.prompt.prompt_area import PromptArea
from app.ui.prompt.prompt_history import PromptHistory
from app.ui.prompt.vim_keys import VimKeys
from app.ui.terminal.terminal_keys import know_alt_enter
from models.errors import LocalspecError

_LONGEST_SHOWN = 20_000
_MOST_LINES_SHOWN = 1_000
"""Of a text put in from elsewhere; a longer one is a placeholder too, since every key would be felt in it."""


class Prompt(Widget):
    """The input for messages and commands; `Submitted` carries a sent text."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Send", show=False, id="prompt.submit"),
        Binding("ctrl+j,shift+enter,alt+enter", "newline", "New line", show=False, id="prompt.newline"),
        Binding("tab", "accept", "Complete", show=False, id="prompt.accept"),
        Binding("escape", "back", "Close, or vim's normal mode", show=False, id="prompt.back"),
        Binding("ctrl+g", "editor", "Open in $EDITOR", show=False, id="prompt.editor"),
    ]
    DEFAULT_CSS = "Prompt { width: 1fr; height: auto; }"

    vim: reactive[bool] = reactive(False)
    """Whether vim's normal mode is there; Escape leads to it."""
    mode: reactive[str] = reactive("")
    """Vim's mode, "insert" or "normal"; empty without vim."""

    @dataclass
    class Submitted(Message):
        """The user sent a text."""

        text: str
        """All of it, with what placeholders stand for."""
        pasted: tuple[str, ...] = ()
        """The parts of several lines that were pasted; a sign such as @ in them is more often code than a mention."""
        recalled: bool = False
        """Whether Up led to it, away from what stood in the prompt."""

    class EditorWanted(Message):
        """The user wants the text in an editor; `edit_externally` opens it."""

    def __init__(
        self,
        folder: Path | None = None,
        history: PromptHistory | None = None,
        *,
        commands: Mapping[str, str] | None = None,
        complete_argument: Callable[[str, str], Sequence[str]] | None = None,
        clock: Callable[[], float] = time.monotonic,
        id: str | None = None,  # noqa: A002
    ) -> None:
        """Complete files of `folder`, else of the working directory, and the rest of `Sources`; walk `history`."""
        super().__init__(id=id)
        self.sources = Sources(commands or {}, complete_argument)
        """Sources of completions."""
        self.history = history or PromptHistory(prompts_file())
        """Earlier prompts."""
        self.holds: Callable[[str], bool] = lambda _: False
        """Tells whether a text can't be sent now, and stays."""
        know_alt_enter()
        self._popup = CompletionPopup(folder or working_directory(), self.sources, clock)
        self._area = PromptArea(self, PLACEHOLDER)
        self._vim = VimKeys(self._area)
        self._quiet = False
        self._closed_for: tuple[int, int] | None = None
        """Start of the completion that the user closed; it stays closed there."""
        self._sent: tuple[str, Pastes, str] | None = None
        """The last sent text: as shown, its pastes, and in full."""
        self._held = HeldLine(clock)

    def compose(self) -> ComposeResult:
        """Show the list over the text; it lies above it, whatever is there."""
        yield self._popup
        yield self._area

    @property
    def text(self) -> str:
        """The text as it is shown, with placeholders for long pastes."""
        return self._area.text

    @text.setter
    def text(self, text: str) -> None:
        self.set_text(text)

    @property
    def full_text(self) -> str:
        """The text with what its placeholders stand for."""
        return self._area.pastes.expand(self._area.text)

    def set_text(self, text: str) -> None:
        """Show a text, with the cursor at its end; a very long one as a placeholder."""
        text = harmless(text)
        long = len(text) > _LONGEST_SHOWN or text.count("\n") >= _MOST_LINES_SHOWN
        self._show(self._area.pastes.fold(text) if long else text)

    def replace_text(self, text: str) -> None:
        """Show another text; Up leads to what was typed and not sent."""
        self.history.set_aside(self._whole(self.text), self._whole)
        self.set_text(text)

    def offer(self, text: str) -> bool:
        """Show a text where nothing is typed; else Up leads to it. Return whether it is shown."""
        if not self.text:
            self.set_text(text)
            return True
        self.history.set_aside(text, self._whole)
        return False

    def restore(self) -> None:
        """Put back what was sent last, with its placeholders; before what was typed since, all of it."""
        if self._sent is not None and self.text:
            self.put_before(self._sent[2])
        elif self._sent is not None:
            shown, self._area.pastes, _ = self._sent
            self._show(shown)

    def put_before(self, text: str) -> None:
        """Put lines above what stands in the prompt."""
        below, self._area.pastes = self._whole(self.text), Pastes()
        self.set_text(f"{text}\n{below}")

    def focus(self, scroll_visible: bool = True) -> Self:
        """Focus the text."""
        self._area.focus(scroll_visible)
        return self

    def edit_externally(self, app: App[Any]) -> None:
        """Open the text in the user's editor while the app is suspended; a failure is a notice."""
        before = self.full_text
        after = edited_outside(app, before)
        if isinstance(after, LocalspecError):
            if isinstance(after, EditorFailedError) and after.written:
                self.history.set_aside(after.written, self._whole)
            app.notify(
                " ".join(filter(None, (after.cause, after.hint))), title=after.title, severity="error", markup=False
            )
        elif after != before:
            self.set_text(after)

    def watch_vim(self, vim: bool) -> None:
        """Reset to insert mode."""
        self._vim.insert()
        self.mode = "insert" if vim else ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave Tab and Escape to others where they mean nothing here."""
        if action == "accept":
            return self._popup.is_open
        if action == "back":
            return self._popup.is_open or (self.vim and (self._vim.inserting or self._vim.pending))
        return super().check_action(action, parameters)

    def action_submit(self) -> None:
        """Send the text; with the list open, take what is chosen, unless it is there already."""
        if self._would_change():
            self.action_accept()
        elif self.mode == "normal" or not self._area.continue_line():
            self._submit()

    def action_newline(self) -> None:
        """Begin a new line."""
        self._area.type_text("\n")

    def action_accept(self) -> None:
        """Insert the selected candidate."""
        typed, chosen = self._popup.partial, self._popup.chosen
        if typed is not None and chosen is not None:
            end = self._area.cursor_location
            self._area.replace(chosen.text, (end[0], typed.start), end, maintain_selection_offset=False)

    def action_back(self) -> None:
        """Close the list, else go to normal mode, else drop a command that was begun."""
        if (typed := self._popup.partial) is not None:
            self._closed_for = (self._area.cursor_location[0], typed.start)
            self._popup.close()
        elif self._vim.inserting:
            self._vim.leave_insert()
            self.mode = "normal"
        else:
            self._vim.forget()

    def action_editor(self) -> None:
        """Ask for an editor."""
        self.post_message(self.EditorWanted())

    def takes_key(self, event: events.Key) -> bool:
        """Handle keys of normal mode; a line that arrives after an unsent one begins a new line."""
        if self._held.is_ended_by(event) and self._area.cursor_location == self._area.document.end:
            self._area.type_text("\n")
        key = event.character if event.is_printable else {"ctrl+r": "ctrl+r", "delete": "x"}.get(event.key)
        if not self.vim or self._vim.inserting or key is None:
            return False
        self._vim.press(key)
        self.mode = "insert" if self._vim.inserting else "normal"
        return True

    def steps(self, rows: int) -> bool:
        """Choose in the list, or walk the history from the first line up and from the last line down."""
        if self._popup.is_open:
            self._popup.step(rows)
            return True
        navigator, at = self._area.navigator, self._area.cursor_location
        if not (navigator.is_first_wrapped_line(at) if rows < 0 else navigator.is_last_wrapped_line(at)):
            return False
        text = self.history.older(self.text) if rows < 0 else self.history.newer(self.text)
        if text is not None:
            self.set_text(text)
        return text is not None

    def edited(self) -> None:
        """Complete what is being typed."""
        if not self._quiet:
            self._complete()

    def on_text_area_selection_changed(self, _: TextArea.SelectionChanged) -> None:
        """Look again when the cursor leaves what is completed."""
        if self._popup.is_open:
            self._complete()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Insert the clicked candidate."""
        event.stop()
        self.action_accept()

    def on_descendant_blur(self) -> None:
        """Close the list: keys go elsewhere now."""
        self._popup.close()

    def _whole(self, shown: str) -> str:
        """Return all of a text, as it would be typed: what was pasted in it, and placeholders, end with the prompt."""
        text = self._area.pastes.expand(shown)
        return typed_again(text, self._area.pastes.in_text(text))

    def _show(self, text: str) -> None:
        self._quiet = True
        self._area.load_text(text)
        self._area.move_cursor(self._area.document.end)
        self._quiet = False
        self._closed_for = None
        self._popup.close()

    def _would_change(self) -> bool:
        typed, chosen = self._popup.partial, self._popup.chosen
        if typed is None or chosen is None:
            return False
        row, column = self._area.cursor_location
        return self._area.document[row][typed.start : column] != chosen.text.rstrip()

    def _submit(self) -> None:
        text = self.full_text.rstrip()
        if not text:
            return
        if self.holds(text):
            self._held.hold()
            return
        recalled = self.history.is_walked
        pasted = self._area.pastes.in_text(text)
        whole = typed_again(text, pasted)
        self.history.add(whole, self._whole)
        self._sent = (self.text, self._area.pastes, whole)
        self.post_message(self.Submitted(text, pasted, recalled))
        self._vim.keep_whole(self._area.pastes.expand)
        self._area.pastes = Pastes()
        self._show("")
        self.watch_vim(self.vim)

    def _complete(self) -> None:
        row, column = self._area.cursor_location
        typed = partial_at(self._area.document[row], column, row) if self._area.selection.is_empty else None
        if typed is None:
            self._closed_for = None
        if typed is None or (row, typed.start) == self._closed_for:
            self._popup.close()
        elif typed != self._popup.partial:
            self._popup.offer(typed, self.region.y)
