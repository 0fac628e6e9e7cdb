"""Screens whose changes are seen through all screens that are open over them."""

from typing import Generic

from textual.screen import Screen, ScreenResultType


class SeenThrough(Screen[ScreenResultType], Generic[ScreenResultType]):
    """A screen whose changes are drawn under any number of screens.

    Textual draws the uppermost screen anew when one below it changes. A screen between the two keeps the lines that it
    has drawn of those below: a footer would stay as it was in the middle of a change.
    """

    def _compositor_refresh(self) -> None:
        changed = self._compositor._dirty_regions.copy()
        super()._compositor_refresh()
        stack = self.app.screen_stack
        if changed and self in stack:
            for between in stack[stack.index(self) + 1 : -1]:
                between.refresh(*changed)
