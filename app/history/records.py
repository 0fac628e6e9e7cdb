"""Saved records: a conversation is a tree of entries, whose leaf selects the current branch."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from models.text.thoughts import Parts, divided

Role = Literal["user", "assistant"]
FAILED = "failed"
"""Finish reason of an answer that an error ended; the conversation continued without it."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation without its entries."""

    id: str
    """Ten hexadecimal digits."""
    title: str
    """One line, without control characters."""
    system: str | None
    """The system message, as of the last question."""
    leaf: int | None
    """Last entry of the current branch; None for an empty branch."""
    created: float
    """Time of creation, in seconds since 1970."""
    changed: float
    """Time of the last message, undo or renaming, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class SavedAnswer:
    """The model, settings and figures of an answer."""

    model: str
    """The target's name, for display."""
    source: str
    """The name that loads the model again: an absolute path, or a name such as "starter"."""
    drafter: str
    accept: str
    """The accept rule for draft tokens."""
    finish: str | None
    """Finish reason: a `Finish`, or FAILED; None while it runs, and for good if its process was killed."""
    settings: Mapping[str, Any]
    """Sampling settings with the seed, limits, and all other settings."""
    statistics: Mapping[str, Any]
    """Counters and rates of `app.engine.decoding.stats.Snapshot`; empty until the end."""
    tokens: tuple[int, ...]
    """The emitted token ids, an end token included."""
    rounds: bytes = b""
    """The rounds as `app.history.rounds` packs them; b"" until the end, and for unknown rounds."""

    @property
    def divides(self) -> bool:
        """Whether thoughts are separated from its text."""
        return divides(self.settings)


@dataclass(frozen=True, slots=True)
class Entry:
    """A message of the user, or an answer."""

    id: int
    conversation: str
    parent: int | None
    """The previous entry; None for the first of a branch."""
    role: Role
    text: str
    created: float
    """Time of creation, in seconds since 1970."""
    answer: SavedAnswer | None = None
    """None for a message of the user."""
    typed: str | None = None
    """The typed text, if `text` differs from it by the contents of mentioned files."""

    @property
    def parts(self) -> Parts:
        """The parts of an answer: thoughts, text and calls."""
        return divided(self.text, divides=self.answer is None or self.answer.divides)

    @property
    def as_typed(self) -> str:
        """The text to type in order to repeat the message."""
        return self.text if self.typed is None else self.typed


Record = Conversation | Entry


@dataclass(frozen=True, slots=True)
class Summary:
    """A row of the list of conversations."""

    conversation: Conversation
    entries: int
    """Number of messages and answers, on all branches."""
    model: str | None
    """The model of the last answer; None without an answer."""


@dataclass(frozen=True, slots=True)
class Hit:
    """An entry that contains all searched words."""

    conversation: Conversation
    entry: int
    role: Role
    created: float
    parts: tuple[tuple[str, bool], ...]
    """The text around the words, in pieces; True marks a searched word."""


def divides(settings: Mapping[str, Any]) -> bool:
    """Tell from the settings of an answer whether thoughts are separated.

    An answer to a raw prompt has no template, so marks in its text have no known meaning.
    """
    return not settings.get("raw")


def new_conversation_id() -> str:
    """Return a random id: among ten thousand conversations a collision has a probability of 1 in 20,000."""
    return secrets.token_hex(5)


def new_entry_id() -> int:
    """Return a random entry number, so that two programs can add to a conversation and a write can be repeated.

    SQLite's row numbers have 63 bits; JSON readers that store numbers as doubles keep only 53 of them.
    """
    return secrets.randbits(53)
