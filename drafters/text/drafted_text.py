"""Text of one draft while a drafter writes it, with the confidence of each of the target's tokens in it."""

from math import prod

import numpy as np
from numpy.typing import NDArray

from drafters.base import NO_DRAFT, Draft
from drafters.chances import UNSETTLED
from drafters.text.picking import Picking
from drafters.text.respelling import NOTHING, Respelled, respell
from drafters.text.tokenizers import Role, Tokenizers
from models.sampling.confidence import share


class DraftedText:
    """The drafter's own tokens of one draft, their bytes, and those bytes in the target's tokens."""

    def __init__(self, tokenizers: Tokenizers, picking: Picking, position: int) -> None:
        """Take both tokenizers, the choice of tokens, and the number of the target's tokens before the draft."""
        self.own: list[int] = []
        """The drafter's tokens so far."""
        self.is_open = True
        """Whether more can come: false after an end or a mark."""
        self._tokenizers = tokenizers
        self._picking = picking
        self._position = position
        self._bytes = bytearray()
        self._begun: list[tuple[int, float]] = []
        """First byte of each own token, and the drafter's confidence in it, 0 to 1."""
        self._end_share: float | None = None
        self._respelled = NOTHING

    def add(self, row: NDArray[np.float32]) -> bool:
        """Add the token of a row, shape (vocabulary of the drafter,); return False where the text ends."""
        token = self._picking.pick(row, self._position + self.length)
        role, chance = self._tokenizers.roles.of(token), share(row, token)
        if role is not Role.TEXT:
            self.is_open, self._end_share = False, chance if role is Role.END else None
            return False
        self.own.append(token)
        self._begun.append((len(self._bytes), chance))
        self._bytes += self._tokenizers.own.bytes_of(token)
        self._respelled = respell(self._tokenizers.theirs, bytes(self._bytes))
        return True

    @property
    def length(self) -> int:
        """Return the number of the target's tokens so far."""
        return len(self._respelled.tokens)

    @property
    def confidence(self) -> tuple[float, ...]:
        """Return the confidence, 0 to 1, of each of the target's tokens so far."""
        return self._confidence(self._respelled)

    def draft(self, source: str, limit: int, end: int | None) -> Draft:
        """Return the first `limit` tokens, with the target's `end` token after all of them where the drafter ended."""
        ended = self._end_share is not None
        spelled = respell(self._tokenizers.theirs, bytes(self._bytes), is_final=True) if ended else self._respelled
        tokens, confidence = spelled.tokens, self._confidence(spelled)
        if ended and end is not None and spelled.settled == len(tokens):
            tokens, confidence = (*tokens, end), (*confidence, self._end_share or 0.0)
        if not tokens:
            return NO_DRAFT
        return Draft(tokens[:limit], confidence=confidence[:limit], source=source)

    def _confidence(self, spelled: Respelled) -> tuple[float, ...]:
        """Return the product of the confidence of those own tokens that begin in each of the target's tokens."""
        spans = zip(spelled.starts, (*spelled.starts[1:], len(self._bytes)), strict=False)
        known = [prod(each for begun, each in self._begun if start <= begun < end) for start, end in spans]
        return tuple(each if place < spelled.settled else each * UNSETTLED for place, each in enumerate(known))
