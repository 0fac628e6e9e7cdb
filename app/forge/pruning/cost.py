"""Cost of drafting with a shorter model: steps and verifying passes, each over the time of a token of the target."""

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.engine.costs.pass_cost import measure_steady
from app.forge.methods.base import Job
from app.forge.pruning.agreement import LONGEST
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.llama.screen_check import settle_screen

_SECONDS = 1.5
"""Seconds for the passes of one model."""
_DEPTH = 64
"""Tokens in the cache meanwhile."""
PROMPT_PASS = 64
"""Tokens of a pass that stands for the reading of prompts."""
_FEWEST, _MOST = 8, 64
"""Tokens of each of two models that are timed in turns."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected outcome of drafting."""

    speed_up: float
    """Over plain decoding."""
    length: int
    """Length of the drafts, in tokens."""


def expected(lengths: Sequence[float], step: float, passes: Mapping[int, float], prompt: float) -> Expected:
    """Return the best outcome over all draft lengths.

    `lengths` are the right tokens of drafts of 1, 2, ... tokens; `step` is the time of one draft token and `passes`
    that of the target's passes by width, with `PROMPT_PASS`, both over the time of a token of the target. A wide pass
    of the draft model costs as many steps as one of the target costs tokens. `prompt` is the number of prompt tokens,
    which the draft model reads too, for each token of an answer.
    """
    return max(
        (
            Expected((1 + right) / (_drafting(lengths, length, step, passes, prompt) + passes[length + 1]), length)
            for length, right in enumerate(lengths, start=1)
        ),
        key=lambda each: each.speed_up,
    )


def _drafting(lengths: Sequence[float], length: int, step: float, passes: Mapping[int, float], prompt: float) -> float:
    """Return the draft model's time of a round, over a token of the target: its steps, and what it reads besides."""
    right = lengths[length - 1]
    all_right = right - (lengths[length - 2] if length > 1 else 0.0)
    # The last token of a draft was not read. If it was right, it is read with the target's next token.
    unread = all_right * (passes[2] - 1)
    reading = prompt * (1 + right) * passes[PROMPT_PASS] / PROMPT_PASS
    return step * (length + unread + reading)


def pass_ratios(job: Job) -> dict[int, float]:
    """Return the time of the target's passes over that of a token, by width: verifying ones, and one over a prompt."""
    model = _opened(job, job.request.target, screens=False)
    try:
        verifying = measure_steady(model, time.perf_counter, range(1, LONGEST + 2), _SECONDS)
        reading = measure_steady(model, time.perf_counter, (PROMPT_PASS,), _SECONDS, rows=1)
    finally:
        model.close()
    return {width: taken / verifying[1] for width, taken in {**verifying, **reading}.items()}


def token_seconds(job: Job, one: Path, draft: Path, *, both_draft: bool) -> tuple[float, float]:
    """Return the seconds of a token of two models, measured in turns: other programs then slow both down alike.

    A draft model is screened as when it drafts; `both_draft`: the first one too.
    """
    models: list[LlamaModel] = []
    try:
        for path, screens in ((one, both_draft), (draft, True)):
            models.append(_opened(job, path, screens=screens))
        taken: list[list[float]] = [[], []]
        started = time.monotonic()
        while len(taken[1]) < _FEWEST or (time.monotonic() - started < _SECONDS and len(taken[1]) < _MOST):
            job.check()
            for model, found in zip(models, taken, strict=True):
                # The first pass after another model's finds none of its weights in the processor's cache.
                found += [_seconds_of_token(model) for _ in range(3)][1:]
        return statistics.median(taken[0]), statistics.median(taken[1])
    finally:
        for model in models:
            model.close()


def _opened(job: Job, path: Path, *, screens: bool) -> LlamaModel:
    """Load a model with some tokens in its cache."""
    threads = job.request.threads
    options = LlamaOptions(context_size=512, threads=threads, batch_threads=threads, screens=screens)
    model = LlamaModel(path, options, abort=job.abort)
    try:
        settle_screen(model)
        model.decode([model.vocab.bos or 0] * _DEPTH, rows=1)
    except BaseException:
        model.close()
        raise
    return model


def _seconds_of_token(model: LlamaModel) -> float:
    started = time.perf_counter()
    model.decode([model.vocab.bos or 0], rows=1)
    taken = time.perf_counter() - started
    model.rewind(_DEPTH)
    return taken
