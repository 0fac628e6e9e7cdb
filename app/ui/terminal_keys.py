"""Keys that terminals send in ways Textual does not know."""

import codecs
import sys
from enum import StrEnum
from functools import partial
from typing import Any, cast

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS


class _Missing(StrEnum):
    ALT_ENTER = "alt+enter"


def know_alt_enter() -> None:
    """Tell Alt+Enter from Enter where a terminal sends it as an escape before: else it would send half a message."""
    cast("dict[str, Any]", ANSI_SEQUENCES_KEYS)["\x1b\r"] = (_Missing.ALT_ENTER,)


def key_name(key: str) -> str:
    r"""Return Textual's name of a key that it calls "shift+\r": xterm's way to send Enter with another key."""
    return key.replace("\r", "enter")


def take_any_bytes() -> None:
    """Read bytes that are no UTF-8 as replacement characters: at the first of them Textual would end the app."""
    if sys.platform == "win32":
        return
    from textual.drivers import linux_driver

    def lenient(name: str) -> Any:
        return partial(codecs.getincrementaldecoder(name), errors="replace")

    linux_driver.getincrementaldecoder = lenient  # type: ignore[attr-defined, assignment]
