"""A long text on the screen, drawn line by line: only what is seen is drawn, and what is read stays where it is."""

import time
from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.events import Resize
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from app.ui.column import Anchor, Column
from app.ui.look import COMPONENTS, Look, look_of
from app.ui.pieces import Piece
from app.ui.wrapping import Line

GUTTER = 3
"""Cells for the cursor's bar, the sign of who speaks, and a space."""
_SLICE = 0.004
"""Seconds that may go at once into drawing what isn't seen, to know its height."""
_REST = 0.03
"""Seconds between two such slices."""
_FRAME = 0.1
"""Seconds between two drawings of a text that grows."""
_SLOWEST = 0.25
_BREATH = 12
"""A drawing that took long is followed by a pause of so many times as long: the model needs the processor."""


class TranscriptView(ScrollView, can_focus=True):
    """Pieces below each other, with a gutter; who derives from it says which."""

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

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, id: str | None = None) -> None:  # noqa: A002
        """Take a clock that paces drawing, and an id."""
        super().__init__(id=id)
        self._clock = clock
        self._column = Column()
        self._strips: LRUCache[tuple[int, int, str], Strip] = LRUCache(512)
        self._look: Look | None = None
        self._following = True
        self._is_settling = False
        self._is_due = False
        self._is_measuring = False
        self._drawn_at = 0.0
        self._pause = 0.0
        self._painted: tuple[int, Look | None, list[int]] = (0, None, [])
        """Width, look and lines of what was painted last."""

    @property
    def following(self) -> bool:
        """Whether the end is on the screen, and stays there while text comes."""
        return self._following

    def pieces(self) -> Sequence[Piece]:
        """Return what there is to draw."""
        return ()

    def bar_at(self, piece: Piece, row: int) -> str:  # noqa: ARG002 - for who derives from it
        """Return the sign at the left edge of a row: one character."""
        return " "

    def touch(self) -> None:
        """Draw soon what has changed: at once after a rest, else a few times a second."""
        if self._is_due or not self.is_mounted:
            return
        self._is_due = True
        if (wait := self._drawn_at + self._pause - self._clock()) > 0:
            self.set_timer(wait, self._draw)
        else:
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
        """Go to the end, and stay there."""
        self._following = True
        self.touch()

    @property
    def text_width(self) -> int:
        """Cells that text has, beside the gutter and the scroll bar."""
        return self._room()[0]

    @property
    def column(self) -> Column:
        """Where each piece is."""
        return self._column

    @property
    def look(self) -> Look:
        """The styles that fit the theme."""
        if self._look is None:
            self._look = look_of(self)
        return self._look

    def render_line(self, y: int) -> Strip:
        """Return a line of the screen."""
        row = self._top + y
        place = self._column.at(row)
        if place is None:
            return Strip.blank(self.size.width, self.rich_style)
        piece, line = self._column.pieces[place[0]], place[1]
        key = (piece.serial(line), row, self.bar_at(piece, line))
        if (strip := self._strips.get(key)) is None:
            self._strips[key] = strip = self._strip(piece, line, row)
        span = selection.get_span(row) if (selection := self.text_selection) else None
        return strip if span is None else self._selected(strip, *span)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return what is seen of the selected text, without the gutter."""
        if selection.start is None or selection.end is None:
            while self._column.draw(0, self._column.height):
                pass
        first, left = (selection.start.y, selection.start.x) if selection.start else (0, 0)
        last, right = (selection.end.y, selection.end.x) if selection.end else (self._column.height, None)
        rows = [self._text_at(row) for row in range(first, min(last + 1, self._column.height))]
        if rows and right is not None and last < self._column.height:
            rows[-1] = rows[-1][: max(0, right - GUTTER)]
        if rows:
            rows[0] = rows[0][max(0, left - GUTTER) :]
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
        """Let a scroll bar that comes stand where the text is: while it was away nobody told it."""
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
        start = self._clock()
        self.reflow()
        self._drawn_at = self._clock()
        self._pause = min(_SLOWEST, max(_FRAME, _BREATH * (self._drawn_at - start)))

    def _hold(self, anchor: Anchor | None) -> None:
        """Draw what is seen, with the anchor where it is on the screen, or with the end at its end."""
        _, height = self._room()
        top = self._top_for(anchor, height)
        while self._column.draw(top, top + height):
            top = self._top_for(anchor, height)
        self._is_settling = True
        try:
            self._grow(Size(self._room()[0] + GUTTER, self._column.height))
            if top != self._top:
                self.scroll_to(y=top, animate=False, force=True)
        finally:
            self._is_settling = False
        self._repaint()
        self._measure_soon()

    def _grow(self, size: Size) -> None:
        """Take a new size of all there is to scroll."""
        before, height = self.virtual_size, self._room()[1]
        if size.width != before.width or (size.height > height) != (before.height > height):
            # The scroll bar comes or goes.
            self.virtual_size = size
        elif size != before:
            # Else the whole screen would be laid out and painted anew at each new line.
            self.set_reactive(Widget.virtual_size, size)
            self._scroll_update(size)

    def _repaint(self) -> None:
        """Have those lines painted again that are not what they were."""
        width, height = self._room()
        places = [self._column.at(row) for row in range(self._top, self._top + height)]
        seen = [self._column.pieces[place[0]].serial(place[1]) if place else -1 for place in places]
        now = (width, self._look, seen)
        if now[:2] != self._painted[:2] or len(seen) != len(self._painted[2]):
            self.refresh()
        else:
            changed = [y for y, pair in enumerate(zip(seen, self._painted[2], strict=True)) if pair[0] != pair[1]]
            if changed:
                self.refresh(Region(0, changed[0], self.size.width, changed[-1] + 1 - changed[0]))
        self._painted = now

    def _top_for(self, anchor: Anchor | None, height: int) -> int:
        row = self._top if anchor is None else self._column.row_of(anchor)
        last = max(0, self._column.height - height)
        return last if self._following or row is None else max(0, min(row, last))

    def _measure_soon(self) -> None:
        if not self._is_measuring and self._column.has_guesses:
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
        return max(1, region.width - GUTTER) if region.width else 0, region.height

    def _strip(self, piece: Piece, line: int, row: int) -> Strip:
        look, width = self.look, self.scrollable_content_region.width
        body, has_text = self._line_at(piece, line)
        back = look.user if piece.sign == "┃" and has_text else Style.null()
        gutter = [Segment(self.bar_at(piece, line), look.cursor), Segment(piece.sign if has_text else " ", look.bar)]
        inner = Strip([Segment(" "), *body]).adjust_cell_length(max(0, width - 2)).apply_style(back)
        whole = Strip.join([Strip(gutter), inner]).adjust_cell_length(width)
        return whole.apply_style(self.rich_style).apply_offsets(0, row)

    def _line_at(self, piece: Piece, line: int) -> tuple[Line, bool]:
        lines = piece.lines(self._room()[0], self.look)
        index = line - piece.above
        return (lines[index], True) if 0 <= index < len(lines) else ([], False)

    def _text_at(self, row: int) -> str:
        place = self._column.at(row)
        line, _ = self._line_at(self._column.pieces[place[0]], place[1]) if place else ([], False)
        return "".join(part.text for part in line)

    def _selected(self, strip: Strip, start: int, end: int) -> Strip:
        left = strip.index_to_cell_position(start)
        right = strip.cell_length if end < 0 else strip.index_to_cell_position(end)
        style = self.screen.get_component_rich_style("screen--selection")
        middle = Strip(Segment.apply_style(strip.crop(left, right), post_style=style))
        return Strip.join([strip.crop(0, left), middle, strip.crop(right, strip.cell_length)])
