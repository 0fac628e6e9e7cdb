"""Record the answers that the pictures of the screen show: python tests/support/run.py record_answers FOLDER, with
the real pair.

Texts, guesses and verdicts are those of the real engine; the time is not the machine's, which may be busy: each pass
takes what it took on a quiet laptop of two cores, so that all figures fit together. To be run again when the engine has
more to tell; then look at all pictures anew.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from recorded import Recorded, write

from app.engine.conversation.messages import Message, Said
from app.engine.decoding.request import Question
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.worker import Worker
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.llama.exact_width import WIDEST
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.sampling.sampler import SamplingParams
from models.text.prompts import Message as Turn

_TARGET, _DRAFT = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
_WIDTHS, _RATIOS = (1, 2, 3, 4, 5, 6, 8, 16, 32, 512), (1, 1.41, 1.8, 1.5, 1.9, 2.3, 2.7, 3.3, 5.8, 80)
"""Tokens of a pass, and its time over that of one token."""
_TARGET_SECONDS, _DRAFT_SECONDS = 0.060, 0.014
"""Of a pass of one token."""
_CALL_SECONDS = 5e-5
"""Between two looks at the clock in which no model ran."""
_FUNCTION = "Write a short Python function that merges two sorted lists, and one line that calls it."
_REPEAT = (
    "Repeat this, word for word: The harbor opens at six. Boats with a red flag leave first, then those with a green "
    "one. Nobody may whistle on the pier after dark, and cats are welcome at any hour of the day."
)
_NAMES = "Give me twelve unusual first names, separated by commas, and nothing else."
_STORY = "Describe a market square at five in the morning, in short and strange sentences."


@dataclass(frozen=True, slots=True)
class Take:
    """An answer to record."""

    name: str
    prompt: str
    drafter: str = _DRAFT
    temperature: float = 0.0
    adapt: bool = True
    draft_length: int | None = None
    stops: tuple[str, ...] = ()
    most: int = 400
    """Tokens."""
    stop_after: int | None = None
    """Rounds after which it is stopped; None: it is not."""


TAKES = (
    Take("answer", _FUNCTION, stops=("\n\nIn this function",)),
    Take("accepted", _REPEAT, "lookup", adapt=False, draft_length=5),
    Take("rejected", _NAMES, "suffix", temperature=1.0, adapt=False, draft_length=3, most=48),
    Take("paused", _STORY, temperature=1.4, most=320),
    Take("stopped", "What is a priority queue, and when is it better than a sorted list?", stop_after=24),
)


class QuietClock:
    """Time that passes with each pass of a model, and a little with each look at it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += _CALL_SECONDS
        return self.now

    def passed(self, model: LlamaModel, width: int) -> None:
        """Let the time of a pass over so many tokens go by."""
        one = _TARGET_SECONDS if model.path.name == _TARGET else _DRAFT_SECONDS
        self.now += one * float(np.interp(width, _WIDTHS, _RATIOS))


@contextmanager
def timed_by(clock: QuietClock) -> Iterator[None]:
    """Let every pass move a clock."""
    decode = LlamaModel.decode

    def timed(self: LlamaModel, tokens: Sequence[int], *arguments: Any, **options: Any) -> Any:
        clock.passed(self, len(tokens))
        return decode(self, tokens, *arguments, **options)

    LlamaModel.decode = timed
    try:
        yield
    finally:
        LlamaModel.decode = decode


def record(folder: Path, take: Take, memory: Path) -> Recorded:
    """Load the pair and let it answer; `memory` keeps what is found out about the models."""
    drafter = parse_drafter(str(folder / take.drafter) if take.drafter.endswith(".gguf") else take.drafter)
    options = LlamaOptions(context_size=4096, threads=1, batch_threads=1, max_rows=WIDEST)
    clock, abort, messages = QuietClock(), AbortFlag(), list[Message]()
    with timed_by(clock):
        plan = LoadPlan(str(folder / _TARGET), drafter, options, memory, allow_rounding=True)
        worker = Worker(plan, abort, clock)
        messages += worker.load(lambda *_: None)
        for message in worker.answer(_question(take)):
            messages.append(_shortened(message))
            if sum(isinstance(one, Said) for one in messages) == take.stop_after:
                abort.set()
        worker.close()
    return Recorded(take.name, take.prompt, tuple(messages))


def _question(take: Take) -> Question:
    return Question(
        (Turn("user", take.prompt),),
        SamplingParams(temperature=take.temperature, seed=3),
        stops=take.stops,
        max_tokens=take.most,
        adapt=take.adapt,
        draft_length=take.draft_length,
        watch=True,
        allow_rounding=True,
    )


def _shortened(message: Message) -> Message:
    """Return a message without what no screen shows: distributions of a whole vocabulary."""
    if not isinstance(message, Said):
        return message
    return replace(message, round=replace(message.round, draft=replace(message.round.draft, probs=None)))


if __name__ == "__main__":
    with TemporaryDirectory() as kept:
        write(record(Path(sys.argv[1]), take, Path(kept) / "memory.json") for take in TAKES)
