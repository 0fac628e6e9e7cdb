"""Urgency of jobs, and the part of the engine that each job claims."""

from enum import Enum, IntEnum


class Urgency(IntEnum):
    """Urgency of a job; the lower number goes first."""

    COMPLETION = 0
    """Completion at a cursor during typing."""
    ANSWER = 1
    IDLE = 2
    """Background work, cancelled when another job needs its slot."""


class Claim(Enum):
    """Part of the engine that a job needs."""

    ALL = "all"
    """Whole engine: no other job has a slot meanwhile."""
    SLOT = "slot"
    """One slot of the worker."""
    NOTHING = "nothing"
    """Moment between two rounds of other jobs."""
