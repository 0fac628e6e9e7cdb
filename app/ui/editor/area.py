"""A text area for code whose cost per key depends on changed rows, not on the text's length."""

from collections.abc import Hashable, Iterable, Sequence
from itertools import islice
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.document._document import EditResult, Location
from textual.document._document_navigator import DocumentNavigator
from textual.document._edit import Edit
from textual.strip import Strip
from textual.widgets import TextArea

from app.ui.editor.colours import COLOURED, Colours, Span, token_style
from app.ui.editor.document import LongDocument, Unwrapped

BRACKET_REACH = 10_000
"""Characters within which a bracket's partner is looked for: one that has none would have all of the text read."""
_KEPT_ROWS = 1_000


class CodeArea(TextArea):
    """A text area that colours code, wraps no line, and knows whether its text was changed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+home", "go_to_end(False)", "First line", show=False, id="text.first"),
        Binding("ctrl+end", "go_to_end(True)", "Last line", show=False, id="text.last"),
        Binding("ctrl+shift+home", "go_to_end(False, True)", "Select to the first line", show=False),
        Binding("ctrl+shift+end", "go_to_end(True, True)", "Select to the last line", show=False),
        Binding("ctrl+shift+z", "redo", "Redo", show=False, id="text.redo"),
        # Textual's own, which mean something else in the chat.
        Binding("f6,f7", "pass_key", show=False),
    ]

    def __init__(self, text: str, filename: str, *, id: str | None = None) -> None:  # noqa: A002
        """Take the text, and the name that tells its language."""
        self._colours = Colours(filename)
        self._strips: LRUCache[Hashable, Strip] = LRUCache(_KEPT_ROWS)
        self._kept: list[str] = []
        # Textual would build its own document of a text that it is given here.
        super().__init__(soft_wrap=False, show_line_numbers=True, max_checkpoints=1000, id=id)
        self._set_document(text, None)

    def action_pass_key(self) -> None:
        """Do nothing with a key."""

    def action_go_to_end(self, last: bool, select: bool = False) -> None:
        """Move the cursor to the start of the text, or with `last` to its end."""
        self.move_cursor(self.document.end if last else (0, 0), select=select)

    @property
    def is_changed(self) -> bool:
        """Whether the text is another than was loaded, or kept."""
        # Unchanged lines are the same objects, so comparing them reads no character.
        return self.document.lines != self._kept

    def keep(self) -> None:
        """Note that the text as it is now is kept elsewhere."""
        self._kept = [*self.document.lines]

    @property
    def limits(self) -> Sequence[str]:
        """Limits on colours and brackets that apply to this text, in words."""
        warnings = []
        if self.virtual_size.width > COLOURED:
            warnings.append(f"Only the first {COLOURED:,} characters of a line are coloured.")
        if sum(map(len, self.document.lines)) > BRACKET_REACH:
            warnings.append(f"A matching bracket is marked only within {BRACKET_REACH:,} characters.")
        return warnings

    def edit(self, edit: Edit) -> EditResult:
        """Change the text."""
        self._colours.edited(edit.top[0])
        return super().edit(edit)

    def get_line(self, line_index: int) -> Text:
        """Return a line in its colours."""
        line = super().get_line(line_index)
        theme = self._code_theme
        for start, end, kind in self._spans(line_index):
            line.stylize(token_style(theme, kind), start, end)
        return line

    def render_line(self, y: int) -> Strip:
        """Return a row of the screen, from memory if it looks as it did.

        Textual's own forgets all rows at each edit, and asks for the whole text at each row.
        """
        row = y + self.scroll_offset.y
        if row >= self.document.line_count or row == self.cursor_location[0]:
            return self._drawn(y)
        look = self._look(row)
        if (strip := self._strips.get(look)) is None:
            strip = self._strips[look] = self._drawn(y)
        return strip

    def notify_style_update(self) -> None:
        """Draw all rows anew: they may have other colours."""
        self._strips.clear()
        super().notify_style_update()

    def _drawn(self, y: int) -> Strip:
        # Textual's own is as wide as the widest line.
        return self._render_line(y).crop(0, self.region.width)

    def _look(self, row: int) -> Hashable:
        """Return all that decides what a row looks like in which the cursor is not, but for the styles."""
        (top, _), (bottom, _) = sorted(self.selection)
        bracket = self._matching_bracket_location if self.match_cursor_bracket and self.selection.is_empty else None
        return (
            row, self.document.get_line(row), tuple(self._spans(row)), self.gutter_width, self.indent_width,
            self.scroll_offset.x, self.region.width,
            self.selection if top <= row <= bottom else None,
            bracket if bracket and bracket[0] == row else None,
        )  # fmt: skip

    @property
    def _code_theme(self) -> str:
        dark = self.app.current_theme.dark
        if self.app.native_ansi_color:
            return "ansi_dark" if dark else "ansi_light"
        return "github-dark" if dark else "friendly"

    def _spans(self, row: int) -> Sequence[Span]:
        return self._colours.of(row, self.document.lines)

    def _set_document(self, text: str, language: str | None) -> None:  # noqa: ARG002
        self.document = LongDocument(text)
        self.wrapped_document = Unwrapped(self.document, self.indent_width)
        self.navigator = DocumentNavigator(self.wrapped_document)
        self._colours.edited(0)
        self.keep()
        self.move_cursor((0, 0))
        self._rewrap_and_refresh_virtual_size()

    def _undo_batch(self, edits: Sequence[Edit]) -> None:
        self._colours.edited(min((edit.top[0] for edit in edits), default=0))
        super()._undo_batch(edits)

    def _redo_batch(self, edits: Sequence[Edit]) -> None:
        self._colours.edited(min((edit.top[0] for edit in edits), default=0))
        super()._redo_batch(edits)

    def _yield_character_locations(self, start: Location) -> Iterable[tuple[str, Location]]:
        return islice(super()._yield_character_locations(start), BRACKET_REACH)

    def _yield_character_locations_reverse(self, start: Location) -> Iterable[tuple[str, Location]]:
        return islice(super()._yield_character_locations_reverse(start), BRACKET_REACH)
