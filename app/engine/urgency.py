"""Order of the jobs that share the engine, and what of it each needs."""

from enum import Enum, IntEnum


class Urgency(IntEnum):
    """Whose turn it is, when several want one."""

    COMPLETION = 0
    """Somebody is typing."""
    ANSWER = 1
    IDLE = 2
    """Nobody waits for it: it is called off when its place is wanted."""


class Claim(Enum):
    """What of the engine a job needs."""

    ALL = "all"
    """Everything: nobody else has a slot meanwhile."""
    SLOT = "slot"
    """One slot of the worker."""
    NOTHING = "nothing"
    """A moment between two rounds of others."""
