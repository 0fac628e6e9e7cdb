"""Race of an answer with plain decoding: tokens of both after the same time."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from textual.content import Content

from app.history.rounds import AnswerRound
from app.ui.panel.bars import bar
from models.system.counted import counted

_NAMES = ("with drafts", "plain")
_NARROWEST = 10
"""Columns of a bar, at least."""


class Race:
    """Seconds of an answer's rounds, and tokens of plain decoding in that time.

    A token of plain decoding takes the mean time of the answer's own one-token passes.
    """

    def __init__(self, rounds: Sequence[AnswerRound]) -> None:
        """Take the rounds of an answer."""
        self._elapsed = list(accumulate(sum(one.seconds) for one in rounds))
        self._emitted = list(accumulate(len(one.pieces) for one in rounds))
        plain = [one.seconds[1] + one.seconds[2] for one in rounds if one.width == 1]
        self.plain_seconds = sum(plain) / len(plain) if plain else None
        """Seconds of a token without drafts; None: no pass of the answer had one token."""

    def seconds(self, index: int) -> float:
        """Return the seconds of all rounds up to one, with it; 0 before the first."""
        return self._elapsed[index] if 0 <= index < len(self._elapsed) else 0.0

    def round_at(self, seconds: float) -> int:
        """Return the last round that is over after so many seconds, or the first."""
        return max(0, bisect_right(self._elapsed, seconds) - 1)

    def lines(self, index: int, width: int, *, ascii_only: bool = False) -> list[Content]:
        """Return a bar of the tokens so far, and one of plain decoding's; none where there is nothing to compare."""
        if not self.plain_seconds or index >= len(self._elapsed):
            return []
        total, spent = self._emitted[-1], self.seconds(index)
        tokens = self._emitted[index], min(total, int(spent / self.plain_seconds))
        figures = [f"{count:,}" for count in tokens]
        room = width - max(map(len, _NAMES)) - max(map(len, figures)) - 2
        if room < _NARROWEST:
            return []
        title = Content.styled(f"after {spent:.1f} s, of {counted(total, 'token')}", "dim")
        bars = [
            Content.assemble(
                name.ljust(max(map(len, _NAMES))) + " ",
                (bar(count / total, room, ascii_only=ascii_only), "$accent" if place == 0 else "dim"),
                " " + figure.rjust(max(map(len, figures))),
            )
            for place, (name, count, figure) in enumerate(zip(_NAMES, tokens, figures, strict=True))
        ]
        return [title.truncate(width), *bars]
