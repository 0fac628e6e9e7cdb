"""Types of numbers for the command line, where click's own take too much."""

import math
from typing import Any

import click


class FiniteRange(click.FloatRange):
    """A number within bounds. To click "nan" is within any, and "inf" within those that have one open side."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; raises click.BadParameter."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class TokenLimit(click.ParamType[int | None]):
    """How many tokens at most; -1, llama.cpp's way to say "no limit", becomes None."""

    name = "integer range"
    _counts = click.IntRange(min=1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        """Return the count, or None; raises click.BadParameter."""
        if str(value).strip() == "-1":
            return None
        return self._counts.convert(value, param, ctx)
