"""A view of a long transcript: only visible lines are drawn, and the reading position stays in place."""

import time
from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.events import Resize
from textual.geometry import Region
from textual.reactive import reactive
from textual.selection import Selection
from textual.strip import Strip

from app.ui.drawing.line_view import LineView
from app.ui.drawing.row_strips import Paper, blank_strip, row_strip
from app.ui.drawing.wrapping import Line
from app.ui.transcript.column import Anchor, Column
from app.ui.transcript.look import COMPONENTS, Look, look_of
from app.ui.transcript.pieces import Piece

GUTTER = 3
"""Cells for the cursor's bar, the sign of the role, and a space."""
READABLE = 100
"""Cells of a line of text, at most: in a longer one the eye loses the beginning of the next."""
_SLICE = 0.004
"""Seconds that may go at once into drawing what isn't seen, to know its height."""
_REST = 0.03
"""Seconds between two such slices."""


class TranscriptView(LineView, can_focus=True):
    """Pieces below each other, with a gutter; a derived class provides them."""

    ALLOW_SELECT = True
    COMPONENT_CLASSES: ClassVar[set[str]] = set(COMPONENTS.values())
    DEFAULT_CSS = """
    TranscriptView {
        overflow-x: hidden; overflow-y: auto; scrollbar-gutter: stable; scrollbar-size-vertical: 1;
        & > .transcript--code { background: $panel; }
        & > .transcript--inline-code { background: $panel; color: $text-accent; }
        & > .transcript--heading { color: $text-primary; }
        & > .transcript--link { color: $text-secondary; text-style: underline; }
        & > .transcript--quote { color: $text-muted; text-style: italic; }
        & > .transcript--faint { color: $text-muted; }
        & > .transcript--error { color: $text-error; }
        & > .transcript--user { background: $surface; }
        & > .transcript--bar { color: $primary; }
        & > .transcript--cursor { color: $accent; text-style: bold; }
        & > .transcript--placeholder { color: $text-muted; text-style: italic; }
    }
    """

    more_below: reactive[bool] = reactive(default=False, init=False, repaint=False)
    """Whether there is text below the last line that is seen."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, id: str | None = None) -> None:  # noqa: A002
        """Take a clock that says how long drawing takes, and an id."""
        super().__init__(id=id)
        self._clock = clock
        self._column = Column()
        self._strips: LRUCache[tuple[int, str, int], Strip] = LRUCache(512)
        self._look: Look | None = None
        self._following = True
        self._is_settling = False
        self._is_due = False
        self._is_measuring = False
        self._painted_as: tuple[int, Look | None] = (0, None)
        """Width and look of what was painted last."""

    @property
    def following(self) -> bool:
        """Whether the end is on the screen, and stays there while text comes."""
        return self._following

    def pieces(self) -> Sequence[Piece]:
        """Return what there is to draw."""
        return ()

    def bar_at(self, piece: Piece, row: int) -> str:  # noqa: ARG002 - for derived classes
        """Return the sign at the left edge of a row: one character."""
        return " "

    def touch(self) -> None:
        """Draw what has changed, when all that comes with it is there."""
        if self.is_mounted and not self._is_due:
            self._is_due = True
            self.call_later(self._draw)

    def reflow(self) -> None:
        """Draw now, from the first piece on."""
        width, height = self._room()
        if not width or not height:
            return
        anchor = None if self._following else self._column.anchor(self._top, self._top + height)
        self._column.lay(self.pieces(), width, self.look)
        self._hold(anchor)

    def show_row(self, piece: Piece, row: int, y: int) -> None:
        """Scroll so that a row of a piece is at a line of the screen, as nearly as there is text for it."""
        self._following = False
        self._hold(Anchor(piece, 0, row, y))
        self._following = self._top >= self.max_scroll_y

    def follow(self) -> None:
        """Scroll to the end, and follow it."""
        self._following = True
        self.touch()

    @property
    def text_width(self) -> int:
        """Cells that text has, beside the gutter and the scroll bar."""
        return self._room()[0]

    @property
    def column(self) -> Column:
        """Positions of the pieces."""
        return self._column

    @property
    def look(self) -> Look:
        """The styles that fit the theme."""
        if self._look is None:
            self._look = look_of(self)
        return self._look

    def render_line(self, y: int) -> Strip:
        """Return a line of the screen that knows where in the text it is.

        Textual asks for it to find what the mouse is on; what is painted comes from `render_lines`, and needs none of
        that: with it no two lines would have a style in common.
        """
        row = self._top + y
        return self._row(row, self._paper(), self.text_selection).apply_offsets(0, row)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return lines of the screen; those that were drawn before are the very same, wherever they are now.

        Textual would make a new strip of each line that was scrolled, and again of all that is derived from it.
        """
        top, paper, selection = self._top, self._paper(), self.text_selection
        strips = [self._row(top + y, paper, selection) for y in crop.line_range]
        return [strip.crop(crop.x, crop.right) for strip in strips]

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return what is seen of the selected text, without the gutter."""
        if selection.start is None or selection.end is None:
            while self._column.draw(0, self._column.height):
                pass
        first, left = (selection.start.y, selection.start.x) if selection.start else (0, 0)
        last, right = (selection.end.y, selection.end.x) if selection.end else (self._column.height, None)
        rows = [self._text_at(row) for row in range(first, min(last + 1, self._column.height))]
        if rows and right is not None and last < self._column.height:
            rows[-1] = rows[-1][: max(0, right - GUTTER - self._margin)]
        if rows:
            rows[0] = rows[0][max(0, left - GUTTER - self._margin) :]
        return "\n".join(row.rstrip() for row in rows), "\n"

    def selection_updated(self, selection: Selection | None) -> None:  # noqa: ARG002 - Textual's signature
        """Draw the selected text as such."""
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Draw what comes into sight."""
        super().watch_scroll_y(old_value, new_value)
        if not self._is_settling and round(old_value) != round(new_value):
            self._following = self._top >= self.max_scroll_y
            self._hold(self._column.anchor(self._top, self._top + self._room()[1]))

    def watch_show_vertical_scrollbar(self, shown: bool) -> None:
        """Set the position of a scroll bar that appears: while hidden it was not updated."""
        if shown:
            self.vertical_scrollbar.position = self.scroll_y

    def on_mount(self) -> None:
        """Draw what was said before there was a screen."""
        self.call_after_refresh(self.reflow)

    def on_resize(self, _: Resize) -> None:
        """Draw at another width, or more of it."""
        self.reflow()

    def notify_style_update(self) -> None:
        """Draw in another theme."""
        super().notify_style_update()
        self._strips.clear()
        if self.is_mounted:
            # The styles of parts are not there yet.
            self.call_later(self._restyle)

    def _restyle(self) -> None:
        # An equal look is the same one: what was drawn with it stays.
        if (look := look_of(self)) != self._look:
            self._look = look
            self.touch()

    def _draw(self) -> None:
        self._is_due = False
        self.reflow()

    def _hold(self, anchor: Anchor | None) -> None:
        """Draw what is seen, with the anchor where it is on the screen, or with the end at its end."""
        _, height = self._room()
        top = self._top_for(anchor, height)
        while self._column.draw(top, top + height):
            top = self._top_for(anchor, height)
        self._is_settling = True
        try:
            self.grow(self._column.height)
            if top != self._top:
                self.scroll_to(y=top, animate=False, force=True)
        finally:
            self._is_settling = False
        self.more_below = self._top + self._room()[1] < self._column.height
        self._repaint()
        self._measure_soon()

    def _repaint(self) -> None:
        width, height = self._room()
        if self._painted_as != (width, self._look):
            self._painted_as = width, self._look
            self.paint_all()
        places = [self._column.at(row) for row in range(self._top, self._top + height)]
        self.paint([self._column.pieces[place[0]].serial(place[1]) if place else -1 for place in places])

    def _top_for(self, anchor: Anchor | None, height: int) -> int:
        row = self._top if anchor is None else self._column.row_of(anchor)
        last = max(0, self._column.height - height)
        return last if self._following or row is None else max(0, min(row, last))

    def _measure_soon(self) -> None:
        if not self._is_measuring and self._column.has_estimates:
            self._is_measuring = True
            self.set_timer(_REST, self._measure)

    def _measure(self) -> None:
        """Draw some of what isn't seen, so that its height is no guess."""
        self._is_measuring = False
        place = self._column.at(self._top)
        # A selection is kept as rows, which must not move under it.
        if self.text_selection is None and place is not None:
            anchor = self._column.anchor(self._top, self._top + self._room()[1])
            start = self._clock()
            for index in self._column.undrawn(place[0]):
                self._column.draw_one(index)
                if self._clock() - start > _SLICE:
                    break
            self._column.settle()
            self._hold(anchor)

    @property
    def _top(self) -> int:
        return self.scroll_offset.y

    def _room(self) -> tuple[int, int]:
        region = self.scrollable_content_region
        return max(1, min(region.width - GUTTER, READABLE)) if region.width else 0, region.height

    @property
    def _margin(self) -> int:
        """Cells left of the gutter, so that a column that is narrower than the screen stands in its middle."""
        return max(0, self.scrollable_content_region.width - GUTTER - READABLE) // 2

    def _paper(self) -> Paper:
        width, margin = self.outer_size.width, self._margin
        room = min(self.scrollable_content_region.width - margin, GUTTER + READABLE)
        return Paper(width, margin, room, self.rich_style, self.background_colors[1], self.get_line_filters())

    def _row(self, row: int, paper: Paper, selection: Selection | None) -> Strip:
        if (place := self._column.at(row)) is None:
            return blank_strip(paper)
        piece, line = self._column.pieces[place[0]], place[1]
        # Drawn first: a row that isn't has the number of a blank one.
        written, bar = _line_at(piece, line, max(1, paper.room - GUTTER), self.look), self.bar_at(piece, line)
        key = (piece.serial(line), bar, paper.width)
        if (strip := self._strips.get(key)) is None:
            self._strips[key] = strip = self._strip(piece.sign, *written, bar, paper)
        span = selection.get_span(row) if selection else None
        return strip if span is None else self._selected(strip, *span)

    def _strip(self, sign: str, body: Line, has_text: bool, bar: str, paper: Paper) -> Strip:
        look = self.look
        back = look.user if sign == "┃" and has_text else Style.null()
        gutter = [Segment(bar, look.cursor), Segment(sign if has_text else " ", look.bar)]
        return row_strip(gutter, [Segment(" "), *body], back, paper)

    def _text_at(self, row: int) -> str:
        if (place := self._column.at(row)) is None:
            return ""
        line, _ = _line_at(self._column.pieces[place[0]], place[1], self.text_width, self.look)
        return "".join(part.text for part in line)

    def _selected(self, strip: Strip, start: int, end: int) -> Strip:
        left = strip.index_to_cell_position(start)
        right = strip.cell_length if end < 0 else strip.index_to_cell_position(end)
        style = self.screen.get_component_rich_style("screen--selection")
        middle = Strip(Segment.apply_style(strip.crop(left, right), post_style=style))
        return Strip.join([strip.crop(0, left), middle, strip.crop(right, strip.cell_length)])


def _line_at(piece: Piece, row: int, width: int, look: Look) -> tuple[Line, bool]:
    lines = piece.lines(width, look)
    index = row - piece.above
    return (lines[index], True) if 0 <= index < len(lines) else ([], False)
