"""Drafted bytes as tokens of the target, spelled as the target's tokenizer would go on after its last tokens.

A word that is not complete may be spelled in other tokens once its next letters are known. So all drafted bytes are
spelled anew with each of the drafter's tokens, and the tokens of the last word count as not settled.

Method: Timor et al. 2025, arXiv 2502.05202, algorithm SLEM.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from drafters.text.spelling import Spelling, whole_characters
from models.base import Vocab

_TAIL = 8
"""Tokens of the target before a draft that are spelled anew with it."""
_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")


@dataclass(frozen=True, slots=True)
class Respelled:
    """Drafted bytes as tokens of the target."""

    tokens: tuple[int, ...]
    """All tokens of the whole characters."""
    starts: tuple[int, ...]
    """First byte of each token among the drafted bytes."""
    settled: int
    """How many of the first tokens no later byte can change."""


class Respelling:
    """Spells drafted bytes after the last tokens of one context."""

    def __init__(self, vocab: Vocab, spelling: Spelling, context: Sequence[int]) -> None:
        """Take the target's vocabulary with its spelling, and the context, which ends with the pending token."""
        self._spelling = spelling
        self._tail = _tail(vocab, context)

    def tokens(self, drafted: bytes, *, is_final: bool = False) -> Respelled:
        """Return the tokens of drafted bytes; `is_final`: nothing comes after them."""
        whole = whole_characters(self._tail + drafted) - len(self._tail)
        if whole <= 0:
            return Respelled((), (), 0)
        after = self._after_tail(drafted[:whole])
        tokens, sizes = [token for token, _ in after], [size for _, size in after]
        starts = [*accumulate(sizes, initial=0)][: len(tokens)]
        if sum(sizes) != whole:
            # Bytes that are no text came out as other ones.
            return Respelled((), (), 0)
        settled = len(tokens) if is_final and whole == len(drafted) else self._settled(drafted[:whole], starts)
        return Respelled(tuple(tokens), tuple(starts), settled)

    def _after_tail(self, drafted: bytes) -> list[tuple[int, int]]:
        """Return tokens and their bytes: spelled with the tail, or alone where a token would lie across its end."""
        place = 0
        spelled = self._sized(self._tail + drafted)
        for number, (_, size) in enumerate(spelled):
            if place == len(self._tail):
                return spelled[number:]
            place += size
        return self._sized(drafted)

    def _sized(self, data: bytes) -> list[tuple[int, int]]:
        tokens = self._spelling.tokens(data) or ()
        return [(token, len(self._spelling.bytes_of(token))) for token in tokens]

    def _settled(self, drafted: bytes, starts: Sequence[int]) -> int:
        """Return how many tokens come before the last word, or before the last token that is in no word."""
        last = len(starts) - 1
        while last > 0 and drafted[starts[last]] in _LETTERS and drafted[starts[last] - 1] in _LETTERS:
            last -= 1
        return max(0, last)


def _tail(vocab: Vocab, context: Sequence[int]) -> bytes:
    """Return the bytes of the last tokens of a text, from the beginning of a character, after any control token."""
    pieces: list[bytes] = []
    for token in reversed(context[-_TAIL:]):
        if not (piece := vocab.piece(token)):
            break
        pieces.append(piece)
    tail = b"".join(reversed(pieces))
    return tail[next((place for place in range(len(tail)) if tail[place] & 0xC0 != 0x80), len(tail)) :]
