"""Settings of completions."""

from dataclasses import dataclass, field

from app.complete.place import Windows
from app.complete.ring import RingSize
from models.sampling.accept import Accept
from models.sampling.sampler import SamplingParams


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a completion's length and time."""

    tokens: int = 128
    lines: int | None = None
    """Maximum lines without empty ones; None: no limit."""
    seconds: float | None = 1.0
    """Maximum seconds to generate, from the first token on; None: no limit."""
    wait: float | None = None
    """Maximum seconds until it begins, else BusyError; None: no limit."""


@dataclass(frozen=True, slots=True)
class CompletionSettings:
    """The shown context and the form of the answer."""

    sampling: SamplingParams = field(default_factory=lambda: SamplingParams(temperature=0.0))
    windows: Windows = field(default_factory=Windows)
    ring: RingSize = field(default_factory=RingSize)
    results: int = 250
    """Maximum remembered completions."""
    tidies: bool = True
    """Whether to trim answers to the text worth showing."""
    draft_length: int | None = None
    """As in `Question`."""
    adapt: bool = True
    """As in `Question`."""
    accept: Accept = Accept.COUPLED
    allow_rounding: bool = False
