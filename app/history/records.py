"""What is saved, as values: a conversation is a tree of entries, and its leaf says which branch is the current one."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from models.text.thoughts import Parts, divided

Role = Literal["user", "assistant"]
FAILED = "failed"
"""Finish of an answer that an error ended; the conversation went on as if it had not been."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation, without what was said in it."""

    id: str
    """Ten hexadecimal digits."""
    title: str
    """One line, without control characters."""
    system: str | None
    """What the model is told first, as of the last question."""
    leaf: int | None
    """Last entry of the current branch; None: nothing is said on it."""
    created: float
    """Seconds since 1970."""
    changed: float
    """Seconds since 1970 at which something was last said, undone or named."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How an answer came about."""

    model: str
    """The target's name, for people."""
    source: str
    """What opens that model again: its absolute path, or a name such as "starter"."""
    drafter: str
    accept: str
    """The rule that drafts were judged by."""
    finish: str | None
    """Why it ended: a `Finish`, or FAILED; None while it grows, and for ever if its process was killed."""
    settings: Mapping[str, Any]
    """Sampling with its seed, limits, and all else that was asked for."""
    statistics: Mapping[str, Any]
    """The counters and rates of `app.engine.decoding.stats.Snapshot`; empty until it ends."""
    tokens: tuple[int, ...]
    """The token ids it was emitted in, an end token included."""
    rounds: bytes = b""
    """How its rounds went, as `app.history.rounds` packs them; b"" until it ends, and where that is not known."""

    @property
    def divides(self) -> bool:
        """Whether thoughts are told apart in it."""
        return divides(self.settings)


@dataclass(frozen=True, slots=True)
class Entry:
    """A message of the user, or an answer."""

    id: int
    conversation: str
    parent: int | None
    """The entry it follows; None for the first of a branch."""
    role: Role
    text: str
    created: float
    """Seconds since 1970."""
    answer: Answer | None = None
    """None for what the user said."""
    typed: str | None = None
    """What the user typed, where the text is another: it has what was in the files that were mentioned."""

    @property
    def parts(self) -> Parts:
        """What an answer consists of."""
        return divided(self.text, divides=self.answer is None or self.answer.divides)

    @property
    def as_typed(self) -> str:
        """What to type for it to be said again."""
        return self.text if self.typed is None else self.typed


Record = Conversation | Entry


@dataclass(frozen=True, slots=True)
class Summary:
    """A line of the list of conversations."""

    conversation: Conversation
    entries: int
    """Messages and answers, those of other branches included."""
    model: str | None
    """The model of the last answer; None: there is none."""


@dataclass(frozen=True, slots=True)
class Hit:
    """An entry in which all words that were searched for occur."""

    conversation: Conversation
    entry: int
    role: Role
    created: float
    parts: tuple[tuple[str, bool], ...]
    """The text around the words, in pieces; True: this piece is a word that was searched for."""


def divides(settings: Mapping[str, Any]) -> bool:
    """Tell of the settings of an answer whether thoughts are told apart in it.

    In one to a bare prompt no template said what marks mean.
    """
    return not settings.get("raw")


def new_conversation_id() -> str:
    """Return an id that nobody else has: in ten thousand conversations two are alike once in twenty thousand times."""
    return secrets.token_hex(5)


def new_entry_id() -> int:
    """Return a number that nobody else has, so that two programs may add to one conversation, and a write be repeated.

    SQLite's row numbers have 63 bits; JSON readers that know no integers but doubles keep 53 of them.
    """
    return secrets.randbits(53)
