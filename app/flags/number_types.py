"""Types of numbers for the command line, where click's own take too much."""

import math
from typing import Any

import click

UNLIMITED = -1
"""How llama.cpp says "no limit" where a count of tokens is asked for."""


class FiniteRange(click.FloatRange):
    """A number within bounds. To click "nan" is within any, and "inf" within those that have one open side."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; raises click.BadParameter."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class LayerCount(click.ParamType[int]):
    """How many layers go on a GPU; -1, or llama.cpp's "all", for every one."""

    name = "integer range"
    _counts = click.IntRange(min=-1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the count, or -1; raises click.BadParameter."""
        try:
            return -1 if value == "all" else self._counts.convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"'{value}' is not a count from 0 on, nor -1 or all, for every layer.", param, ctx)


class TokenLimit(click.ParamType[int | None]):
    """How many tokens at most; UNLIMITED for as many as there are."""

    name = "integer range"
    _counts = click.IntRange(min=1)

    def __init__(self, unlimited: int | None = None) -> None:
        """Take what -1 becomes; not None where None already means that nothing was said."""
        self._unlimited = unlimited

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        """Return the count, or what stands for no limit; raises click.BadParameter."""
        if str(value).strip() == str(UNLIMITED):
            return self._unlimited
        try:
            return self._counts.convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"'{value}' is not a count from 1 on, nor {UNLIMITED}, for no limit.", param, ctx)
