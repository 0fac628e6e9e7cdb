"""Opening of screens, each kind at most once at a time."""

from collections.abc import Callable
from typing import Any

from textual.app import App
from textual.screen import Screen


def open_once(app: App[Any], screen: Screen[Any], done: Callable[[Any], Any] | None = None) -> None:
    """Open a screen, unless one of its kind is open: a key and a command may both have asked for it.

    `done` is called with its result.
    """
    if all(type(one) is not type(screen) for one in app.screen_stack):
        app.push_screen(screen, done)
