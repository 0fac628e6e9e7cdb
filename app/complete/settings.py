"""How completions are asked for."""

from dataclasses import dataclass, field

from app.complete.place import Windows
from app.complete.ring import RingSize
from models.sampling.accept import Accept
from models.sampling.sampler import SamplingParams


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a completion is wanted, and how long it may take."""

    tokens: int = 128
    lines: int | None = None
    """Most lines, empty ones not counted; None: any number."""
    seconds: float | None = 1.0
    """Time to speak, from the first token on; None: any time."""
    wait: float | None = None
    """Time in which it must have begun, else BusyError; None: any time."""


@dataclass(frozen=True, slots=True)
class CompletionSettings:
    """What is shown to the model, and how it answers."""

    sampling: SamplingParams = field(default_factory=lambda: SamplingParams(temperature=0.0))
    windows: Windows = field(default_factory=Windows)
    ring: RingSize = field(default_factory=RingSize)
    results: int = 250
    """Most completions that are remembered."""
    tidies: bool = True
    """Show what is worth showing alone; else whatever the model says."""
    draft_length: int | None = None
    """As in `Question`."""
    adapt: bool = True
    """As in `Question`."""
    accept: Accept = Accept.COUPLED
    allow_rounding: bool = False
