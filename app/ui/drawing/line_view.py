"""A scrolled text of which only changed lines are redrawn."""

from collections.abc import Hashable, Sequence

from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.widget import Widget


class LineView(ScrollView):
    """A scrolled view of a growing number of lines."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._painted: Sequence[Hashable] = ()

    def grow(self, lines: int) -> None:
        """Set the number of lines.

        Textual would lay out and paint the whole screen anew at each new line; that is needed only where the scroll
        bar comes or goes.
        """
        before, height = self.virtual_size, self.scrollable_content_region.height
        size = Size(self.scrollable_content_region.width, lines)
        if size.width != before.width or (lines > height) != (before.height > height):
            self.virtual_size = size
        elif size != before:
            self.set_reactive(Widget.virtual_size, size)
            self._scroll_update(size)

    def paint(self, lines: Sequence[Hashable]) -> None:
        """Redraw the visible lines that have changed."""
        before, self._painted = self._painted, lines
        if len(before) != len(lines):
            self.refresh()
        elif changed := [y for y, line in enumerate(lines) if line != before[y]]:
            # The scroll bar draws itself when it moves.
            width = self.outer_size.width - self.scrollbar_size_vertical * self.show_vertical_scrollbar
            self.refresh(*(Region(0, y, width, 1) for y in changed))

    def paint_all(self) -> None:
        """Redraw all visible lines."""
        self._painted = ()
        self.refresh()
