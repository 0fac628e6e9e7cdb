"""The panel beside the chat that shows speculation at work."""

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Static

from app.ui.flow import Flow
from app.ui.origin_styles import palette
from app.ui.panel_lines import panel_lines

_PAUSE = 0.5
"""Seconds between two pictures."""


class SpeculationPanel(VerticalScroll):
    """Draws a flow, at most ten times a second."""

    DEFAULT_CSS = """
    SpeculationPanel {
        width: 38;
        padding: 0 0 0 1;
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
    }
    SpeculationPanel > Static {
        width: 1fr;
        padding: 0 1 0 0;
        text-wrap: nowrap;
        text-overflow: clip;
    }
    """

    def __init__(self, *, ascii_only: bool = False, id: str | None = None) -> None:  # noqa: A002
        """Draw with ASCII alone where the terminal has nothing else."""
        super().__init__(id=id)
        self._ascii = ascii_only
        self._figures = Static(markup=False)
        self._flow: Flow | None = None
        self._is_stale = False
        self._height = -1
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        """Lay out the panel."""
        yield self._figures

    def show(self, flow: Flow) -> None:
        """Show a flow as it is now, or as it is a moment later."""
        self._flow, self._is_stale = flow, True
        if self._timer is None:
            self._draw()

    def on_mount(self) -> None:
        """Keep to the colours of the theme."""
        self.app.theme_changed_signal.subscribe(self, lambda _: self._draw_anew())

    def on_resize(self) -> None:
        """Draw at the new width, for the first time or again."""
        self._draw_anew()

    def _draw_anew(self) -> None:
        self._is_stale = True
        self._draw()

    def _draw(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = None
        width = self.scrollable_content_region.width - 1
        if not self._is_stale or self._flow is None or not self.is_mounted or width <= 0:
            return
        theme = self.app.current_theme
        colours = palette(dark=theme.dark, ansi=theme.ansi, no_color=self.app.no_color)
        lines = panel_lines(self._flow, width, colours, ascii_only=self._ascii)
        # As high as before it needs no place of its own anew: that would paint the whole screen.
        self._figures.update(Content("\n").join(lines), layout=len(lines) != self._height)
        self._height = len(lines)
        self._is_stale = False
        self._timer = self.set_timer(_PAUSE, self._draw)
