"""Answers of servers as values: tokens with their probabilities, text and finish reason."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServedToken:
    """One token of an answer, as a server reports it. Log probabilities are natural."""

    data: bytes
    """The token's bytes, possibly part of a character; its spelling where the server sends no bytes."""
    logprob: float | None = None
    """None: not sent, or a filler."""
    best: tuple[tuple[bytes, float], ...] = ()
    """The most likely tokens at this position, this one included, each once, best first; empty: not sent."""


@dataclass(frozen=True, slots=True)
class ServedAnswer:
    """One answer of one server."""

    text: str
    tokens: tuple[ServedToken, ...] | None = None
    """None: not sent, or not spelling the text."""
    finish: str = ""
    seconds: float = 0.0
    """Wall time of the request."""
    counted: int | None = None
    """Tokens of the answer by the server's own count."""
    drafted: int | None = None
    """Number of draft tokens; None: the server does not report it."""
    accepted: int | None = None


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model as a server describes it."""

    id: str
    facts: tuple[tuple[str, int], ...] = ()
    """Sizes that distinguish weights under any name, such as the number of parameters."""
