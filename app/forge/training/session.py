"""One session of training: a head, its data and its checkpoint file, on a device."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from app.forge.answering.parts import Parts
from app.forge.files.reading import matrix_of
from app.forge.request import ForgeRequest
from app.forge.training.devices import device_of, use_threads
from app.forge.training.eagle3_head import Head, Shape
from app.forge.training.head_facts import HeadFacts
from app.forge.training.trainer import Batches, Trainer, until


class TrainingSession:
    """A head in training; the caller sets `seconds` and calls `save`."""

    def __init__(
        self, request: ForgeRequest, facts: HeadFacts, checkpoint: Path, parts: Parts, start: dict[str, Any]
    ) -> None:
        """Make the head from its start; raises UsageError for a device that is not there."""
        use_threads(request.threads)
        sizes, kept = facts.sizes, start["kept"]
        head = Head(Shape(facts.width, 3 * facts.width, sizes.heads, sizes.feed_forward, facts.epsilon, facts.base))
        of_rows, of_embedding, scale = (
            torch.from_numpy(start[name]).float() for name in ("of_rows", "of_embedding", "scale")
        )
        head.start(of_rows, of_embedding, scale, float(start["output"]))
        embedding = torch.from_numpy(matrix_of(request.target, "token_embd.weight"))
        output = torch.from_numpy(matrix_of(request.target, "output.weight", "token_embd.weight")[kept])
        self._trainer = Trainer(head, embedding, output, device_of(request.device))
        self._batches = Batches(parts, kept, facts.vocabulary)
        self._checkpoint = checkpoint
        self._first: tuple[float, ...] = ()

    @property
    def seconds(self) -> float:
        """Seconds of training so far."""
        return self._trainer.seconds

    @seconds.setter
    def seconds(self, value: float) -> None:
        self._trainer.seconds = value

    @property
    def places(self) -> int:
        """Places that training has seen, with repetitions."""
        return self._trainer.tokens

    def begin(self) -> tuple[float, ...]:
        """Measure the start, then go on from the checkpoint, if any; raises LocalspecError for a damaged one."""
        self._first = self.accuracy()
        if self._checkpoint.exists():
            self._trainer.load(self._checkpoint)
        return self._first

    def run(self, share: Callable[[], float], after: Callable[[float], None]) -> None:
        """Train until `share` of the time is 1; see `training.until`."""
        until(self._trainer, self._batches.endless(self._trainer.steps), share, after)

    def accuracy(self) -> tuple[float, ...]:
        """Return the shares of held-back places where the head is right, by step."""
        return self._trainer.accuracy(self._batches.held()).share

    def tensors(self) -> dict[str, NDArray[np.float32]]:
        """Return the head's tensors by their names in a file."""
        return self._trainer.tensors()

    def save(self) -> None:
        """Write the checkpoint in place of the last one; raises OSError."""
        self._trainer.save(self._checkpoint)
