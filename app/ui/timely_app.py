"""An app whose timers that ring once always ring."""

from textual.app import App
from textual.timer import Timer, TimerCallback


class TimelyApp(App[int]):
    """Learns of every change of the terminal's size, on a busy machine too."""

    def set_timer(
        self, delay: float, callback: TimerCallback | None = None, *, name: str | None = None, pause: bool = False
    ) -> Timer:
        """Call a function once, after so many seconds or later."""
        timer = super().set_timer(delay, callback, name=name, pause=pause)
        # Textual leaves out what it is late for, which of a timer that rings once is all. It waits for one of 8 ms when
        # the terminal's size changes: an engine's turn at the wrong moment, and the screen kept its old size for good.
        timer._skip = False
        return timer
