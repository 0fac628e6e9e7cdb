"""The panel beside the chat that shows speculation at work."""

import time
from collections.abc import Callable, Iterable

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.content import Content
from textual.events import Click, Resize
from textual.strip import Strip
from textual.style import Style
from textual.timer import Timer

from app.ui.drawing.line_view import LineView
from app.ui.drawing.origin_styles import palette_of
from app.ui.panel.flow import Flow
from app.ui.panel.panel_lines import NOW, fold_at, panel_lines

_PAUSE = 1.0
"""Seconds between two pictures."""


class _Ink:
    """The styles of the panel, each worked out once."""

    def __init__(self, base: Style, blank: RichStyle, named: Callable[[Style | str], Style]) -> None:
        self.blank = blank
        self._base = base
        self._named = named
        self._rich: dict[Style, RichStyle] = {}

    def segments(self, line: Content) -> list[Segment]:
        """Return a line as it is written."""
        return [Segment(text, self._of(style)) for text, style in line.render(self._base, "", self._named)]

    def _of(self, style: Style) -> RichStyle:
        if style not in self._rich:
            self._rich[style] = (self._base + style).rich_style
        return self._rich[style]


class SpeculationPanel(LineView, can_focus=True):
    """Draws a flow once a second."""

    # Textual can copy nothing of a view that is drawn by line.
    ALLOW_SELECT = False

    DEFAULT_CSS = """
    SpeculationPanel {
        width: 38;
        padding: 0 0 0 1;
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
    }
    """

    def __init__(
        self,
        *,
        ascii_only: bool = False,
        clock: Callable[[], float] = time.monotonic,
        opened: Iterable[str] = (NOW,),
        id: str | None = None,  # noqa: A002
    ) -> None:
        """Draw with ASCII alone where the terminal has nothing else; the clock says when the next picture is due.

        `opened` are the folds that are open at first.
        """
        super().__init__(id=id)
        self._ascii = ascii_only
        self._clock = clock
        self._lines: list[Content] = []
        self._flow: Flow | None = None
        self.opened = frozenset(opened)
        """The folds that are open."""
        self._drawn_at = float("-inf")
        self._timer: Timer | None = None
        self._ink: _Ink | None = None

    def show(self, flow: Flow) -> None:
        """Show a flow as it is now, or as it is a moment later."""
        self._flow = flow
        wait = self._drawn_at + _PAUSE - self._clock()
        if wait <= 0:
            self._draw()
        elif self._timer is None:
            self._timer = self.set_timer(wait, self._draw)

    def open_folds(self, names: Iterable[str]) -> None:
        """Open these folds, and close the others."""
        self.opened = frozenset(names)
        self._draw()

    def on_click(self, event: Click) -> None:
        """Open or close the fold whose heading was clicked."""
        row = event.y + self.scroll_offset.y
        name = fold_at(self._lines[row]) if row < len(self._lines) else None
        if name is not None:
            self.open_folds(self.opened ^ {name})

    def render_line(self, y: int) -> Strip:
        """Return a line of the panel.

        Nearly all change at each picture; Textual's own way would work out the same styles for every one of them.
        """
        ink = self._ink = self._ink or _Ink(self.visual_style, self.rich_style, self._get_style)
        row = y + self.scroll_offset.y
        written = ink.segments(self._lines[row]) if row < len(self._lines) else []
        return Strip(written).extend_cell_length(self.size.width, ink.blank)

    def notify_style_update(self) -> None:
        """Draw in another theme."""
        self._ink = None
        super().notify_style_update()

    def on_mount(self) -> None:
        """Keep to the colours of the theme."""
        self.app.theme_changed_signal.subscribe(self, lambda _: self._draw())

    def on_resize(self, _: Resize) -> None:
        """Draw at the new width, for the first time or again."""
        self._draw()

    def _draw(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = None
        if self._flow is None or not self.is_mounted or self._room <= 0:
            return
        self._drawn_at = self._clock()
        colours = palette_of(self.app)
        self._lines = panel_lines(self._flow, self._room, colours, ascii_only=self._ascii, opened=self.opened)
        self.grow(len(self._lines))
        self._paint()

    def _paint(self) -> None:
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        seen = self._lines[top : top + height]
        self.paint([*((line.plain, *line.spans) for line in seen), *[()] * (height - len(seen))])

    @property
    def _room(self) -> int:
        return self.scrollable_content_region.width - 1
