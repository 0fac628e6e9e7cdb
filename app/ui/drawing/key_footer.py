"""Line of keys at the bottom of a screen: as many as fit, the most important first."""

from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

_MORE = "…"
_HELP = ("does('help')", "help")
"""Actions that show all keys."""
Shown = tuple[Binding, bool, str]
"""A binding, whether it is enabled, and its tooltip."""


class KeyFooter(Footer):
    """Footer that is composed anew only when the keys that it shows change, and that cuts no key.

    Textual's own composes a widget for each key at every change of focus, which takes several milliseconds.
    """

    _composed: Sequence[Shown] | None = None
    """Bindings of the last composition; None before the first."""
    _composed_width = 0
    """Columns at the last composition."""

    def compose(self) -> ComposeResult:
        """Yield the keys that fit; where some are left out, the key that shows all is the last."""
        if not self._bindings_ready:
            return
        keys = self._keys()
        more = next((one for one in keys if one[0].action in _HELP), None)
        if self._width(keys) > self._room:
            others = [one for one in keys if one is not more]
            ending = f"{_MORE} {self.app.get_key_display(more[0])}" if more else _MORE
            room = self._room - cell_len(ending) - 1
            while others and self._width(others) > room:
                others.pop()
            yield from map(self._key, others)
            yield FooterKey(more[0].key if more else "", ending, "", more[0].action if more else "", classes="-compact")
        else:
            yield from map(self._key, keys)

    def bindings_changed(self, screen: Screen[Any]) -> None:
        """Compose the keys anew if other bindings are active, or enabled, than at the last composition."""
        if not (screen.app.app_focus and self.is_attached and screen is self.screen):
            super().bindings_changed(screen)
            return
        shown = self._shown()
        if shown != self._composed:
            self._composed, self._composed_width = shown, self._room
            super().bindings_changed(screen)

    def on_resize(self) -> None:
        """Compose the keys anew if another number of them fits."""
        width = self._width(self._keys())
        fits = width <= self._room, width <= self._composed_width
        if self._room != self._composed_width and fits != (True, True):
            self._composed_width = self._room
            self.call_after_refresh(self.recompose)

    @property
    def _room(self) -> int:
        return self.app.size.width

    def _shown(self) -> list[Shown]:
        active = self.screen.active_bindings.values()
        return [(binding, enabled, tooltip) for _, binding, enabled, tooltip in active if binding.show]

    def _keys(self) -> list[Shown]:
        """Return the bindings that are shown, one for each action: of several keys the shortest."""
        found: dict[str, Shown] = {}
        for one in self._shown():
            before = found.setdefault(one[0].action, one)
            if len(one[0].key) < len(before[0].key):
                found[one[0].action] = one
        return list(found.values())

    def _width(self, keys: Sequence[Shown]) -> int:
        """Return the cells of keys: each with a space, its description and a space."""
        return sum(
            cell_len(self.app.get_key_display(binding)) + cell_len(binding.description) + 2 for binding, *_ in keys
        )

    def _key(self, one: Shown) -> FooterKey:
        binding, enabled, tooltip = one
        display = self.app.get_key_display(binding)
        key = FooterKey(
            binding.key, display, binding.description, binding.action, disabled=not enabled, tooltip=tooltip
        )
        key.compact = True
        return key
