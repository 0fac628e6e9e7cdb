"""Number types of the command line, stricter than click's own."""

import math
from typing import Any

import click

UNLIMITED = -1
"""llama.cpp's value for "no limit" in counts of tokens."""


class FiniteRange(click.FloatRange):
    """A finite number within bounds. click accepts "nan" within any bounds, and "inf" where one side is open."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; raises click.BadParameter."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class LayerCount(click.ParamType[int]):
    """Number of layers on a GPU; -1, or llama.cpp's "all", for all layers."""

    name = "integer range"
    _counts = click.IntRange(min=-1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the count, or -1; raises click.BadParameter."""
        try:
            return -1 if value == "all" else self._counts.convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"'{value}' is not a number of layers. Give 0 or more; -1 or all means every layer.", param, ctx)


class TokenLimit(click.ParamType[int | None]):
    """Maximum number of tokens; UNLIMITED for no limit."""

    name = "integer range"
    _counts = click.IntRange(min=1)

    def __init__(self, unlimited: int | None = None) -> None:
        """Take the value that -1 becomes; not None if None already means that the flag was left out."""
        self._unlimited = unlimited

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        """Return the count, or the value for no limit; raises click.BadParameter."""
        if str(value).strip() == str(UNLIMITED):
            return self._unlimited
        try:
            return self._counts.convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"'{value}' is not a number of tokens. Give 1 or more; {UNLIMITED} means no limit.", param, ctx)
