"""Screens over another one that close once."""

from typing import Generic

from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen, Screen, ScreenResultType


class ClosesOnce(Screen[ScreenResultType], Generic[ScreenResultType]):
    """A screen over another one, which closes itself and none of those below it.

    Textual closes the uppermost screen, whichever asks for that. A screen that is asked twice before it is gone, as by
    two quick Escapes, would close the chat below it.
    """

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Close this screen with a result; one that is closed, or lies below another, stays as it is."""
        if self.app.screen is self:
            return super().dismiss(result)
        nothing: AwaitComplete = AwaitComplete.nothing()  # type: ignore[no-untyped-call]
        return nothing


class Dialog(ModalScreen[ScreenResultType], ClosesOnce[ScreenResultType]):
    """Such a screen through which those below it are seen. Textual takes the styles of the first base alone."""
