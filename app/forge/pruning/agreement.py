"""Agreement of a target that lacks some blocks with the whole one, on the target's own answers.

The answer is read in wide passes, which have a row after each token: no token is decoded by itself. A draft token at a
place is right if the likeliest token there is the target's.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.forge.answering.answers import CONTEXT, Answer
from app.forge.methods.base import Job
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.llama.weights.left_out import BlockSwitch

LONGEST = 8
"""Longest draft that is counted."""
_PASS = 64
"""Tokens of a pass."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often draft tokens are right."""

    places: int
    right: float
    """Share of places with the target's token, 0 to 1."""
    lengths: tuple[float, ...]
    """Mean number of right tokens at the beginning of a draft of 1, 2, ... tokens."""


class AgreementMeter:
    """Measures a target with blocks left out; owns the model."""

    def __init__(self, job: Job, blocks: int) -> None:
        """Load the target on the processor; raises LocalspecError."""
        threads = job.request.threads
        options = LlamaOptions(
            context_size=CONTEXT,
            max_rows=_PASS,
            threads=threads,
            batch_threads=threads,
            gpu_layers=0,
            extra_buffers=False,
        )
        self._job = job
        self.model = LlamaModel(job.request.target, options, abort=job.abort)
        if not threads:
            self.model.follow_free_cores()
        self.blocks = blocks
        try:
            self._switch = BlockSwitch(self.model)
        except BaseException:
            self.model.close()
            raise

    def measure(self, answers: Sequence[Answer], left_out: Collection[int]) -> Agreement:
        """Return the agreement on some answers; raises Cancelled, and LocalspecError on a battery."""
        self.model.rewind(0)
        self._switch.leave_out(left_out)
        found = []
        for answer in answers:
            self._job.check()
            found.append(self._right(answer))
        return agreement_of(found)

    def _right(self, answer: Answer) -> NDArray[np.bool_]:
        """Return for each place of an answer whether the likeliest token is the target's."""
        tokens, first = answer.tokens.tolist(), answer.asked - 1
        self.model.rewind(0)
        for start in range(0, first, _PASS):
            self.model.decode(tokens[start : min(start + _PASS, first)], rows=0)
        said = [
            self.model.decode(part, len(part)).argmax(1)
            for part in (tokens[start : start + _PASS] for start in range(first, len(tokens), _PASS))
        ]
        right: NDArray[np.bool_] = np.concatenate(said) == answer.likely[first:, 0]
        return right

    def close(self) -> None:
        """Free the model."""
        self.model.close()


def agreement_of(answers: Sequence[NDArray[np.bool_]]) -> Agreement:
    """Return the agreement from the places of some answers, each in order; a draft ends with its answer."""
    places = sum(map(len, answers))
    runs = np.concatenate([_runs(right) for right in answers]) if places else np.zeros(1)
    lengths = tuple(float(np.minimum(runs, length).mean()) for length in range(1, LONGEST + 1))
    return Agreement(places, lengths[0], lengths)


def _runs(right: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return for each place how many places from there on are right without a gap."""
    found, run = np.zeros(len(right), np.int64), 0
    for place in range(len(right) - 1, -1, -1):
        run = run + 1 if right[place] else 0
        found[place] = run
    return found
