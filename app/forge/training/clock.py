"""Training by the clock: until its time is over, with a checkpoint every half a minute."""

import time
from dataclasses import replace
from typing import Protocol

from app.forge.answering.collecting import SAVED
from app.forge.methods.base import Job


class Learner(Protocol):
    """What is trained."""

    seconds: float
    """Seconds of training so far, as of the last checkpoint when it begins."""

    @property
    def places(self) -> int:
        """Places that training has seen, with repetitions."""

    def step(self, done: float) -> float:
        """Take one step of learning at a share `done` of the time, 0 to 1; return the loss."""

    def save(self) -> None:
        """Write the checkpoint in place of the last one; raises OSError."""


def train(job: Job, learner: Learner, wanted: float) -> None:
    """Train until `wanted` seconds are over; raises LocalspecError, OSError, and Cancelled with a checkpoint kept."""
    before, started = learner.seconds, time.monotonic()
    saved = started

    def save() -> None:
        learner.save()
        job.work.note(replace(job.work.progress, trained=learner.seconds))

    try:
        while learner.seconds < wanted:
            loss = learner.step(learner.seconds / wanted)
            now = time.monotonic()
            learner.seconds = before + now - started
            job.tell(f"training, loss {loss:.2f}, {learner.places:,} places", learner.seconds, wanted)
            job.check()
            if now - saved > SAVED:
                save()
                saved = now
    finally:
        save()
