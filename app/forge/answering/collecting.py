"""Collection of a target's answers for a share of the minutes; goes on from the parts on disk."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from app.engine.conversation.transcript import Transcript
from app.forge.answering.answers import LONGEST_PROMPT, Answer, Answerer
from app.forge.answering.parts import Parts
from app.forge.answering.prompts import built_in
from app.forge.methods.base import Job
from models.errors import LocalspecError
from models.text.prompts import Message

SAVED = 25.0
"""Seconds between two writings: what a killed process loses at most, with the time for one step."""
_WARM = 0.7
"""Temperature of every second answer."""


@dataclass(frozen=True, slots=True)
class _Limits:
    """When enough was answered."""

    seconds: float
    enough: int
    """Tokens; 0: no limit."""
    least: int
    """Answers."""

    def are_reached(self, seconds: float, parts: Parts, new: Sequence[Answer]) -> bool:
        """Tell whether no more answers are needed after so many seconds."""
        tokens = parts.tokens + sum(len(each.tokens) for each in new)
        over = seconds >= self.seconds or 0 < self.enough <= tokens
        return over and parts.asked + len(new) >= self.least


def collect(job: Job, seconds: float, layers: Sequence[int] = (), *, enough: int = 0, least: int = 1) -> Parts:
    """Let the target answer prompts until their time is over, or until there are `enough` tokens; 0: no limit.

    At least `least` answers are waited for, whatever that takes. Return all answers; rows of `layers` are kept with
    them. Raises LocalspecError, OSError, and Cancelled with all ended answers kept.
    """
    parts, before = Parts(job.work.data), job.work.progress.collected
    if (before < seconds or parts.asked < least) and not 0 < enough <= parts.tokens:
        job.tell("loading the target", before, seconds)
        answerer = Answerer(job.request.target, layers, job.abort, job.request.threads)
        try:
            _answers(job, answerer, parts, _Limits(seconds, enough, least))
        finally:
            answerer.close()
    if not parts.answers:
        raise LocalspecError(
            "The target gave no answers to learn from.",
            hint="Give more --minutes, or shorter prompts with --data.",
        )
    return parts


def _answers(job: Job, answerer: Answerer, parts: Parts, limits: _Limits) -> None:
    before, started, seconds = job.work.progress.collected, time.monotonic(), limits.seconds
    saved = started
    new: list[Answer] = []

    def save() -> None:
        if new:
            parts.add(new)
            new.clear()
        job.work.note(replace(job.work.progress, collected=before + time.monotonic() - started))

    try:
        for answer in answerer.answers(_prompts(job, answerer, parts.asked)):
            new.append(answer)
            now = time.monotonic()
            job.tell(f"{parts.tokens:,} tokens of answers", before + now - started, seconds)
            job.check()
            if now - saved > SAVED:
                save()
                saved = time.monotonic()
            if limits.are_reached(before + now - started, parts, new):
                break
    finally:
        # Also after Ctrl-C. What fails here hides nothing: parts on disk stay whole.
        save()


def _prompts(job: Job, answerer: Answerer, start: int) -> Iterator[tuple[Sequence[int], float]]:
    """Yield prompts as tokens with a temperature: the user's own first, then built-in ones."""
    transcript, own = Transcript(answerer.model, may_be_raw=False), job.request.prompts
    for number, text in enumerate(chain(own[start:], built_in(max(0, start - len(own)))), start=start):
        tokens = transcript.prompt([Message("user", text)])
        if len(tokens) <= LONGEST_PROMPT:
            yield tokens, _WARM * (number % 2)
