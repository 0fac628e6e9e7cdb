"""What reaches the screen from the engine's thread: frozen values, in order, left in a mailbox and never waited for."""

from dataclasses import dataclass

from textual.message import Message

from app.engine.conversation import messages as engine


@dataclass(frozen=True, slots=True)
class Heard:
    """The engine said something; text comes this way, so none of these may be dropped."""

    job: int
    """Its number."""
    said: engine.Message | None
    """None: the job is over."""


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """A file is being read, or measured. The latest is enough."""

    job: int
    name: str
    """What is read."""
    fraction: float | None
    """Share of it that is done; None: the name says what is done instead."""


Mail = Heard | LoadProgress


class MailCame(Message):
    """There is something in a mailbox that was empty."""
