"""A screen that redraws only changed widgets, to leave the processor to the model."""

from collections.abc import Collection

from textual._compositor import ChopsUpdate, Compositor
from textual.geometry import Region
from textual.widget import Widget

from app.ui.drawing.seen_through import SeenThrough


class SparingScreen(SeenThrough[int]):
    """A screen that asks only widgets with changed lines for their lines."""

    def __init__(self) -> None:
        """Install the compositor that skips unchanged widgets."""
        super().__init__()
        self._compositor = _Compositor()


class _Compositor(Compositor):
    """Textual's own asks all widgets between the first line that changed and the last for every line that they have.

    One is in an answer and another in the status below it: that would be nearly all of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._changed: Collection[Region] | None = None

    @property
    def visible_widgets(self) -> dict[Widget, tuple[Region, Region]]:
        """The widgets that are seen, with their places; while changes are drawn those that have a part in them."""
        seen, changed = super().visible_widgets, self._changed
        if changed is None:
            return seen
        return {
            widget: (place, clip)
            for widget, (place, clip) in seen.items()
            if any(one.overlaps(place) and one.overlaps(clip) for one in changed)
        }

    def render_partial_update(self) -> ChopsUpdate | None:
        """Return what has to be written to the terminal for all that changed; None for nothing."""
        # Where widgets meet is worked out from all that are seen, and kept.
        _ = self.cuts
        self._changed = self._dirty_regions.copy()
        try:
            return super().render_partial_update()
        finally:
            self._changed = None
