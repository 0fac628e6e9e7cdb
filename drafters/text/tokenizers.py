"""The two tokenizers of a drafter and a target, and what they have to do with each other."""

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from drafters.text.picking import SharedSpellings
from drafters.text.spelling import Spelling
from models.base import Vocab
from models.text.marks import Marks


class Role(Enum):
    """Roles of a drafter's tokens."""

    TEXT = "text"
    END = "end"
    """Ends a turn."""
    MARK = "mark"
    """Has no text that a target could emit, such as the first mark of a turn."""


class Roles:
    """Roles of a vocabulary's tokens, by token and never by spelling."""

    def __init__(self, vocab: Vocab) -> None:
        self._vocab = vocab

    def of(self, token: int) -> Role:
        """Return the role of a token."""
        if self._vocab.is_end(token):
            return Role.END
        return Role.MARK if token in self._marks or not self._vocab.piece(token) else Role.TEXT

    @cached_property
    def _marks(self) -> frozenset[int]:
        return frozenset(added.token for added in self._vocab.added_tokens() if added.is_control)


@dataclass(frozen=True, slots=True)
class Tokenizers:
    """Tokenizers of a drafter and its target."""

    own: Spelling
    """The drafter's spelling."""
    roles: Roles
    """Roles of the drafter's tokens."""
    theirs: Spelling
    """The target's spelling."""
    shared: SharedSpellings
    """Spellings that both have as one token."""

    @classmethod
    def of(cls, vocab: Vocab, own: Spelling, target: Vocab) -> "Tokenizers":
        """Return the tokenizers for a drafter's vocabulary with its spelling, and a target's vocabulary."""
        theirs = Spelling(target, Marks.of(target))
        return cls(own, Roles(vocab), theirs, SharedSpellings(own, theirs))
