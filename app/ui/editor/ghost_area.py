"""The text area of the editor: coloured code with the proposal at the cursor, faint and slanted.

What is proposed is no part of the document: it is drawn between its lines, for the exact text and cursor that it was
made for, and gone, or shorter, with the next key.
"""

from collections.abc import Callable
from typing import Protocol

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual._cells import cell_width_to_column_index
from textual.document._document import Document, EditResult, Location, Selection
from textual.document._edit import Edit
from textual.geometry import Offset, Region, Size
from textual.strip import Strip

from app.ui.editor.colours import token_style
from app.ui.editor.file import LONGEST_LINE
from app.ui.editor.ghost import Proposal
from app.ui.editor.indent import IndentedArea
from app.ui.editor.line import find_next
from app.ui.terminal.pasted_escapes import released
from app.ui.terminal.terminal_keys import key_name

_FAINT = Style(dim=True, italic=True)
"""Slanted too: where no colour is, nothing may look fainter."""
_MORE = "…"
"""In the last cell of a line that goes on beyond it."""


class Keeper(Protocol):
    """The owner of the area, which takes keys first, in typed order."""

    def takes_key(self, key: str) -> bool:
        """Return whether a key is one of the editor's, and handled."""

    def taken_in(self, text: str) -> str:
        """Return a text from elsewhere as it can be shown here."""


class GhostArea(IndentedArea):
    """A text area for code that can show what might come next."""

    DEFAULT_CSS = """
    GhostArea {
        border: none;
        padding: 0;
        scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 1;
        &:focus { border: none; }
    }
    """

    def __init__(self, text: str, filename: str, keeper: Keeper, *, id: str | None = None) -> None:  # noqa: A002
        """Take the text, the filename that decides the language, and the keeper that takes keys first."""
        self._proposal = Proposal()
        self._follows = False
        self.moment = 0
        """A number for the text and the cursor as they are now."""
        super().__init__(text, filename, id=id)
        self._keeper = keeper

    @property
    def ghost(self) -> str:
        """Rest of the proposal at the cursor; "": none."""
        return self._proposal.ghost

    def propose(self, text: str, moment: int) -> bool:
        """Show what might come at the cursor; False for a text that was made for another moment, and does not fit."""
        if not self.selection.is_empty:
            return False
        before = self.ghost
        fits = self._proposal.take(self._keeper.taken_in(text), moment, self.moment)
        if fits or self.ghost != before:
            self._ghost_changed()
        if fits:
            self._show_below()
        return fits

    def dismiss(self) -> bool:
        """Remove the proposal; return False if there was none."""
        had = bool(self.ghost)
        # What is still being said to it must not bring it back.
        self.moment += 1
        self._proposal.clear()
        if had:
            self._ghost_changed()
        return had

    def accept(self, part: Callable[[str], str] = lambda ghost: ghost) -> bool:
        """Put a part of what is proposed into the text, as one step to undo; False when nothing is."""
        if not (taken := part(self.ghost)):
            return False
        self.history.checkpoint()
        self._replace_via_keyboard(taken, *self.selection)
        self.history.checkpoint()
        return True

    def select_between(self, start: int, end: int) -> None:
        """Select the text between two places in it, and bring it into sight."""
        first, last = map(self._written.get_location_from_index, (start, end))
        self.selection = Selection(first, last)
        self.scroll_cursor_visible(center=True)

    def find(self, wanted: str) -> bool:
        """Select the next place behind the cursor that has a text, and bring it into sight; False where none has."""
        found = find_next(self.text, wanted, self._written.get_index_from_location(max(self.selection)))
        if found is not None:
            self.select_between(found, found + len(wanted))
        return found is not None

    @property
    def _written(self) -> Document:
        assert isinstance(self.document, Document), "without tree-sitter there is no other kind"
        return self.document

    def edit(self, edit: Edit) -> EditResult:
        """Change the text; what is typed along what is proposed leaves the rest of it."""
        at_cursor = edit.from_location == edit.to_location == self.cursor_location and self.selection.is_empty
        self._follows = at_cursor and self._proposal.follow(edit.text)
        try:
            return super().edit(edit)
        finally:
            self._follows = False

    def update_suggestion(self) -> None:
        """Handle a change of the text; called at each one."""
        self._moved()

    def get_line(self, line_index: int) -> Text:
        """Return a line in its colours, with what is proposed in it."""
        line = super().get_line(line_index)
        if not self.ghost or line_index != self.cursor_location[0]:
            return line
        first, *below = self.ghost.split("\n")
        column = self.cursor_location[1]
        behind = Text() if below else line[column:]
        return Text.assemble(line[:column], (first, _FAINT), behind, end="", no_wrap=True)

    def render_line(self, y: int) -> Strip:
        """Return a line of the screen: of the document, or of what is proposed below the cursor's."""
        if self._theme.cursor_line_style is not None:
            # Of the line's own look only what is behind it: its text keeps its colours.
            self._theme.cursor_line_style = Style(bgcolor=self._theme.cursor_line_style.bgcolor)
        extra, below = self._extra, y + self.scroll_offset.y - self._cursor_offset[1]
        if below < 0 or not self.ghost:
            return super().render_line(y)
        if below > extra:
            return super().render_line(y - extra)
        return self._marked(self._ghost_row(below) if below else super().render_line(y), below)

    def get_target_document_location(self, event: events.MouseEvent) -> Location:
        """Return where a click goes; one on what is proposed goes to the cursor."""
        top, left = self.scroll_offset.y - self.gutter.top, self.scroll_offset.x - self.gutter.left
        x, below = event.x + left - self.gutter_width, event.y + top - self._cursor_offset[1]
        if not self.ghost or below < 0:
            return super().get_target_document_location(event)
        if below > self._extra:
            return self.wrapped_document.offset_to_location(Offset(x, event.y + top - self._extra))
        before, ghost, behind = self._parts(below)
        row, column = self.cursor_location
        clicked = cell_width_to_column_index(before + ghost + behind, max(0, x), self.indent_width)
        return row, clicked if clicked < len(before) else column + max(0, clicked - len(before + ghost))

    @property
    def _extra(self) -> int:
        """Lines that what is proposed takes below the cursor's."""
        return self.ghost.count("\n")

    def _parts(self, number: int) -> tuple[str, str, str]:
        """Return what a row with what is proposed, the cursor's being 0, has of the line, of that, and of the line."""
        row, column = self.cursor_location
        line = self.document[row]
        before, behind = line[:column] * (not number), line[column:] * (number == self._extra)
        return before, self.ghost.split("\n")[number], behind

    def _cells(self, number: int) -> int:
        """Return how wide a row with what is proposed is, all of it."""
        return cell_len("".join(self._parts(number)).expandtabs(self.indent_width))

    def _ghost_row(self, number: int) -> Strip:
        """Return a line of what is proposed, from 1 below the cursor's; behind the last comes what is behind it."""
        row, column = self.cursor_location
        # A style of its own, and not that of the whole: a text without parts is drawn without any.
        line = Text.assemble((self.ghost.split("\n")[number], _FAINT), end="", no_wrap=True)
        if number == self._extra:
            behind = Text(self.document[row], end="")
            for start, end, kind in self._spans(row):
                behind.stylize(token_style(self._code_theme, kind), start, end)
            line.append_text(behind[column:])
        line.expand_tabs(self.indent_width)
        left, width = self.scroll_offset.x, self.scrollable_content_region.width - self.gutter_width
        cells = Strip(line.render(self.app.console), line.cell_len).crop(left, left + width)
        numbers = Strip([Segment(" " * self.gutter_width, self._theme.gutter_style)], self.gutter_width)
        strip = Strip.join([numbers, cells.extend_cell_length(width)])
        return strip.apply_style(self._theme.base_style or self.rich_style)

    def _marked(self, strip: Strip, number: int) -> Strip:
        """Return a row of what is proposed with a mark in its last cell, if more of it is beyond the edge."""
        edge = self.scrollable_content_region.width
        if self.gutter_width + self._cells(number) - self.scroll_offset.x <= edge:
            return strip
        # In the style of what it hides: that may be the cursor.
        style = next((segment.style for segment in strip.crop(edge - 1, edge)), None)
        return Strip.join([strip.crop(0, edge - 1), Strip([Segment(_MORE, style)], 1), strip.crop(edge)])

    def _refresh_size(self) -> None:
        """Make room for what is proposed, but no room to scroll to the right for it."""
        width, height = self.document.get_size(self.indent_width)
        ghost = max(map(self._cells, range(self._extra + 1))) if self.ghost else 0
        ghost = min(ghost, self.scrollable_content_region.width - self.gutter_width - 1)
        self.virtual_size = Size(max(width, ghost) + self.gutter_width + 1, height + self._extra)
        self._refresh_scrollbars()

    def _ghost_changed(self) -> None:
        self.match_cursor_bracket = not self.ghost
        self._refresh_size()
        self.refresh()

    def _show_below(self) -> None:
        """Scroll until what is proposed is seen, or as much of it as half of the area has room for."""
        y = self._cursor_offset[1]
        rows = min(self._extra + 1, max(1, self.scrollable_content_region.height // 2))
        self.scroll_to_region(Region(self.scroll_offset.x, y, 1, rows), animate=False, force=True)

    def _moved(self) -> None:
        if self._follows:
            self.moment += 1
            self._ghost_changed()
        else:
            self.dismiss()

    def _watch_selection(self, previous_selection: Selection, selection: Selection) -> None:
        super()._watch_selection(previous_selection, selection)
        if previous_selection != selection:
            self._moved()

    async def _on_key(self, event: events.Key) -> None:
        # Bindings are looked up by the app, after keys that were typed later have reached this widget: Tab would take
        # what was proposed before the letter that came before it. So what is bound is run here.
        if self._keeper.takes_key(key_name(event.key)) or (not event.is_printable and await self._run_bound(event.key)):
            event.stop()
            event.prevent_default()
        elif event.key == "enter":
            event.stop()
            event.prevent_default()
            self.begin_line()

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        text = self._keeper.taken_in(released(event.text))
        if (longest := max(map(len, text.split("\n")))) > LONGEST_LINE:
            message = f"Not pasted: a line has {longest:,} characters; {LONGEST_LINE:,} is the most."
            self.app.notify(message, severity="warning", markup=False)
            return
        self._replace_via_keyboard(text, *self.selection)

    async def _run_bound(self, key: str) -> bool:
        bound = self.screen.active_bindings.get(key)
        if bound is None or not bound.enabled or bound.node is not self:
            return False
        return await self.app.run_action(bound.binding.action, self)
