"""The text area of the prompt: keys in typed order, short forms of pastes, height by its text."""

from typing import Any, ClassVar, Protocol

from rich.text import Text
from textual import events
from textual.actions import SkipAction
from textual.binding import Binding, BindingType
from textual.css.scalar import Scalar
from textual.screen import Screen
from textual.strip import Strip
from textual.widgets import TextArea

from app.ui.prompt.pastes import Pastes, harmless
from app.ui.terminal.pasted_escapes import released
from app.ui.terminal.terminal_keys import key_name

_MOST_ROWS = 10


class Keeper(Protocol):
    """The owner of the area: it takes keys first, and is called at every edit."""

    def takes_key(self, event: events.Key) -> bool:
        """Return whether a key was handled and is no text."""

    def steps(self, rows: int) -> bool:
        """Move up (-1) or down (1) in the list or the history; return False if the cursor moves in the text."""

    def edited(self) -> None:
        """Handle an edit of the text."""


class PromptArea(TextArea):
    """A text area that grows with its text and passes keys to its keeper first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "cursor_up", "Line above, earlier prompt", show=False, id="prompt.up"),
        Binding("down", "cursor_down", "Line below, later prompt", show=False, id="prompt.down"),
        # Textual's own, Ctrl-Y, copies the last answer. A terminal that knows no Shift with Ctrl sends Ctrl-Z instead.
        Binding("ctrl+shift+z", "redo", "Redo", show=False, id="prompt.redo"),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"prompt-area--paste"}
    DEFAULT_CSS = """
    PromptArea {
        height: auto;
        max-height: 1;
        border: none;
        border-left: outer $border-blurred;
        padding: 0 1;
        scrollbar-size-vertical: 1;
        &:focus { border: none; border-left: outer $accent; }
        & .prompt-area--paste { color: $text-accent; text-style: bold; }
    }
    """

    def __init__(self, keeper: Keeper, placeholder: str) -> None:
        super().__init__(highlight_cursor_line=False, placeholder=placeholder)
        # Textual's own select text. When the chat's keys of that name come while a dialog closes, the next letter would
        # replace all of it.
        for key in ("f6", "f7"):
            self._bindings.key_to_bindings.pop(key, None)
        self.pastes = Pastes()
        """Pasted texts behind the placeholders."""
        self._keeper = keeper

    def on_mount(self) -> None:
        """Follow the screen's height: a widget of unchanged size gets no resize event."""
        self.screen.screen_layout_refresh_signal.subscribe(self, self._fit)

    def on_resize(self) -> None:
        """Keep the cursor in sight when there is less room."""
        self.call_after_refresh(self.scroll_cursor_visible)

    def render_line(self, y: int) -> Strip:
        """Return a line, an empty one where there is no room: Textual would end the app over the placeholder."""
        return super().render_line(y) if self.content_size.width else Strip([])

    def get_line(self, line_index: int) -> Text:
        """Return a line with its placeholders marked."""
        line = super().get_line(line_index)
        if spans := self.pastes.placeholders(line.plain):
            style = self.get_component_rich_style("prompt-area--paste", partial=True)
            for start, end in spans:
                line.stylize(style, start, end)
        return line

    def update_suggestion(self) -> None:
        """Report an edit to the keeper, before the next key is handled."""
        self._keeper.edited()

    def type_text(self, text: str) -> None:
        """Put a text in place of what is selected, as keys would."""
        self._replace_via_keyboard(text, *self.selection)

    def take_paste(self, text: str) -> None:
        """Put in a pasted text, or a placeholder for a long one."""
        self.type_text(self.pastes.take(harmless(text)))

    def continue_line(self) -> bool:
        """Turn a backslash before the cursor, at a line's end, into a new line; False where there is none."""
        row, column = self.cursor_location
        line = self.document[row]
        if column != len(line) or not line.endswith("\\"):
            return False
        self.replace("\n", (row, column - 1), (row, column), maintain_selection_offset=False)
        return True

    async def _on_key(self, event: events.Key) -> None:
        # Bindings are looked up by the app, after keys that were typed later have reached this widget: text typed
        # ahead of Enter's turn would be sent with it. So what is bound here is run here.
        if self._keeper.takes_key(event) or (not event.is_printable and await self._run_bound(key_name(event.key))):
            event.stop()
            event.prevent_default()

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self.take_paste(released(event.text))
        self.focus()

    async def _run_bound(self, key: str) -> bool:
        bound = self.screen.active_bindings.get(key)
        if bound is None or not bound.enabled or bound.node not in (self, self.parent):
            return False
        return await self.app.run_action(bound.binding.action, bound.node)

    def action_cursor_up(self, select: bool = False) -> None:
        """Go a line up, or to the prompt before."""
        if select or not self._keeper.steps(-1):
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        """Go a line down, or to the prompt after."""
        if select or not self._keeper.steps(1):
            super().action_cursor_down(select)

    def action_cursor_page_up(self) -> None:
        """Move a page up; if all text is visible, leave the key to the conversation."""
        self._leave_page_keys()
        super().action_cursor_page_up()

    def action_cursor_page_down(self) -> None:
        """Move a page down; if all text is visible, leave the key to the conversation."""
        self._leave_page_keys()
        super().action_cursor_page_down()

    def action_cursor_line_start(self, select: bool = False) -> None:
        """Go to the beginning of the line; with no text at all, the key is left to the conversation."""
        if not self.text:
            raise SkipAction
        super().action_cursor_line_start(select)

    def action_cursor_line_end(self, select: bool = False) -> None:
        """Go to the end of the line; with no text at all, the key is left to the conversation."""
        if not self.text:
            raise SkipAction
        super().action_cursor_line_end(select)

    def action_delete_left(self) -> None:
        """Delete the character before the cursor, or all of a placeholder."""
        row, column = self.cursor_location
        starts = [start for start, end in self.pastes.placeholders(self.document[row]) if end == column]
        if starts and self.selection.is_empty:
            self._delete_via_keyboard((row, starts[0]), (row, column))
        else:
            super().action_delete_left()

    def action_delete_right(self) -> None:
        """Delete the character under the cursor; with no text at all, the key is left to the app."""
        if not self.text:
            raise SkipAction
        super().action_delete_right()

    def action_cut(self) -> None:
        """Cut what is selected, or the line, with what its placeholders stand for: they end with the prompt."""
        start, end = self.selection
        cut = self._delete_cursor_line() if start == end else self._delete_via_keyboard(start, end)
        if cut is not None:
            self.app.copy_to_clipboard(self.pastes.expand(cut.replaced_text))

    def action_paste(self) -> None:
        """Paste what was copied in the app."""
        self.take_paste(self.app.clipboard)

    def _fit(self, screen: Screen[Any]) -> None:
        """Limit the height to ten rows and half the screen."""
        rows = max(1, min(_MOST_ROWS, screen.size.height // 2))
        if self.styles.max_height != Scalar.from_number(rows):
            self.styles.max_height = rows

    def _leave_page_keys(self) -> None:
        if self.virtual_size.height <= self.content_size.height:
            raise SkipAction
