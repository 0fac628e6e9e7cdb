"""Interface of the methods of `forge`: what each needs, what it says beforehand, and what it makes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from app.forge.request import ForgeRequest
from app.forge.work import Work
from models.abort import AbortFlag
from models.errors import Cancelled, LocalspecError
from models.system.power import on_battery

Tell = Callable[[str, float, float], None]
"""Receives what is done, and how much of how much: seconds, or any other unit."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a forging will take, and is likely to gain."""

    what: str
    """What is made for which target, in a sentence."""
    expected: str
    """What is read, and what may be gained, in a sentence or two."""
    disk: int
    """Bytes of the work folder at most."""
    memory: int
    """Bytes at most."""


@dataclass(frozen=True, slots=True)
class Made:
    """What a drafter was made from. A method that has more to say extends it; the card holds every field."""

    answers: int
    tokens: int
    """Tokens of prompts and answers."""
    answering_seconds: float

    @property
    def lines(self) -> list[str]:
        """Lines of the report."""
        return [f"{self.source}."]

    @property
    def source(self) -> str:
        """Answers that it was made from, in words."""
        minutes = self.answering_seconds / 60
        return f"Made from {self.answers:,} answers, {self.tokens:,} tokens ({minutes:.0f} min)"


@dataclass(frozen=True, slots=True)
class MadeHeads(Made):
    """What heads on a target's hidden rows were made from."""

    places: int = 0
    """Places that training has seen, with repetitions; 0 without training."""
    training_seconds: float = 0.0
    start_right: tuple[float, ...] = ()
    """Shares of held-back places where the closed form was right, by place of the draft; () without training."""
    right: tuple[float, ...] = ()
    """The same of what was trained."""

    @property
    def lines(self) -> list[str]:
        """Lines of the report."""
        found = [f"{self.source}; trained on {self.places:,} places ({self.training_seconds / 60:.0f} min)."]
        if self.right:
            before = shares(self.start_right)
            found.append(f"Right on answers that were held back: {shares(self.right)} (at the start {before}).")
        return found


@dataclass(frozen=True, slots=True)
class Job:
    """One making. Belongs to one thread, except for the abort flag."""

    request: ForgeRequest
    work: Work
    abort: AbortFlag
    tell: Tell

    def check(self) -> None:
        """Raise Cancelled after Ctrl-C, and LocalspecError on a battery: call it at least every second."""
        if self.abort.is_set:
            raise Cancelled("Stopped.")
        if not self.request.on_battery and on_battery():
            raise LocalspecError(
                "Stopped: this machine now runs on its battery.",
                hint="Plug it in; the same command goes on. --on-battery forges all the same.",
            )


class Method(Protocol):
    """A way to make a drafter."""

    minutes: float
    """Minutes it spends where --minutes is not given."""
    flags: frozenset[str]
    """Which of `app.forge.request.OWN_FLAGS` it takes."""

    def libraries(self, *, train: bool) -> tuple[str, ...]:
        """Return the modules that have to be installed."""

    def check(self, target: Path, draft: str | None) -> Path | None:
        """Check a target before anything else; return the draft model that it begins with, None for none.

        `draft` is what --draft names. Raises PairError with every reason, ModelFileError, and UsageError.
        The made drafter has to be faster than a draft model that was returned.
        """

    def plan(self, request: ForgeRequest) -> Plan:
        """Return what it will take; nothing is loaded."""

    def make(self, job: Job) -> Made:
        """Write the drafter to `job.work.drafter`, going on from what the work folder has.

        Raises LocalspecError, OSError, and Cancelled with everything kept.
        """


def shares(values: Sequence[float]) -> str:
    """Return shares in two digits each, such as ".31, .08"."""
    return ", ".join(f"{value:.2f}".lstrip("0") for value in values)
