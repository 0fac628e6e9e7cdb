"""Order of the jobs that share the engine, and what of it each needs."""

from enum import Enum, IntEnum


class Urgency(IntEnum):
    """Order of jobs that want a turn: the lower number comes first."""

    COMPLETION = 0
    """A completion at a cursor, while the text is typed."""
    ANSWER = 1
    IDLE = 2
    """Work that is not waited for: it is called off when its place is wanted."""


class Claim(Enum):
    """What of the engine a job needs."""

    ALL = "all"
    """Everything: no other job has a slot meanwhile."""
    SLOT = "slot"
    """One slot of the worker."""
    NOTHING = "nothing"
    """A moment between two rounds of others."""
