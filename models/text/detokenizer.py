"""Streaming detokenizer: bytes become characters when complete, and no part of a stop string is passed on."""

import codecs
from collections.abc import Sequence

from models.base import Vocab
from models.text.after_thoughts import AfterThoughts


class AnswerText:
    """The text of one answer, fed token by token.

    A character may be spread over tokens, and a stop string may begin in one and end in another, or not come true after
    all. `take` gives out only what can no longer change.
    """

    def __init__(
        self,
        vocab: Vocab,
        stops: Sequence[str] = (),
        lines: int | None = None,
        opening: str = "",
        after: AfterThoughts | None = None,
    ) -> None:
        """Take the stop strings, how many lines are enough (None: any number), and what the prompt began of the text.

        That opening is given out with the first token, which completes its characters too. `after` finds the end of the
        thoughts, within which no stop string counts; None: there are no thoughts.
        """
        self.opening = opening
        self._vocab = vocab
        self._lines = _Lines(lines) if lines else None
        self._stops = tuple(stop for stop in stops if stop)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._after = after or AfterThoughts()
        self._held = ""
        self._ready = ""
        self.stopped_by: str | None = None
        """The stop string that ended the text, "" for the last wanted line; None: the text goes on."""
        self._lengths: list[int] = []

    def feed(self, token: int) -> bool:
        """Add one emitted token; return True when it completes a stop string or the last line wanted.

        What comes from there on is dropped.
        """
        if self.stopped_by is not None:
            return True
        piece = self._decoder.decode(self._vocab.piece(token))
        self._lengths.append(len(piece))
        if not self._after.is_begun:
            self._ready = self.opening
            self._lengths[-1] += len(self.opening)
        thoughts, piece = self._after.feed(piece)
        self._ready += thoughts
        self._held += piece
        found = [place for stop in self._stops if (place := self._held.find(stop)) >= 0]
        if self._lines and (over := self._lines.feed(piece)) is not None:
            found.append(len(self._held) - over)
        keep = min(found) if found else len(self._held) - self._possible_stop()
        self._ready += self._held[:keep]
        if found:
            self.stopped_by = next((stop for stop in self._stops if self._held.startswith(stop, keep)), "")
        self._held = "" if found else self._held[keep:]
        return bool(found)

    def finish(self) -> None:
        """Give out what was held back: no more tokens will come."""
        if self.stopped_by is None:
            self._ready += self._after.finish() + self._held + self._decoder.decode(b"", final=True)
            self._held = ""

    def take(self) -> str:
        """Return the text that became certain since the last call."""
        text, self._ready = self._ready, ""
        return text

    def take_lengths(self) -> tuple[int, ...]:
        """Return how many characters each token since the last call completed, given out by now or later.

        A character counts for the token that ends it. What a stop string takes away is counted.
        """
        lengths, self._lengths = tuple(self._lengths), []
        return lengths

    def _possible_stop(self) -> int:
        """Return the length of the longest end of the text that begins a stop string."""
        longest = max((len(stop) for stop in self._stops), default=0) - 1
        for size in range(min(longest, len(self._held)), 0, -1):
            if any(stop.startswith(self._held[-size:]) for stop in self._stops):
                return size
        return 0


class _Lines:
    """Counts lines until there are enough; an empty one counts for nothing."""

    def __init__(self, wanted: int) -> None:
        self._left = wanted
        self._blank = True

    def feed(self, piece: str) -> int | None:
        """Add text; return the characters after the end of the last line wanted, that end included; None: more fit."""
        for place, character in enumerate(piece):
            if character == "\n" and not self._blank:
                self._left -= 1
                self._blank = True
                if self._left == 0:
                    return len(piece) - place
            self._blank = self._blank and character.isspace()
        return None
