"""Everything that one `serve` was asked for."""

from dataclasses import dataclass

from app.engine.decoding.request import Question
from app.engine.runtime.load import LoadPlan


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a client may ask of the server."""

    body: int
    """Most bytes of a request's body."""
    waiting: int
    """Most requests that wait for others to end."""
    seconds: float
    """Longest time to wait."""
    grace: float
    """Seconds that running answers have to end when the server is told to stop."""
    moment: float = 0.5
    """Seconds before a stream begins in any case; what is refused earlier has its own status."""
    beat: float = 3.0
    """Longest silence of a stream in seconds; then a comment is sent."""


@dataclass(frozen=True, slots=True)
class Door:
    """Who may come in."""

    host: str
    """Name or address to listen on."""
    port: int
    key: str
    """What a client must know; "" for nothing."""
    hosts: tuple[str, ...] = ()
    """Names that a client may call the server by, besides its own."""
    origins: tuple[str, ...] = ()
    """Web pages whose scripts may ask."""


@dataclass(frozen=True, slots=True)
class ServePlan:
    """What to serve, to whom, and how to answer where a request leaves it open."""

    plan: LoadPlan
    chatting: Question
    """How to answer a chat; its turns are still to come."""
    completing: Question
    """How to go on with a text."""
    filling: Question
    """How to fill a hole."""
    door: Door
    limits: Limits
    alias: str
    """Name of the model in replies; "" for its own."""
    quiet: bool
    for_editors: bool = False
    """Whether it is started for completions at a cursor: a model that can't fill holes is then warned of."""
