"""Styles of tokens by origin: a colour and a text style each, since a colour may not be visible."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from rich.style import Style
from rich.text import Text
from textual.app import App

from app.engine.decoding.origins import Origin


class Palette(StrEnum):
    """The colours available on a screen."""

    DARK = "dark"
    LIGHT = "light"
    ANSI = "ansi"
    """The terminal's own sixteen."""
    NONE = "none"
    """No colour at all: text styles alone."""


_TEXT_STYLES = {
    Origin.PLAIN: "",
    Origin.MODEL: "underline",
    Origin.TEXT: "bold underline",
    Origin.HEAD: "dim italic underline",
    Origin.SUFFIX: "italic",
    Origin.LOOKUP: "bold italic",
    Origin.MEMORY: "bold italic underline",
    Origin.CHECKED: "italic underline",
    Origin.SIBLING: "dim underline",
    Origin.FORCED: "dim",
    Origin.OTHER: "dim italic",
    Origin.REPLACEMENT: "bold",
    Origin.BONUS: "bold dim",
}
_COLOURS = {
    Palette.DARK: {
        Origin.MODEL: "#7ee787",
        Origin.TEXT: "#b5d46b",
        Origin.HEAD: "#5fd7a7",
        Origin.SUFFIX: "#79c0ff",
        Origin.LOOKUP: "#56d4dd",
        Origin.MEMORY: "#a5b4fc",
        Origin.CHECKED: "#e3b341",
        Origin.SIBLING: "#d2a8ff",
        Origin.FORCED: "#b0b8c1",
        Origin.OTHER: "#c9d1d9",
        Origin.REPLACEMENT: "#ff938a",
        Origin.BONUS: "#f2cc60",
    },
    Palette.LIGHT: {
        Origin.MODEL: "#116329",
        Origin.TEXT: "#4b5c00",
        Origin.HEAD: "#00604a",
        Origin.SUFFIX: "#0550ae",
        Origin.LOOKUP: "#0b5a66",
        Origin.MEMORY: "#3b3fa3",
        Origin.CHECKED: "#7a4b00",
        Origin.SIBLING: "#6639ba",
        Origin.FORCED: "#4d5762",
        Origin.OTHER: "#424a53",
        Origin.REPLACEMENT: "#a40e26",
        Origin.BONUS: "#6b4400",
    },
    Palette.ANSI: {
        Origin.MODEL: "green",
        Origin.TEXT: "green",
        Origin.HEAD: "green",
        Origin.SUFFIX: "blue",
        Origin.LOOKUP: "cyan",
        Origin.MEMORY: "blue",
        Origin.CHECKED: "yellow",
        Origin.SIBLING: "magenta",
        Origin.REPLACEMENT: "red",
        Origin.BONUS: "yellow",
    },
    Palette.NONE: {},
}


def palette_of(app: App[Any]) -> Palette:
    """Return the palette that fits the theme of now."""
    theme = app.current_theme
    if app.no_color:
        return Palette.NONE
    if theme.ansi:
        return Palette.ANSI
    return Palette.DARK if theme.dark else Palette.LIGHT


def origin_style(origin: Origin, colours: Palette) -> Style:
    """Return the style of an origin; two origins differ in text style in every palette."""
    return _STYLES[colours][origin]


def legend(colours: Palette = Palette.DARK, shown: Iterable[Origin] = tuple(Origin)) -> Text:
    """Return the names of origins, each in its own look, on one line that may be wrapped between them."""
    samples = [Text(f" {origin} ".replace(" ", "\u00a0"), origin_style(origin, colours)) for origin in shown]
    return Text(" ").join(samples)


def fitted(legend: Text, width: int) -> Text:
    """Return a legend on lines of at most `width` cells, with no line end inside a name."""
    lines = [Text()]
    for sample in legend.split(" "):
        line = Text(" ").join([lines[-1], sample]) if lines[-1] else sample
        if lines[-1] and line.cell_len > width:
            lines.append(sample)
        else:
            lines[-1] = line
    return Text("\n").join(lines)


def _style(origin: Origin, colours: Palette) -> Style:
    colour = _COLOURS[colours].get(origin, "")
    return Style.parse(f"{_TEXT_STYLES[origin]} {colour}".strip() or "none")


_STYLES = {colours: {origin: _style(origin, colours) for origin in Origin} for colours in Palette}
