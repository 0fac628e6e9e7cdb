"""Colour themes by name, and the choice of the default one."""

import os
from collections.abc import Mapping

THEMES: Mapping[str, str] = {
    "dark": "textual-dark",
    "light": "textual-light",
    "ansi-dark": "ansi-dark",
    "ansi-light": "ansi-light",
    "nord": "nord",
    "gruvbox": "gruvbox",
    "dracula": "dracula",
    "tokyo-night": "tokyo-night",
    "catppuccin": "catppuccin-mocha",
    "solarized-light": "solarized-light",
    "solarized-dark": "solarized-dark",
}
"""Textual's name of each."""
_LIGHT_FROM = 7
"""Background colour of COLORFGBG from which on it is light; 8 is a dark grey."""


def theme_for(wanted: str) -> str:
    """Return Textual's name of a theme; "auto": light where the terminal says that it is, else dark."""
    if wanted != "auto":
        return THEMES[wanted]
    background = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    light = background.isdecimal() and int(background) >= _LIGHT_FROM and background != "8"
    return THEMES["light" if light else "dark"]
