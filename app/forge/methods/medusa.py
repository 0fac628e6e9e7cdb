"""Medusa heads: answers with the target's last rows, closed-form start, training, file.

Source: Medusa (Cai et al. 2024, arXiv 2401.10774). The heads share the target's output matrix.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from app.forge.answering.answers import CONTEXT, TOGETHER
from app.forge.answering.collecting import collect
from app.forge.answering.parts import Parts
from app.forge.estimate import answered
from app.forge.files.medusa_file import MedusaFile, write_medusa
from app.forge.files.reading import matrix_of
from app.forge.methods.base import Job, MadeHeads, Method, Plan
from app.forge.request import ForgeRequest
from app.forge.target import facts_of
from app.forge.training.head_facts import kept_tokens, norm_epsilon
from app.forge.training.medusa_start import Matrix, answered_rows, closed_form, named_right, normed, size_of
from models.errors import LocalspecError, PairError
from models.gguf.header import read_model
from models.gguf.heads import HeadFile, HeadKind, unsuitable
from models.heads.medusa.network import NORM, OUTPUTS

HEADS = 4
"""Heads: the longest draft. A later place than the fourth is right too seldom."""
_ANSWERING, _TRAINING = 0.4, 0.5
"""Shares of the minutes for the target's answers and for training; the rest is for measuring."""
_STARTING = 512
"""Answers of which the closed form is computed, at most."""
_CHECKED = 8
"""Answers on which it is checked what the last rows mean."""
_UNDERSTOOD = 0.9
"""Least share of places where norm and output matrix have to name the target's own likeliest token."""


@dataclass(frozen=True, slots=True)
class MadeMedusa(MadeHeads):
    """What the heads were made from."""

    heads: int = 0


class Medusa:
    """The method."""

    minutes = 30.0
    flags = frozenset({"train", "device", "quantisation"})

    def libraries(self, *, train: bool) -> tuple[str, ...]:
        """Return the modules that have to be installed."""
        return ("torch", "gguf") if train else ("gguf",)

    def check(self, target: Path, draft: str | None) -> None:  # noqa: ARG002
        """Raise PairError, with every reason, for a target that no such heads can be made for."""
        header, facts = read_model(target), facts_of(target)
        wanted = HeadFile(
            target, HeadKind.MEDUSA, "medusa", facts.width, facts.width, (facts.blocks,), borrows=True, faults=()
        )
        reasons, names = unsuitable(wanted, header), {tensor.name for tensor in header.tensors}
        if NORM not in names or "output_norm.bias" in names:
            reasons.append("its last norm is none of root mean squares, which alone is supported")
        if not names & {*OUTPUTS}:
            reasons.append("its file has no output matrix")
        if reasons:
            raise PairError(
                f"No Medusa heads can be made for {target.name}.",
                cause="\n".join(f"- {reason}" for reason in reasons),
                hint="The suffix index and the starter draft for any model, with no flag.",
            )

    def plan(self, request: ForgeRequest) -> Plan:
        """Return what it will take."""
        facts, took = request.facts, answered(request, request.minutes * 60 * _ANSWERING)
        weights = 2 * HEADS * facts.width**2
        answering = facts.size + TOGETHER * CONTEXT * facts.width * 64
        training = weights * 16 + facts.vocabulary * facts.width * 8 + (1 << 30)
        return Plan(
            f"{HEADS} Medusa heads for {request.target.name}: {facts.architecture}, rows of {facts.width:,} numbers.",
            f"About {took:,} tokens of answers. {_expected(train=request.train)}",
            took * (facts.width * 2 + 60) + weights * 16,
            max(answering, training if request.train else 0),
        )

    def make(self, job: Job) -> MadeMedusa:
        """Make the heads' file in the work folder."""
        return _MedusaMaker(job).make()


class _MedusaMaker:
    """Maker of the heads for one target."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._request, self._work = job.request, job.work
        self._norm: Matrix = matrix_of(job.request.target, NORM)
        self._epsilon = norm_epsilon(job.request.target)

    def make(self) -> MadeMedusa:
        """Make the heads' file; raises LocalspecError, OSError, and Cancelled."""
        request = self._request
        share = _ANSWERING if request.train else _ANSWERING + _TRAINING
        parts = collect(self._job, request.minutes * 60 * share, (request.facts.blocks,))
        made = MadeMedusa(len(parts.answers), parts.tokens, self._work.progress.collected, heads=HEADS)
        start = self._start(parts)
        if request.train:
            return self._train(parts, start, made)
        zero = np.zeros_like(start.linear)
        self._write(start, start.linear, zero, zero[:, 0])
        return made

    def _start(self, parts: Parts) -> "_Start":
        """Return the closed-form start, computed once: what training began with must not change later."""
        if self._work.start.exists():
            with np.load(self._work.start) as file:
                return _Start(file["linear"], file["kept"], float(file["scale"]))
        self._job.tell("computing the start", 0, 1)
        answers = [parts.read(stored) for stored in parts.answers[:_STARTING]]
        rows = [normed(answered_rows(each), self._norm, self._epsilon) for each in answers]
        kept = kept_tokens(parts, self._request.facts.vocabulary)
        likeliest = np.concatenate([each.likely[each.asked - 1 :, 0] for each in answers[:_CHECKED]])
        self._check_rows(np.concatenate(rows[:_CHECKED]), likeliest, kept)
        start = _Start(closed_form(rows, HEADS), kept, size_of(rows))
        partial = self._work.start.with_suffix(".partial.npz")
        np.savez(partial, allow_pickle=False, linear=start.linear, kept=kept, scale=start.scale)
        partial.replace(self._work.start)
        return start

    def _check_rows(self, rows: Matrix, likeliest: NDArray[np.int32], kept: NDArray[np.int64]) -> None:
        """Raise LocalspecError where the target does not turn its last rows into tokens as is assumed here."""
        right = named_right(rows, likeliest, self._output(kept), kept)
        if right < _UNDERSTOOD:
            raise LocalspecError(
                f"Models of the architecture {self._request.facts.architecture} are not understood.",
                cause=f"Their last rows name the token that they emit in {right:.0%} of places, not in all.",
                hint="--method eagle3 makes a head without these rows.",
            )

    def _train(self, parts: Parts, start: "_Start", made: MadeMedusa) -> MadeMedusa:
        # torch takes seconds to import, and is wanted here alone.
        from app.forge.training.clock import train
        from app.forge.training.medusa_heads import Batches, new_trainer

        request = self._request
        batches = Batches(parts, HEADS, start.kept, request.facts.vocabulary, self._norm / start.scale, self._epsilon)
        output = self._output(start.kept) * np.float32(start.scale)
        trainer = new_trainer(
            start.linear, output, batches, self._work.checkpoint, device=request.device, threads=request.threads
        )
        first = trainer.accuracy()
        trainer.load()
        train(self._job, trainer, request.minutes * 60 * _TRAINING)
        self._job.tell("measuring the heads on answers they never saw", 1, 1)
        last = trainer.accuracy()
        self._write(start, *trainer.matrices())
        return replace(made, places=trainer.places, training_seconds=trainer.seconds, start_right=first, right=last)

    def _output(self, kept: NDArray[np.int64]) -> Matrix:
        return matrix_of(self._request.target, *OUTPUTS)[kept]

    def _write(self, start: "_Start", linear: Matrix, gates: Matrix, biases: Matrix) -> None:
        request, norm = self._request, self._norm / np.float32(start.scale)
        layers = request.facts.blocks
        content = MedusaFile(linear, gates, biases, norm, self._epsilon, start.kept, layers, start.scale)
        write_medusa(self._work.drafter, content, request.identity.digest, request.kind)


@dataclass(frozen=True, slots=True)
class _Start:
    """What training begins with."""

    linear: Matrix
    """Matrices of the closed form, shape (HEADS, width, width)."""
    kept: NDArray[np.int64]
    """Tokens that are drafted."""
    scale: float
    """Size of a number of the target's last rows: training divides them by it."""


def _expected(*, train: bool) -> str:
    if not train:
        return "Without training the first draft token is right about once in seven times: no gain, a look at the way."
    return (
        "The first draft token is expected to be right 2 or 3 times in 10: heads on the last row know less than an "
        "EAGLE-3 head, and cost less. Small models seldom gain."
    )


METHOD: Method = Medusa()
"""The method, as the registry imports it."""
