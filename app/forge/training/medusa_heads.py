"""Medusa heads in torch, and their training on stored answers, in float32.

Each token of an answer is one example: from the target's row after it, head k predicts the target's distribution k
tokens later, as kept with the answer.

Source: Medusa (Cai et al. 2024, arXiv 2401.10774), 2.2.1; the heads' weights in the loss are the paper's.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from app.forge.answering.answers import Answer
from app.forge.answering.parts import HELD, Parts
from app.forge.training.checkpoint import loaded_checkpoint, save_checkpoint
from app.forge.training.devices import device_of, use_threads
from app.forge.training.medusa_start import Matrix, answered_rows, normed

BATCH = 512
"""Places of one step, at least."""
_FAST, _WARM = 5e-4, 60
"""Highest rate of learning, and the steps until it is reached."""
_LATER = 0.8
"""Weight of each head's loss, of that of the head before."""
_CLIP, _DECAY = 1.0, 0.01


class MedusaHeads(nn.Module):
    """K heads on one row. Their output matrix is the target's, cut to some tokens, and is not trained."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.linear, self.gates = (nn.Parameter(torch.zeros(heads, width, width)) for _ in range(2))
        self.biases = nn.Parameter(torch.zeros(heads, width))

    def forward(self, rows: Tensor) -> Tensor:
        """Return the rows before the output matrix of each head, shape (heads, places, width)."""
        linear, gates = (rows @ matrices.transpose(1, 2) for matrices in (self.linear, self.gates))
        return linear + functional.silu(gates + self.biases[:, None])


@dataclass(frozen=True, slots=True)
class Batch:
    """Places of some answers."""

    rows: Tensor
    """The target's rows after its last norm, shape (places, width)."""
    chances: Tensor
    """Chances of the likeliest tokens that the heads know, shape (heads, places, KEPT); 0: does not count."""
    labels: Tensor
    """Places of these tokens in the output."""


class Batches:
    """Batches of stored answers."""

    def __init__(
        self, parts: Parts, heads: int, kept: NDArray[np.int64], size: int, norm: NDArray[np.float32], epsilon: float
    ) -> None:
        """Take the tokens that can be drafted, of a vocabulary of `size`, and the norm by which rows are read."""
        self._parts, self._heads = parts, heads
        self._norm, self._epsilon = norm, epsilon
        # The last entry is that of -1, which stands for no token.
        self._label = np.full(size + 1, -1, np.int64)
        self._label[kept] = np.arange(len(kept))

    def endless(self, seed: int) -> Iterator[Batch]:
        """Yield batches in ever new orders."""
        draw, total = random.Random(seed), len(self._parts.answers)
        numbers = [number for number in range(total) if number % HELD] or list(range(total))
        while True:
            draw.shuffle(numbers)
            yield from self._batches(numbers)

    def held(self) -> Iterator[Batch]:
        """Yield the answers that are never learnt from."""
        yield from self._batches(range(0, len(self._parts.answers), HELD))

    def _batches(self, numbers: Sequence[int]) -> Iterator[Batch]:
        group: list[Answer] = []
        for number in numbers:
            group.append(self._parts.read(self._parts.answers[number]))
            if sum(len(each.tokens) - each.asked for each in group) >= BATCH:
                yield self._batch(group)
                group = []
        if group:
            yield self._batch(group)

    def _batch(self, group: Sequence[Answer]) -> Batch:
        rows = np.concatenate([normed(answered_rows(each), self._norm, self._epsilon) for each in group])
        found = [self._wanted(each) for each in group]
        chances, labels = (np.concatenate(each, axis=1) for each in zip(*found, strict=True))
        return Batch(*map(torch.from_numpy, (rows, chances, labels)))

    def _wanted(self, answer: Answer) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return chances and labels of each head after each row of an answer."""
        likely, logits = (each[answer.asked - 1 :] for each in (answer.likely, answer.logits.astype(np.float32)))
        labels = self._label[likely]
        whole = np.exp(np.where(likely >= 0, logits, -np.inf)).sum(1, keepdims=True)
        # What the heads can't draft counts for nothing, and the rest of that place in proportion.
        chances = np.exp(np.where(labels >= 0, logits, -np.inf)) / np.maximum(whole, 1e-9)
        later = range(1, self._heads + 1)
        return (
            np.stack([_moved(chances.astype(np.float32), by) for by in later]),
            np.stack([_moved(np.maximum(labels, 0), by) for by in later]),
        )


def _moved(values: NDArray[Any], by: int) -> NDArray[Any]:
    """Return each row of numbers `by` places earlier, and zeros at the end."""
    moved = np.zeros_like(values)
    moved[: max(0, len(values) - by)] = values[by:]
    return moved


def new_trainer(
    linear: Matrix, output: Matrix, batches: Batches, checkpoint: Path, *, device: str, threads: int
) -> "MedusaTrainer":
    """Return a trainer of heads that begin as these matrices; raises UsageError for a device that is not there."""
    use_threads(threads)
    heads = MedusaHeads(len(linear), linear.shape[1])
    with torch.no_grad():
        heads.linear.copy_(torch.from_numpy(linear))
    return MedusaTrainer(heads, torch.from_numpy(output), batches, checkpoint, device_of(device))


class MedusaTrainer:
    """Heads in training, and their checkpoint; see `clock.Learner`."""

    def __init__(
        self, heads: MedusaHeads, output: Tensor, batches: Batches, checkpoint: Path, device: torch.device
    ) -> None:
        """Take heads that were started, and the target's output matrix for the tokens that are kept."""
        self.heads = heads.to(device)
        self.seconds, self._steps, self._places = 0.0, 0, 0
        self._device, self._output = device, output.to(device)
        self._batches, self._stream = batches, batches.endless(0)
        self._checkpoint = checkpoint
        self._optimizer = torch.optim.AdamW(heads.parameters(), lr=0.0, betas=(0.9, 0.95), weight_decay=_DECAY)

    @property
    def places(self) -> int:
        """Places that training has seen, with repetitions."""
        return self._places

    def step(self, done: float) -> float:
        """Take one step of learning at a share `done` of the time; return the loss of the first head."""
        for group in self._optimizer.param_groups:
            group["lr"] = _FAST * min(1.0, (self._steps + 1) / _WARM) * max(0.05, 1.0 - done)
        batch = next(self._stream)
        losses, _, _ = self._losses(batch)
        total = torch.stack([loss * _LATER**head for head, loss in enumerate(losses)]).sum()
        self._optimizer.zero_grad(set_to_none=True)
        total.backward()
        nn.utils.clip_grad_norm_(self.heads.parameters(), _CLIP)
        self._optimizer.step()
        self._steps += 1
        self._places += len(batch.rows)
        return float(losses[0].detach())

    @torch.no_grad()
    def accuracy(self) -> tuple[float, ...]:
        """Return for each head the share of held-back places where it and all heads before it are right."""
        right, counted = [0] * len(self.heads.biases), 0
        for batch in self._batches.held():
            _, found, places = self._losses(batch)
            right = [before + now for before, now in zip(right, found, strict=True)]
            counted += places
        return tuple(each / max(1, counted) for each in right)

    def matrices(self) -> tuple[Matrix, Matrix, Matrix]:
        """Return the matrices beside and within the gates, and the biases, as a file has them."""
        heads = self.heads
        linear, gates, biases = (
            each.detach().float().cpu().numpy() for each in (heads.linear, heads.gates, heads.biases)
        )
        return linear, gates, biases

    def _losses(self, batch: Batch) -> tuple[list[Tensor], list[int], int]:
        """Return the loss of each head, the places where it and those before are right, and the places that count."""
        chances, labels = batch.chances.to(self._device), batch.labels.to(self._device)
        rows = self.heads(batch.rows.to(self._device))
        counts = chances.sum(-1) > 0
        losses, right, good = [], [], counts[0]
        for head, predicted in enumerate(rows):
            here = counts[head]
            logits = predicted[here] @ self._output.T
            chosen = logits.log_softmax(-1).gather(1, labels[head][here])
            losses.append(-(chosen * chances[head][here]).sum() / max(1, int(here.sum())))
            hit = torch.zeros_like(here)
            # The likeliest of all may be one that the heads do not know.
            hit[here] = (logits.argmax(-1) == labels[head][here][:, 0]) & (chances[head][here][:, 0] > 0)
            good = good & hit
            right.append(int(good.sum()))
        return losses, right, int(counts[0].sum())

    def save(self) -> None:
        """Write everything that training goes on from; raises OSError."""
        counts = (self._steps, self._places, self.seconds)
        state = {"heads": self.heads.state_dict(), "optimizer": self._optimizer.state_dict(), "counts": counts}
        save_checkpoint(self._checkpoint, state)

    def load(self) -> None:
        """Go on from the checkpoint, if there is one; raises LocalspecError for a damaged one."""
        if not self._checkpoint.exists():
            return
        with loaded_checkpoint(self._checkpoint, self._device) as state:
            self.heads.load_state_dict(state["heads"])
            self._optimizer.load_state_dict(state["optimizer"])
            self._steps, self._places, self.seconds = state["counts"]
        self._stream = self._batches.endless(self._steps)
