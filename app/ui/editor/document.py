"""The document of the editor: an edit costs only the lines that it changes.

Textual's own measures all lines after each edit, and keeps three lists of where each line is wrapped, of which every
row that is drawn reads one as a whole. Here no line is wrapped.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import overload

from rich.cells import cell_len
from textual._cells import cell_width_to_column_index
from textual.document._document import Document, DocumentBase, EditResult, Location
from textual.document._wrapped_document import WrappedDocument
from textual.expand_tabs import expand_tabs_inline, get_tab_widths
from textual.geometry import Offset, Size, clamp


class LongDocument(Document):
    """A document that knows how wide it is from how many of its lines have which width."""

    def __init__(self, text: str) -> None:
        """Take the text."""
        super().__init__(text)
        self._tab_width = 0
        self._widths: Counter[int] = Counter()

    def get_size(self, tab_width: int) -> Size:
        """Return the cells of the widest line, and the number of lines."""
        if tab_width != self._tab_width:
            self._tab_width = tab_width
            self._widths = Counter(self._measured(self.lines))
        return Size(max(self._widths, default=0), len(self.lines))

    def replace_range(self, start: Location, end: Location, text: str) -> EditResult:
        """Put a text in the place of another; see `Document.replace_range`."""
        top, bottom = min(start, end)[0], max(start, end)[0]
        before = list(self._measured(self.lines[top : bottom + 1]))
        result = super().replace_range(start, end, text)
        self._widths.update(self._measured(self.lines[top : result.end_location[0] + 1]))
        self._widths.subtract(before)
        for width in before:
            if not self._widths[width]:
                del self._widths[width]
        return result

    def get_index_from_location(self, location: Location) -> int:
        """Return the characters of the text before a location."""
        row, column = location
        return sum(map(len, self.lines[:row])) + row * len(self.newline) + column

    def get_location_from_index(self, index: int) -> Location:
        """Return where a character of the text is; raises ValueError where there is none."""
        text = self.text
        if not 0 <= index <= len(text):
            raise ValueError(f"Index {index} is not in a text of {len(text)} characters.")
        row = text.count(self.newline, 0, index)
        begun = text.rfind(self.newline, 0, index)
        return row, index - (begun + len(self.newline) if begun >= 0 else 0)

    def _measured(self, lines: Iterable[str]) -> Iterable[int]:
        """Yield the cells of each line; nothing before a width of tabs is known, for then all are measured at once."""
        width = self._tab_width
        if not width:
            return ()
        # Of most lines each character is a cell, which costs next to nothing to find out.
        return (
            len(line) if line.isascii() and line.isprintable() else cell_len(line.expandtabs(width)) for line in lines
        )


class Unwrapped(WrappedDocument):
    """The view of a document in which each line is one row, so that nothing is worked out in advance."""

    def __init__(self, document: DocumentBase, tab_width: int) -> None:
        """Take the document, and the width of tabs."""
        super().__init__(document, 0, tab_width)
        self._offset_to_line_info = _Rows(document)  # type: ignore[assignment]

    def wrap(self, width: int, tab_width: int | None = None) -> None:
        """Take note of the width of tabs; lines stay as they are."""
        assert not width, "the lines of code are not wrapped"
        self._tab_width = tab_width or self._tab_width

    def wrap_range(self, start: Location, old_end: Location, new_end: Location) -> None:
        """Do nothing: what is known of a line is in the line."""

    @property
    def lines(self) -> list[list[str]]:
        """The rows of each line."""
        return [[line] for line in self.document.lines]

    @property
    def height(self) -> int:
        """The number of rows."""
        return self.document.line_count

    def offset_to_location(self, offset: Offset) -> Location:
        """Return the place in the document of a cell, or the nearest one."""
        row = clamp(offset.y, 0, self.document.line_count - 1)
        return row, cell_width_to_column_index(self.document.get_line(row), max(0, offset.x), self._tab_width)

    def location_to_offset(self, location: Location) -> Offset:
        """Return the cell of a place in the document."""
        row = clamp(location[0], 0, self.document.line_count - 1)
        return Offset(cell_len(expand_tabs_inline(self.document.get_line(row)[: location[1]], self._tab_width)), row)

    def get_sections(self, line_index: int) -> list[str]:
        """Return the rows of a line: itself."""
        return [self.document.get_line(line_index)]

    def get_offsets(self, line_index: int) -> list[int]:
        """Return where a line is wrapped: nowhere; raises ValueError for one that is not there."""
        if not 0 <= line_index < self.document.line_count:
            raise ValueError(f"Line {line_index} is not in a document of {self.document.line_count}.")
        return []

    def get_tab_widths(self, line_index: int) -> list[int]:
        """Return how wide each tab of a line is."""
        return [width for _, width in get_tab_widths(self.document.get_line(line_index), self._tab_width)]


class _Rows(Sequence[tuple[int, int]]):
    """The line of each row, and which of the line's rows it is."""

    def __init__(self, document: DocumentBase) -> None:
        self._document = document

    def __len__(self) -> int:
        return self._document.line_count

    @overload
    def __getitem__(self, row: int) -> tuple[int, int]: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[tuple[int, int]]: ...
    def __getitem__(self, row: int | slice) -> tuple[int, int] | Sequence[tuple[int, int]]:
        if isinstance(row, slice):
            return [(one, 0) for one in range(*row.indices(len(self)))]
        if not 0 <= row < len(self):
            raise IndexError(row)
        return row, 0
