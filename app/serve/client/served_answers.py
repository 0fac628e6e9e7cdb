"""Answers of servers as values: tokens with their probabilities, text and finish reason."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServedToken:
    """One token of an answer, as a server tells it. Log probabilities are natural."""

    data: bytes
    """Its bytes, maybe only part of a character; its spelling where it has none."""
    logprob: float | None = None
    """None: not given, or no real one."""
    best: tuple[tuple[bytes, float], ...] = ()
    """The likeliest tokens in this place, itself among them, each once, the best first; empty: not given."""


@dataclass(frozen=True, slots=True)
class ServedAnswer:
    """One answer of one server."""

    text: str
    tokens: tuple[ServedToken, ...] | None = None
    """None: not told, or they do not spell the text."""
    finish: str = ""
    seconds: float = 0.0
    """Wall time of the request."""
    counted: int | None = None
    """Tokens of the answer by the server's own count."""
    drafted: int | None = None
    """Tokens that were guessed; None: the server does not say."""
    accepted: int | None = None


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model as a server names it."""

    id: str
    facts: tuple[tuple[str, int], ...] = ()
    """Sizes that tell weights apart whatever they are called, such as the number of parameters."""
