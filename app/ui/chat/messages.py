"""Messages from the engine's thread to the screen: frozen values in the order of sending."""

from dataclasses import dataclass

from textual.message import Message

from app.engine.conversation import messages as engine


@dataclass(frozen=True, slots=True)
class Heard:
    """A message of the engine. It may carry text, so none may be dropped."""

    job: int
    """Its number."""
    message: engine.Message | None
    """None: the job is over."""


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """Progress of a load; only the latest matters."""

    job: int
    name: str
    """Name of the file."""
    fraction: float | None
    """Share of it that is done; None: the name says what is done instead."""


Mail = Heard | LoadProgress


class MailCame(Message):
    """A mailbox that was empty has a message."""
