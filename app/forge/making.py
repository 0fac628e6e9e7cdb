"""Making of an EAGLE-3 head: answers, closed-form start, training, file. Each step goes on from what is on disk."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.engine.conversation.transcript import Transcript
from app.forge.answers import LONGEST_PROMPT, Answerer
from app.forge.closed_form import closed_form, last_rows
from app.forge.estimate import ANSWERING, TRAINING
from app.forge.export import matrix_of, write_head
from app.forge.parts import Parts
from app.forge.prompts import built_in
from app.forge.request import ForgeRequest
from app.forge.work import Work, disk_errors
from models.abort import AbortFlag
from models.errors import Cancelled, LocalspecError
from models.system.power import on_battery
from models.text.prompts import Message

_SAVED = 25.0
"""Seconds between two writings: what a killed process loses at most, with the time for one step."""
_STARTING = 64
"""Answers of which the closed form is computed."""
_WARM = 0.7
"""Temperature of every second answer."""
Tell = Callable[[str, float, float], None]
"""Receives what is done, and the seconds done and in all."""


@dataclass(frozen=True, slots=True)
class Made:
    """What a head was made from."""

    answers: int
    tokens: int
    """Tokens of prompts and answers."""
    places: int
    """Places that training has seen, with repetitions; 0 without training."""
    answering_seconds: float
    training_seconds: float
    start_right: tuple[float, ...] = ()
    """Shares of held-back places where the closed form was right, by step; () without training."""
    right: tuple[float, ...] = ()
    """The same of the trained head."""


class Maker:
    """Maker of one head. Belongs to one thread, except for the abort flag."""

    def __init__(self, request: ForgeRequest, work: Work, abort: AbortFlag, tell: Tell) -> None:
        self._request = request
        self._work = work
        self._abort = abort
        self._tell = tell

    def make(self) -> Made:
        """Make the head's file in the work folder; raises LocalspecError, and Cancelled with everything kept."""
        with disk_errors(self._work.folder):
            parts = Parts(self._work.data)
            self.collect(parts)
            if not parts.answers:
                raise LocalspecError(
                    "The target gave no answers to learn from.",
                    hint="Give more --minutes, or shorter prompts with --data.",
                )
            made = Made(len(parts.answers), parts.tokens, 0, self._work.progress.collected, 0.0)
            start = self._start(parts)
            return self._train(parts, start, made) if self._request.train else self._untrained(start, made)

    def collect(self, parts: Parts) -> None:
        """Let the target answer prompts until their time is over; raises Cancelled, with all ended answers kept."""
        wanted = self._request.minutes * 60 * (ANSWERING if self._request.train else ANSWERING + TRAINING)
        before = self._work.progress.collected
        if before >= wanted:
            return
        self._tell("loading the target", before, wanted)
        answerer = Answerer(self._request.target, self._request.facts.layers, self._abort, self._request.threads)
        try:
            self._answers(answerer, parts, before, wanted)
        finally:
            answerer.close()

    def _answers(self, answerer: Answerer, parts: Parts, before: float, wanted: float) -> None:
        started = saved = time.monotonic()
        new: list[Any] = []

        def save() -> None:
            if new:
                parts.add(new)
                new.clear()
            self._work.note(replace(self._work.progress, collected=before + time.monotonic() - started))

        try:
            for answer in answerer.answers(self._prompts(answerer, parts.asked)):
                new.append(answer)
                now = time.monotonic()
                self._tell(f"{parts.tokens:,} tokens of answers", before + now - started, wanted)
                self._check_power()
                if now - saved > _SAVED:
                    save()
                    saved = time.monotonic()
                if before + now - started >= wanted:
                    break
        finally:
            # Also after Ctrl-C. What fails here hides nothing: parts on disk stay whole.
            save()

    def _prompts(self, answerer: Answerer, start: int) -> Iterator[tuple[Sequence[int], float]]:
        """Yield prompts as tokens with a temperature: the user's own first, then built-in ones."""
        transcript, own = Transcript(answerer.model, may_be_raw=False), self._request.prompts
        texts = (*own[start:],) if start < len(own) else ()
        number = start
        for text in _chained(texts, built_in(max(0, start - len(own)))):
            tokens = transcript.prompt([Message("user", text)])
            if len(tokens) <= LONGEST_PROMPT:
                yield tokens, _WARM * (number % 2)
            number += 1

    def _check_power(self) -> None:
        if not self._request.on_battery and on_battery():
            raise LocalspecError(
                "Stopped: this machine now runs on its battery.",
                hint="Plug it in; the same command goes on. --on-battery forges all the same.",
            )

    def _start(self, parts: Parts) -> dict[str, Any]:
        """Return the closed-form start, computed once: what training began with must not change later."""
        if self._work.start.exists():
            with np.load(self._work.start) as file:
                return {name: file[name] for name in file.files}
        request = self._request
        self._tell("computing the start", 0, 1)
        answers = [parts.read(stored) for stored in parts.answers[:_STARTING]]
        hidden = last_rows(request.target, answers, self._abort, request.threads)
        embedding = matrix_of(request.target, "token_embd.weight")
        of_rows, of_embedding = closed_form(answers, hidden, embedding)
        rows = np.concatenate([answer.rows[1:] for answer in answers]).astype(np.float32)
        counts = np.zeros(request.facts.vocabulary, np.int64)
        for drawn in parts.drawn():
            counts += np.bincount(drawn, minlength=len(counts))[: len(counts)]
        # Small ids are frequent tokens, which serves where too few were seen.
        kept = np.sort(np.argsort(-counts, kind="stable")[: request.facts.kept])
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

    def _untrained(self, start: dict[str, Any], made: Made) -> Made:
        """Write the closed-form head: the feed-forward part is zero, and each token attends to itself."""
        width, inner = self._request.facts.width, self._request.facts.sizes.feed_forward
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

    def _train(self, parts: Parts, start: dict[str, Any], made: Made) -> Made:
        # torch takes seconds to import, and is wanted here alone.
        from app.forge.session import TrainingSession

        request = self._request
        session = TrainingSession(request, self._work.checkpoint, parts, start)
        wanted = request.minutes * 60 * TRAINING
        first = session.begin()
        before, started, saved = session.seconds, time.monotonic(), time.monotonic()

        def share() -> float:
            return (before + time.monotonic() - started) / wanted

        def after(loss: float) -> None:
            nonlocal saved
            session.seconds = before + time.monotonic() - started
            self._tell(f"training, loss {loss:.2f}, {session.places:,} tokens", session.seconds, wanted)
            self._check_power()
            if self._abort.is_set:
                raise Cancelled("Stopped.")
            if time.monotonic() - saved > _SAVED:
                session.save()
                saved = time.monotonic()

        try:
            session.run(share, after)
        finally:
            session.save()
            self._work.note(replace(self._work.progress, trained=session.seconds))
        self._tell("measuring the head on answers it never saw", 1, 1)
        last = session.accuracy()
        self._write(session.tensors(), start)
        return replace(made, places=session.places, training_seconds=session.seconds, start_right=first, right=last)

    def _write(self, tensors: dict[str, Any], start: dict[str, Any]) -> None:
        request, kept = self._request, start["kept"]
        output = matrix_of(request.target, "output.weight", "token_embd.weight")[kept]
        write_head(
            self._work.head,
            request.target,
            request.facts.sizes,
            {**tensors, "output": output},
            kept.tolist(),
            request.kind,
        )


def _chained(first: Sequence[str], then: Iterator[str]) -> Iterator[str]:
    yield from first
    yield from then
