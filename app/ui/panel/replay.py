"""The replay screen: a finished answer, one round at a time."""

from collections.abc import Callable
from typing import ClassVar, Protocol

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget

from app.history.rounds import AnswerRounds
from app.ui.drawing.dialog import ClosesOnce
from app.ui.drawing.key_footer import KeyFooter
from app.ui.drawing.origin_styles import palette_of
from app.ui.panel.replay_lines import Look, ReplayPage

_SECONDS = 0.5
"""Time that a round is shown when they are played."""
_TICK = 0.1
"""Seconds between two pictures of a race."""
_FOOTER_FROM = 10
"""Lines from which on the keys have a line of their own."""


class Ticks(Protocol):
    """A timer."""

    def stop(self) -> None:
        """Stop the timer."""


Every = Callable[[float, Callable[[], None]], Ticks]
"""Starts a timer: seconds, and the function it calls."""


class ReplayView(Widget):
    """The picture of one round."""

    DEFAULT_CSS = """
    ReplayView {
        height: 1fr;
        padding: 0 1;
        text-wrap: nowrap;
        text-overflow: clip;
    }
    """

    def __init__(self, page: ReplayPage, *, ascii_only: bool) -> None:
        """Take the page that draws the rounds."""
        super().__init__()
        self._page = page
        self._ascii = ascii_only
        self._index = 0

    def show(self, index: int) -> None:
        """Show a round."""
        self._index = index
        self.refresh()

    def render(self) -> Content:
        """Return the picture at the size of this moment."""
        colours = palette_of(self.app)
        width, height = self.content_size
        return Content("\n").join(self._page.lines(self._index, max(2, width), height, Look(colours, self._ascii)))


class ReplayScreen(ClosesOnce[None]):
    """Shows the rounds of an answer, one at a time."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "go(-1)", "previous", id="replay.back"),
        Binding("right,l", "go(1)", "next", id="replay.on"),
        Binding("up", "go(-10)", "10 previous", id="replay.far-back", show=False),
        Binding("down", "go(10)", "10 next", id="replay.far-on", show=False),
        Binding("home", "first", "first", id="replay.first", show=False),
        Binding("end", "last", "last", id="replay.last", show=False),
        Binding("d", "rejection", "next rejection", id="replay.rejection"),
        Binding("space", "play", "play", id="replay.play"),
        Binding("r", "race", "race", id="replay.race"),
        Binding("q,escape", "leave", "close", id="replay.leave"),
    ]

    def __init__(self, answer: AnswerRounds, *, every: Every | None = None, ascii_only: bool = False) -> None:
        """Take the answer. `every` calls a function at an interval in seconds, for playing."""
        super().__init__()
        self.index = 0
        """The round that is shown, from 0."""
        self._page = ReplayPage(answer)
        self._view = ReplayView(self._page, ascii_only=ascii_only)
        self._every: Every = every or self.set_interval
        self._ticks: Ticks | None = None
        self._raced = 0.0
        """Seconds of the answer that a race has played."""

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        yield self._view
        yield KeyFooter(compact=True, show_command_palette=False)

    def on_resize(self) -> None:
        """Show the keys if there is a line to spare."""
        self.query_one(KeyFooter).display = self.size.height >= _FOOTER_FROM

    @property
    def is_playing(self) -> bool:
        """Whether the rounds are being played."""
        return self._ticks is not None

    def action_go(self, rounds: int) -> None:
        """Go a number of rounds forwards, or backwards if negative."""
        self._go(self.index + rounds)

    def action_first(self) -> None:
        """Go to the first round."""
        self._go(0)

    def action_last(self) -> None:
        """Go to the last round."""
        self._go(len(self._page.rounds) - 1)

    def action_rejection(self) -> None:
        """Go to the next round that rejected a draft token."""
        place = self._page.next_rejection(self.index)
        if place is None:
            self.notify("No later round rejected a draft token.")
        else:
            self._go(place)

    def action_play(self) -> None:
        """Play the rounds, or stop playing; from the last round it begins at the first."""
        if self.is_playing:
            self._rest()
        elif self._page.rounds:
            if self._is_last:
                self._go(0)
            self._ticks = self._every(_SECONDS, self._tick)

    def action_race(self) -> None:
        """Play the rounds at the speed they had, beside plain decoding, or stop playing."""
        if self.is_playing:
            self._rest()
        elif self._page.rounds:
            if self._is_last:
                self._go(0)
            self._raced = self._page.race.seconds(self.index - 1)
            self._ticks = self._every(_TICK, self._race_on)

    def action_leave(self) -> None:
        """Close the screen."""
        self._rest()
        self.dismiss()

    @property
    def _is_last(self) -> bool:
        return self.index >= len(self._page.rounds) - 1

    def _tick(self) -> None:
        self._go(self.index + 1)
        if self._is_last:
            self._rest()

    def _race_on(self) -> None:
        self._raced += _TICK
        self._go(max(self.index, self._page.race.round_at(self._raced)))
        if self._is_last:
            self._rest()

    def _rest(self) -> None:
        if self._ticks is not None:
            self._ticks.stop()
            self._ticks = None

    def _go(self, index: int) -> None:
        self.index = min(max(index, 0), max(0, len(self._page.rounds) - 1))
        self._view.show(self.index)
