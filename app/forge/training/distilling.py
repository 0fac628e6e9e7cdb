"""Training of a draft model on a target's answers, in float32: knowledge distillation for drafting.

With one vocabulary the draft model's distribution is brought nearer to the target's, as kept with the answers; else it
learns to say what the target said.

Source: DistillSpec (Zhou et al. 2023, arXiv 2310.08461): forward KL on the target's own samples.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from app.forge.answering.examples import Example
from app.forge.answering.parts import HELD
from app.forge.training.checkpoint import loaded_checkpoint, save_checkpoint
from app.forge.training.llama_network import Network

BATCH = 512
"""Tokens of one step, the ends of shorter texts included."""
_MOST_HELD = 24
"""Held-back answers that are measured at most: each takes as long as a step of learning."""
_FAST, _WARM = 5e-4, 30
"""Highest rate of learning, and the steps until it is reached."""
_CLIP = 1.0


@dataclass(frozen=True, slots=True)
class Batch:
    """Texts side by side, filled up at their ends."""

    tokens: Tensor
    """Shape (texts, places)."""
    learnt: Tensor
    """Places that are learnt, shape (texts, places), true or false."""
    labels: Tensor
    """Tokens that may follow these, in their order, shape (learnt, KEPT)."""
    chances: Tensor
    """Their chances; 0: does not count."""


class DistillationBatches:
    """Batches of examples."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self._learnt = [each for number, each in enumerate(examples) if number % HELD] or list(examples)
        self._held = [each for number, each in enumerate(examples) if number % HELD == 0][:_MOST_HELD]

    def endless(self, seed: int) -> Iterator[Batch]:
        """Yield batches in ever new orders."""
        draw = random.Random(seed)
        while True:
            order = sorted(self._learnt, key=lambda each: len(each.tokens) + draw.uniform(-16, 16))
            groups = list(_groups(order))
            draw.shuffle(groups)
            yield from map(_batch, groups)

    def held(self) -> Iterator[Batch]:
        """Yield the examples that are never learnt from."""
        yield from map(_batch, _groups(sorted(self._held, key=lambda each: len(each.tokens))))


def _groups(examples: Sequence[Example]) -> Iterator[list[Example]]:
    group: list[Example] = []
    for each in examples:
        if group and len(each.tokens) * (len(group) + 1) > BATCH:
            yield group
            group = []
        group.append(each)
    if group:
        yield group


def _batch(group: Sequence[Example]) -> Batch:
    places = max(len(each.tokens) for each in group)
    tokens, learnt = np.zeros((len(group), places), np.int64), np.zeros((len(group), places), np.bool_)
    for number, each in enumerate(group):
        tokens[number, : len(each.tokens)] = each.tokens
        learnt[number, each.asked - 1 : len(each.tokens)] = True
    labels, chances = (np.concatenate([getattr(each, name) for each in group]) for name in ("labels", "chances"))
    return Batch(*map(torch.from_numpy, (tokens, learnt, np.maximum(labels, 0), chances)))


class DistillationTrainer:
    """A draft model in training, and its checkpoint; see `clock.Learner`."""

    def __init__(self, network: Network, batches: DistillationBatches, checkpoint: Path, device: torch.device) -> None:
        self.network = network.to(device)
        self.seconds, self._steps, self._places = 0.0, 0, 0
        self._device, self._checkpoint = device, checkpoint
        self._batches, self._stream = batches, batches.endless(0)
        self._optimizer = torch.optim.AdamW(network.parameters(), lr=0.0, betas=(0.9, 0.95), weight_decay=0.0)

    @property
    def places(self) -> int:
        """Places that training has seen, with repetitions."""
        return self._places

    def step(self, done: float) -> float:
        """Take one step of learning at a share `done` of the time; return the loss."""
        for group in self._optimizer.param_groups:
            group["lr"] = _FAST * min(1.0, (self._steps + 1) / _WARM) * max(0.05, 1.0 - done)
        batch = next(self._stream)
        loss, _, places = self._loss(batch)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), _CLIP)
        self._optimizer.step()
        self._steps += 1
        self._places += places
        return float(loss.detach())

    @torch.no_grad()
    def accuracy(self) -> float:
        """Return the share of held-back places where the draft model names the target's token."""
        right = counted = 0
        for batch in self._batches.held():
            _, found, places = self._loss(batch)
            right, counted = right + found, counted + places
        return right / max(1, counted)

    @torch.no_grad()
    def logits(self, tokens: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the logits after each token of a text, shape (tokens, vocabulary)."""
        rows = self.network(torch.from_numpy(tokens)[None].to(self._device))[0]
        found: NDArray[np.float32] = self.network.logits(rows).float().cpu().numpy()
        return found

    def _loss(self, batch: Batch) -> tuple[Tensor, int, int]:
        """Return the loss, the places that are right, and those that count."""
        labels, chances = batch.labels.to(self._device), batch.chances.to(self._device)
        rows = self.network(batch.tokens.to(self._device))[batch.learnt.to(self._device)]
        counts = chances.sum(-1) > 0
        logits = self.network.logits(rows[counts])
        places = int(counts.sum())
        chosen = logits.log_softmax(-1).gather(1, labels[counts])
        right = int((logits.argmax(-1) == labels[counts][:, 0]).sum())
        return -(chosen * chances[counts]).sum() / max(1, places), right, places

    def save(self) -> None:
        """Write everything that training goes on from; raises OSError."""
        counts = (self._steps, self._places, self.seconds)
        network = self.network.state_dict()
        save_checkpoint(
            self._checkpoint, {"network": network, "optimizer": self._optimizer.state_dict(), "counts": counts}
        )

    def load(self) -> None:
        """Go on from the checkpoint, if there is one; raises LocalspecError for a damaged one."""
        if not self._checkpoint.exists():
            return
        with loaded_checkpoint(self._checkpoint, self._device) as state:
            self.network.load_state_dict(state["network"])
            self._optimizer.load_state_dict(state["optimizer"])
            self._steps, self._places, self.seconds = state["counts"]
        self._stream = self._batches.endless(self._steps)
