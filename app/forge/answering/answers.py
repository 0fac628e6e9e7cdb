"""A target's answers, several at a time, with what a drafter learns from: likeliest tokens, hidden rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.abort import AbortFlag
from models.base import Part
from models.gguf.header import read_model
from models.gguf.heads import needs_copies
from models.heads.tap import Tap
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

TOGETHER = 32
"""Answers in one pass: reading the weights once for all of them makes a token four times as cheap as alone."""
LONGEST_PROMPT = 256
"""Tokens of a prompt above which it is left out: a head learns from answers."""
LONGEST_ANSWER = 192
"""Tokens after which an answer is cut."""
CONTEXT = LONGEST_PROMPT + LONGEST_ANSWER + 16
KEPT = 8
"""Likeliest next tokens that are kept for each place."""
_NEAR = 8.0
"""Logits below the highest by more are not kept: their tokens have less than .0004 of its probability."""
_NOISE = 1 << 20


@dataclass(frozen=True, slots=True)
class Answer:
    """A prompt with its answer, as the target read it: n tokens."""

    tokens: NDArray[np.int32]
    """Shape (n,)."""
    asked: int
    """Tokens of the prompt."""
    rows: NDArray[np.float16]
    """Hidden rows of the tapped layers, float16, shape (n, layers * width); (n, 0) without any."""
    likely: NDArray[np.int32]
    """Likeliest tokens after each token of the answer and the prompt's last, shape (n, KEPT); -1: none is kept."""
    logits: NDArray[np.float16]
    """Their logits less the highest, float16, shape (n, KEPT)."""


class _Recorder:
    """Listener of one text, which keeps the tapped rows of its tokens; rows of no numbers without a tap."""

    def __init__(self, tap: Tap | None) -> None:
        self._tap = tap
        self.rows: list[NDArray[np.float16]] = []

    def take(self, context: Any, start: int, place: int, count: int) -> None:  # noqa: ARG002
        """Keep the rows of a pass, as numbers of 16 bits."""
        rows = self._tap.read(context, place + count)[place:] if self._tap else np.zeros((count, 0), np.float32)
        self.rows.append(np.clip(rows, -60000, 60000).astype(np.float16))

    def skip(self, length: int) -> None:
        """Do nothing: texts here grow by passes alone."""

    def leave_context(self) -> None:
        """Do nothing: it holds nothing of a context."""

    def join_context(self) -> None:
        """Do nothing: the context stays."""


@dataclass(slots=True)
class _Running:
    """An answer that is being written."""

    place: int
    """Place of its text among those of the cache."""
    text: LlamaModel
    recorder: _Recorder
    temperature: float
    tokens: list[int]
    asked: int
    likely: list[NDArray[np.int32]] = field(default_factory=list)
    logits: list[NDArray[np.float16]] = field(default_factory=list)

    def answer(self) -> Answer:
        """Return what was read so far; a last token that was not read has no row, and is left out."""
        rows = np.concatenate(self.recorder.rows)
        before = len(rows) - len(self.likely)
        likely = np.concatenate((np.full((before, KEPT), -1, np.int32), np.stack(self.likely)))
        logits = np.concatenate((np.zeros((before, KEPT), np.float16), np.stack(self.logits)))
        return Answer(np.array(self.tokens[: len(rows)], np.int32), self.asked, rows, likely, logits)


class Answerer:
    """A target that answers many prompts at a time. Belongs to one thread; owns the model."""

    def __init__(self, path: Path, layers: Sequence[int], abort: AbortFlag, threads: int = 0) -> None:
        """Load the target, with a tap on the inputs of some layers where there are any; raises LocalspecError."""
        copied = tuple(layers) if needs_copies(read_model(path), layers) else ()
        options = LlamaOptions(
            context_size=CONTEXT,
            texts=TOGETHER,
            max_rows=TOGETHER,
            layers=copied,
            threads=threads,
            batch_threads=threads,
        )
        self.model = LlamaModel(path, options, abort=abort)
        if not threads:
            # Beside other programs a thread too many makes each pass wait.
            self.model.follow_free_cores()
        self._texts = [self.model, *(self.model.twin() for _ in range(TOGETHER - 1))]
        self._tap = Tap(self.model, layers) if layers else None
        if self._tap:
            self._tap.enable()
        random = np.random.default_rng(0)
        self._noise = random.gumbel(size=_NOISE).astype(np.float32)
        self._random = random

    def answers(self, prompts: Iterator[tuple[Sequence[int], float]]) -> Iterator[Answer]:
        """Yield answers as they end, prompts being token ids and a temperature; raises Cancelled."""
        running: list[_Running] = []
        idle = list(range(len(self._texts)))
        prompts = iter(prompts)
        while True:
            while idle and (asked := next(prompts, None)) is not None:
                running.append(self._begin(idle.pop(0), *asked))
            if not running:
                return
            running.sort(key=lambda each: each.place)
            for group in _neighbours(running):
                parts = [Part(each.text, each.tokens[-1]) for each in group]
                for each, row in zip(group, self.model.decode_together(parts), strict=True):
                    self._step(each, row[0])
            for each in [each for each in running if self._is_over(each)]:
                running.remove(each)
                each.text.listeners.remove(each.recorder)
                idle.append(each.place)
                yield each.answer()

    def _begin(self, place: int, tokens: Sequence[int], temperature: float) -> _Running:
        """Read a prompt, and choose the first token of its answer."""
        text, recorder = self._texts[place], _Recorder(self._tap)
        text.rewind(0)
        text.listeners.add(recorder)
        size = text.batch_size
        for start in range(0, len(tokens), size):
            part = tokens[start : start + size]
            row = text.decode(part, rows=int(start + size >= len(tokens)))
        begun = _Running(place, text, recorder, temperature, list(tokens), len(tokens))
        self._step(begun, row[-1])
        return begun

    def _step(self, running: _Running, row: NDArray[np.float32]) -> None:
        """Keep the likeliest tokens of a row of logits, and draw the next token."""
        likely, logits = likeliest(row)
        running.likely.append(likely)
        running.logits.append(logits.astype(np.float16))
        if running.temperature > 0:
            start = int(self._random.integers(0, _NOISE - KEPT))
            drawn = int(likely[np.argmax(logits / running.temperature + self._noise[start : start + KEPT])])
        else:
            drawn = int(likely[0])
        running.tokens.append(drawn)

    def _is_over(self, running: _Running) -> bool:
        return self.model.vocab.is_end(running.tokens[-1]) or len(running.tokens) - running.asked >= LONGEST_ANSWER

    def close(self) -> None:
        """Free the model; calling it twice is fine."""
        for text in reversed(self._texts):
            text.close()


def likeliest(row: NDArray[np.float32]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the likeliest tokens of a row of logits and their logits less the highest; -1 and -inf where fewer."""
    highest = row.max()
    near = np.flatnonzero(row > highest - _NEAR)
    near = near[np.argsort(-row[near], kind="stable")[:KEPT]]
    tokens, logits = np.full(KEPT, -1, np.int32), np.full(KEPT, -np.inf, np.float32)
    tokens[: len(near)], logits[: len(near)] = near, row[near] - highest
    return tokens, logits


def _neighbours(running: Sequence[_Running]) -> list[list[_Running]]:
    """Divide answers into runs of neighbours: llama.cpp computes only those in one pass."""
    groups: list[list[_Running]] = []
    for each in running:
        if groups and each.place == groups[-1][-1].place + 1:
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups
