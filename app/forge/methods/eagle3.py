"""An EAGLE-3 head: answers with their rows, closed-form start, training, file. Each step goes on from what is on disk.

Source: Li et al. 2025, "EAGLE-3: Scaling up Inference Acceleration of Large Language Models via Training-Time Test",
arXiv 2503.01840.
"""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from app.forge.answering.answers import CONTEXT, TOGETHER
from app.forge.answering.collecting import SAVED, collect
from app.forge.answering.parts import Parts
from app.forge.estimate import answered
from app.forge.files.head_file import write_head
from app.forge.files.reading import matrix_of
from app.forge.methods.base import Job, MadeHeads, Method, Plan
from app.forge.request import ForgeRequest
from app.forge.training.closed_form import closed_form, last_rows
from app.forge.training.head_facts import head_facts, kept_tokens

_ANSWERING, _TRAINING = 0.4, 0.5
"""Shares of the minutes for the target's answers and for training; the rest is for measuring."""
_STARTING = 64
"""Answers of which the closed form is computed."""


@dataclass(frozen=True, slots=True)
class MadeEagle3(MadeHeads):
    """What a head was made from."""

    layers: tuple[int, ...] = ()
    """Layers of the target that it reads."""


class Eagle3:
    """The method."""

    minutes = 60.0
    flags = frozenset({"train", "device", "quantisation"})

    def libraries(self, *, train: bool) -> tuple[str, ...]:
        """Return the modules that have to be installed."""
        return ("torch", "gguf") if train else ("gguf",)

    def check(self, target: Path, draft: str | None) -> None:  # noqa: ARG002
        """Raise PairError for a target that no head can be made for."""
        head_facts(target)

    def plan(self, request: ForgeRequest) -> Plan:
        """Return what it will take."""
        facts, sizes, took = request.facts, head_facts(request.target), _tokens(request)
        layers = ", ".join(map(str, sizes.layers))
        answering = facts.size + TOGETHER * CONTEXT * facts.width * 64
        training = sizes.parameters * 16 + facts.vocabulary * facts.width * 8 + (1 << 30)
        return Plan(
            f"A draft head (EAGLE-3) for {request.target.name}: {facts.architecture}, rows of {facts.width:,} numbers, "
            f"layers {layers}.",
            f"About {took:,} tokens of answers. {_expected(took, train=request.train)}",
            took * (3 * facts.width * 2 + 60) + sizes.parameters * 16,
            max(answering, training if request.train else 0),
        )

    def make(self, job: Job) -> MadeEagle3:
        """Make the head's file in the work folder."""
        return _HeadMaker(job).make()


class _HeadMaker:
    """Maker of one head."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._request = job.request
        self._work = job.work
        self._facts = head_facts(job.request.target)

    def make(self) -> MadeEagle3:
        """Make the head's file in the work folder; raises LocalspecError, OSError, and Cancelled."""
        share = _ANSWERING if self._request.train else _ANSWERING + _TRAINING
        parts = collect(self._job, self._request.minutes * 60 * share, self._facts.layers)
        collected = self._work.progress.collected
        made = MadeEagle3(len(parts.answers), parts.tokens, collected, layers=self._facts.layers)
        start = self._start(parts)
        return self._train(parts, start, made) if self._request.train else self._untrained(start, made)

    def _start(self, parts: Parts) -> dict[str, Any]:
        """Return the closed-form start, computed once: what training began with must not change later."""
        if self._work.start.exists():
            with np.load(self._work.start) as file:
                return {name: file[name] for name in file.files}
        request = self._request
        self._job.tell("computing the start", 0, 1)
        answers = [parts.read(stored) for stored in parts.answers[:_STARTING]]
        hidden = last_rows(request.target, answers, self._job.abort, request.threads)
        embedding = matrix_of(request.target, "token_embd.weight")
        of_rows, of_embedding = closed_form(answers, hidden, embedding)
        rows = np.concatenate([answer.rows[1:] for answer in answers]).astype(np.float32)
        kept = kept_tokens(parts, request.facts.vocabulary)
        start = {
            "of_rows": of_rows,
            "of_embedding": of_embedding,
            "scale": np.sqrt((rows**2).mean(0)) + 1e-6,
            "output": np.sqrt(np.mean(np.concatenate([each[1:] for each in hidden]) ** 2)),
            "kept": kept,
        }
        partial = self._work.start.with_suffix(".partial.npz")
        np.savez(partial, allow_pickle=False, **start)
        partial.replace(self._work.start)
        return start

    def _untrained(self, start: dict[str, Any], made: MadeEagle3) -> MadeEagle3:
        """Write the closed-form head: the feed-forward part is zero, and each token attends to itself."""
        width, inner = self._facts.width, self._facts.sizes.feed_forward
        ones, one, zero = (
            np.ones(width, np.float32),
            np.eye(width, dtype=np.float32),
            np.zeros((width, width), np.float32),
        )
        own = np.concatenate((2 * one, zero), axis=1)
        tensors = {
            "fc": start["of_rows"],
            "output_norm": ones * start["output"],
            **{f"blk.0.{name}": ones for name in ("attn_norm", "attn_norm_2", "ffn_norm")},
            **{f"blk.0.{name}": own for name in ("attn_q", "attn_k")},
            "blk.0.attn_v": np.concatenate((start["of_embedding"], zero), axis=1),
            "blk.0.attn_output": one,
            **{f"blk.0.{name}": np.zeros((inner, width), np.float32) for name in ("ffn_gate", "ffn_up")},
            "blk.0.ffn_down": np.zeros((width, inner), np.float32),
        }
        self._write(tensors, start)
        return made

    def _train(self, parts: Parts, start: dict[str, Any], made: MadeEagle3) -> MadeEagle3:
        # torch takes seconds to import, and is wanted here alone.
        from app.forge.training.session import TrainingSession

        request = self._request
        session = TrainingSession(request, self._facts, self._work.checkpoint, parts, start)
        wanted = request.minutes * 60 * _TRAINING
        first = session.begin()
        before, started, saved = session.seconds, time.monotonic(), time.monotonic()

        def share() -> float:
            return (before + time.monotonic() - started) / wanted

        def save() -> None:
            session.save()
            self._work.note(replace(self._work.progress, trained=session.seconds))

        def after(loss: float) -> None:
            nonlocal saved
            session.seconds = before + time.monotonic() - started
            self._job.tell(f"training, loss {loss:.2f}, {session.places:,} tokens", session.seconds, wanted)
            self._job.check()
            if time.monotonic() - saved > SAVED:
                save()
                saved = time.monotonic()

        try:
            session.run(share, after)
        finally:
            save()
        self._job.tell("measuring the head on answers it never saw", 1, 1)
        last = session.accuracy()
        self._write(session.tensors(), start)
        return replace(made, places=session.places, training_seconds=session.seconds, start_right=first, right=last)

    def _write(self, tensors: dict[str, Any], start: dict[str, Any]) -> None:
        request, kept = self._request, start["kept"]
        output = matrix_of(request.target, "output.weight", "token_embd.weight")[kept]
        write_head(
            self._work.drafter,
            request.target,
            self._facts.sizes,
            {**tensors, "output": output},
            kept.tolist(),
            request.kind,
        )


def _tokens(request: ForgeRequest) -> int:
    """Return about how many tokens the target answers in the time for that."""
    return answered(request, request.minutes * 60 * _ANSWERING)


def _expected(tokens: int, *, train: bool) -> str:
    if not train:
        return "Without training the first draft token is right about once in five times: no gain, a look at the way."
    if tokens < 100_000:
        return "That is little: the first draft token may be right once in three times, which seldom pays."
    return (
        "The first draft token is expected to be right 4 times in 10, as that of the starter's head was after an hour. "
        "A small model gains little from that, as its passes are cheap; one of 3B or more may get 1.4 times as fast."
    )


METHOD: Method = Eagle3()
