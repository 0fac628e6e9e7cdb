"""Training of an EAGLE-3 head on stored answers, in float32, by the clock; interrupted and continued at any time.

Each place of an answer is one example: the head's distribution over its tokens is brought nearer to the target's, as
kept with the answer. The first part of the time trains one step, later parts two and three, in which the head reads its
own rows as it does when it drafts.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from app.forge.answering.answers import Answer
from app.forge.answering.parts import HELD, Parts, Stored
from app.forge.training.checkpoint import loaded_checkpoint, save_checkpoint
from app.forge.training.eagle3_head import Head

BATCH = 1024
"""Places of one step, the ends of shorter answers included."""
_FAST, _WARM = 1e-3, 60
"""Highest rate of learning, and the steps until it is reached."""
_CLIP = 1.0
_DECAY = 0.01
_NEAR = 64
"""Batches among whose answers those of like length are put together."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How often a head is right about the target's likeliest token, by step: on its own rows from the second on."""

    share: tuple[float, ...]
    places: int
    loss: float


@dataclass(frozen=True, slots=True)
class Batch:
    """Answers side by side, filled up at their ends."""

    tokens: Tensor
    """Tokens of the pairs, shape (answers, places)."""
    rows: Tensor
    chances: Tensor
    """Chances of the likeliest next tokens that the head knows, shape (answers, places, KEPT); 0: does not count."""
    labels: Tensor
    """Places of these tokens in the head's output."""


class Batches:
    """Batches of stored answers."""

    def __init__(self, parts: Parts, kept: NDArray[np.int64], size: int) -> None:
        """Take the tokens of the head's output, of a vocabulary of `size`."""
        self._parts = parts
        self._label = np.full(size + 1, -1, np.int64)
        self._label[kept] = np.arange(len(kept))

    def endless(self, seed: int) -> Iterator[Batch]:
        """Yield batches in ever new orders."""
        draw = random.Random(seed)
        while True:
            # What was answered in the meantime counts too.
            answers = [each for number, each in enumerate(self._parts.answers) if number % HELD]
            draw.shuffle(answers)
            for group in _grouped(answers, draw):
                yield self._batch(group)

    def held(self) -> Iterator[Batch]:
        """Yield the answers that are never learnt from."""
        answers = [each for number, each in enumerate(self._parts.answers) if number % HELD == 0]
        for group in _grouped(answers, random.Random(0)):
            yield self._batch(group)

    def _batch(self, group: Sequence[Stored]) -> Batch:
        answers = [self._parts.read(each) for each in group]
        places = max(len(each.tokens) for each in answers) - 1
        filled = [self._pairs(each, places) for each in answers]
        return Batch(*(torch.from_numpy(np.stack(column)) for column in zip(*filled, strict=True)))

    def _pairs(self, answer: Answer, places: int) -> tuple[NDArray[Any], ...]:
        """Return token, row, chances and labels of each pair of an answer, filled up to `places`."""
        left = places - (len(answer.tokens) - 1)
        labels = self._label[answer.likely[1:]]
        logits = np.where(labels >= 0, answer.logits[1:].astype(np.float32), -np.inf)
        whole = np.exp(np.where(answer.likely[1:] >= 0, answer.logits[1:].astype(np.float32), -np.inf))
        # What the head can't draft counts for nothing, and the rest of that place in proportion.
        chances = np.exp(logits) / np.maximum(whole.sum(1, keepdims=True), 1e-9)
        return (
            np.pad(answer.tokens[1:].astype(np.int64), (0, left)),
            np.pad(answer.rows[:-1].astype(np.float32), ((0, left), (0, 0))),
            np.pad(chances.astype(np.float32), ((0, left), (0, 0))),
            np.pad(np.maximum(labels, 0), ((0, left), (0, 0))),
        )


class Trainer:
    """A head in training, and its file."""

    def __init__(self, head: Head, embedding: Tensor, output: Tensor, device: torch.device) -> None:
        """Take a head that was started, the target's embedding and the rows of its output matrix that are kept."""
        self.head = head.to(device)
        self._device = device
        self._embedding, self._output = embedding, output.to(device)
        self._optimizer = torch.optim.AdamW(head.parameters(), lr=0.0, betas=(0.9, 0.95), weight_decay=_DECAY)
        self.steps, self.tokens = 0, 0
        self.seconds = 0.0

    def train(self, batch: Batch, done: float, steps: int) -> float:
        """Take one step of learning at a share `done` of the time; return the loss."""
        for group in self._optimizer.param_groups:
            group["lr"] = _FAST * min(1.0, (self.steps + 1) / _WARM) * max(0.05, 1.0 - done)
        self.head.train()
        losses, _, _ = self._losses(batch, steps)
        loss = torch.stack([each * 0.8**number for number, each in enumerate(losses)]).sum()
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.head.parameters(), _CLIP)
        self._optimizer.step()
        self.steps += 1
        self.tokens += int((batch.chances.sum(-1) > 0).sum())
        return float(losses[0].detach())

    @torch.no_grad()
    def accuracy(self, batches: Iterator[Batch], steps: int = 3) -> Accuracy:
        """Measure how often the head is right on answers that it never learnt from."""
        self.head.eval()
        right, places, lost = [0] * steps, 0, 0.0
        for batch in batches:
            losses, found, counted = self._losses(batch, steps)
            right = [before + now for before, now in zip(right, found, strict=True)]
            places += counted
            lost += float(losses[0]) * counted
        return Accuracy(tuple(each / max(1, places) for each in right), places, lost / max(1, places))

    def _losses(self, batch: Batch, steps: int) -> tuple[list[Tensor], list[int], int]:
        """Return the loss of each step, the first tokens that were right, and the places that count.

        Right at a later step means right there and at all steps before: a drafted token counts only then.
        """
        embedded = self._embedding[batch.tokens].to(self._device)
        chances, labels = batch.chances.to(self._device), batch.labels.to(self._device)
        found = self.head(embedded, batch.rows.to(self._device), steps)
        counts = chances.sum(-1) > 0
        losses, right = [], []
        good = counts
        for step, rows in enumerate(found):
            # A later step starts that much later in the answer.
            here = counts.clone()
            here[:, :step] = False
            logits = rows[here] @ self._output.T
            chosen = logits.log_softmax(-1).gather(1, labels[here])
            losses.append(-(chosen * chances[here]).sum(-1).mean())
            hit = torch.zeros_like(counts)
            # The likeliest of all may be one that the head does not know.
            hit[here] = (logits.argmax(-1) == labels[here][:, 0]) & (chances[here][:, 0] > 0)
            before = torch.nn.functional.pad(good[:, :-1], (1, 0)) if step else counts
            good = hit & before
            right.append(int(good.sum()))
        return losses, right, int(counts.sum())

    def save(self, path: Path) -> None:
        """Write everything that training goes on from in place of a file; raises OSError."""
        state = {
            "head": self.head.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "scale": self.head.scale,
            "counts": (self.steps, self.tokens, self.seconds),
        }
        save_checkpoint(path, state)

    def load(self, path: Path) -> None:
        """Go on from a file; raises LocalspecError for a damaged one, and for one of another head."""
        with loaded_checkpoint(path, self._device) as state:
            self.head.load_state_dict(state["head"])
            self.head.scale.copy_(state["scale"])
            self._optimizer.load_state_dict(state["optimizer"])
            self.steps, self.tokens, self.seconds = state["counts"]

    def tensors(self) -> dict[str, NDArray[np.float32]]:
        """Return the head's tensors by their names in a file, without ".weight"."""
        state = {
            name.removesuffix(".weight"): value.detach().float().cpu().numpy()
            for name, value in self.head.named_parameters()
        }
        state["fc"] = state["fc"] / self.head.scale.cpu().numpy()
        outside = ("fc", "output_norm")
        return {name if name in outside else f"blk.0.{name}": value for name, value in state.items()}


def steps_at(done: float) -> int:
    """Return how many steps to train at a share of the time: first one, then as many as are drafted."""
    return 1 if done < 0.45 else 2 if done < 0.85 else 3


def until(
    trainer: Trainer, batches: Iterator[Batch], share: Callable[[], float], after: Callable[[float], None]
) -> None:
    """Train until `share` of the time is 1; `after` gets the loss of each step, and may raise to end it."""
    while (done := share()) < 1:
        after(trainer.train(next(batches), done, steps_at(done)))


def _grouped(answers: Sequence[Stored], draw: random.Random) -> Iterator[list[Stored]]:
    """Put answers of like length together, so that little is filled up."""
    stretch = _NEAR * 4
    for first in range(0, len(answers), stretch):
        near = sorted(answers[first : first + stretch], key=lambda each: each.length)
        groups, group = [], list[Stored]()
        for each in near:
            if group and each.length * (len(group) + 1) > BATCH:
                groups.append(group)
                group = []
            group.append(each)
        groups.append(group)
        draw.shuffle(groups)
        yield from groups
