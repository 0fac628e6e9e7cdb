"""Line of keys at the bottom of a screen."""

from typing import Any

from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Footer


class KeyFooter(Footer):
    """Footer that is composed anew only when the keys that it shows change.

    Textual's own composes a widget for each key at every change of focus, which takes several milliseconds.
    """

    _composed: list[tuple[Binding, bool, str]] | None = None
    """Bindings of the last composition; None before the first."""

    def bindings_changed(self, screen: Screen[Any]) -> None:
        """Compose the keys anew if other bindings are active, or enabled, than at the last composition."""
        if not (screen.app.app_focus and self.is_attached and screen is self.screen):
            super().bindings_changed(screen)
            return
        shown = [
            (binding, enabled, tooltip)
            for _, binding, enabled, tooltip in screen.active_bindings.values()
            if binding.show
        ]
        if shown != self._composed:
            self._composed = shown
            super().bindings_changed(screen)
