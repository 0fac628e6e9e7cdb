"""Key sequences of terminals that Textual does not know."""

import sys
from enum import StrEnum
from typing import Any, cast

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.driver import Driver


class _Missing(StrEnum):
    ALT_ENTER = "alt+enter"


def know_alt_enter() -> None:
    """Register Alt+Enter, which many terminals send as Escape and Enter: it would otherwise send the message."""
    cast("dict[str, Any]", ANSI_SEQUENCES_KEYS)["\x1b\r"] = (_Missing.ALT_ENTER,)


def key_name(key: str) -> str:
    r"""Return Textual's name of a key that it calls "shift+\r": xterm's way to send Enter with another key."""
    return key.replace("\r", "enter")


def driver_class() -> type[Driver] | None:
    """Return what reads keys and draws; None: what Textual takes by itself."""
    if sys.platform == "win32":
        return None
    from app.ui.terminal.terminal_driver import TerminalDriver

    return TerminalDriver
