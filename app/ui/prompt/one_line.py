"""Inputs of one line, in dialogs and below the editor's text."""

from textual.events import Paste
from textual.widgets import Input


class OneLineInput(Input):
    """An input that takes all lines of a paste, joined by blanks; Textual's own takes the first alone."""

    def _on_paste(self, event: Paste) -> None:
        # Textual calls the base class's handler after this one, with the same event.
        event.text = " ".join(filter(None, event.text.splitlines()))
