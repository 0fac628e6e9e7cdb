"""Pictures of screens that are compared: SVG files without what differs between machines."""

import re
from typing import Any

from pytest_textual_snapshot import SVGImageExtension

SIZES = ((60, 20), (80, 24), (120, 36), (200, 50))
"""Columns and lines of the screens that are drawn."""
LOOKS = ("dark", "light", "ansi", "no colour")
_FONTS = re.compile(r"\s*@font-face {[^}]*}")
_EDGES = re.compile(r'\s*<clipPath id="[^"]*-line-\d+">.*?</clipPath>', re.DOTALL)
_EDGE_USED = re.compile(r' clip-path="url\(#[^"]*-line-\d+\)"')


class Picture(SVGImageExtension):
    """An SVG file for each picture, without fonts from elsewhere and without edges at which nothing is cut."""

    file_extension = "svg"

    def serialize(self, data: str, **options: Any) -> str:
        for part in (_FONTS, _EDGES, _EDGE_USED):
            data = part.sub("", data)
        return super().serialize(data, **options)


def theme_of(look: str) -> str:
    """Return the theme's name of a look; without colour it is the dark one."""
    return {"ansi": "ansi-dark", "no colour": "dark"}.get(look, look)
