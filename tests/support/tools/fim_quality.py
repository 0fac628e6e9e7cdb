"""Completions on a real pair: python tests/support/run.py fim_quality TARGET [--draft DRAFT] --prompts FILE. Figures,
not a test.

FILE has JSON lines with "prefix", "suffix" and "middle"; only those of a class are taken ("class", see --class).

1. Every prompt with automatic drafting and token by token, in one run, in turns (ABBA): are the texts the same, how
   often are they the middle that was taken out, how long do the first line and the whole take, what does drafting gain.
2. The same prompts through the completer that editors use: a completion is accepted, and the next one is asked for one
   line further down: how much of its prompt is still there, when its first token comes, what fetching it ahead does.

Progress goes to stderr, one JSON object to stdout.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from app.bench.measuring.arm_names import parse_arms
from app.bench.measuring.arms import ArmAnswer, BenchPrompt, Skipped
from app.bench.measuring.benchmark import BenchRun
from app.complete.completer import WHOLE, Completer
from app.complete.place import CursorPosition, Windows, window
from app.complete.settings import Limits
from app.complete.tidy import Around, tidy
from app.engine.conversation.messages import Said
from app.engine.costs.provenance import processor_name
from app.engine.decoding.request import Question
from app.engine.runtime.async_engine import AnswerMessage, AsyncEngine
from app.engine.runtime.jobs import Urgency
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.loader import Loader
from app.shell.paths import machine_memory
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.llama.load import LlamaOptions
from models.sampling.sampler import SamplingParams

_ENOUGH = 3
"""Passes that a median is taken of, at least."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A place, and what was taken out there."""

    id: str
    place: CursorPosition
    middle: str


@dataclass(frozen=True, slots=True)
class Next:
    """The completion one line further down."""

    reused: float
    """Share of its prompt that was still in the cache."""
    unread: int
    """Tokens of its prompt that were not."""
    first_token_seconds: float
    one_token_seconds: float | None
    """Median time of its later passes over one token, in the same moments; None: there were too few."""
    fetched_seconds: float | None
    """Time to get the one after it, fetched ahead; None: there was nothing to accept."""


def read_prompts(file: Path, name: str, most: int | None) -> list[Missing]:
    """Return the prompts of a class."""
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    wanted = [line for line in lines if line.get("class", name) == name][:most]
    return [
        Missing(str(line.get("id", number)), CursorPosition.between("", line["prefix"], line["suffix"]), line["middle"])
        for number, line in enumerate(wanted)
    ]


def answer_all(
    prompts: Sequence[Missing], plan: LoadPlan, tokens: int
) -> tuple[list[tuple[ArmAnswer, ...]], list[float]]:
    """Return the answers of both arms to each prompt, plain first, and the times to their first lines, flat."""
    loader = Loader(plan, AbortFlag(), time.perf_counter, lambda *_: None)
    run = BenchRun(loader, time.perf_counter, parse_arms(["auto"], 3, has_draft=plan.drafter.model is not None))
    asked = [
        BenchPrompt(prompt.id, "fim", prefix=prompt.place.prefix, suffix=prompt.place.suffix) for prompt in prompts
    ]
    turns: list[tuple[ArmAnswer, ...]] = []
    firsts: list[float] = []
    try:
        run.load(allow_rounding=plan.allow_rounding)
        for turn in run.run(asked, [SamplingParams(temperature=0.0)], tokens, lambda *_: None):
            if isinstance(turn, Skipped):
                tell(f"{turn.prompt} is left out: {turn.reason}")
                continue
            turns.append(turn)
            firsts += [first_line_seconds(answer, run.target.vocab.piece) for answer in turn]
            tell(f"{len(turns)} of {len(prompts)}: " + ", ".join(f"{one.arm} {whole(one):.2f} s" for one in turn))
    finally:
        run.close()
    return turns, firsts


def first_line_seconds(answer: ArmAnswer, piece: Any) -> float:
    """Return the time from the question to the end of the first line that is not blank, or of the answer."""
    spent, said, place = answer.reading_seconds, b"", 0
    for seconds, count in answer.rounds:
        spent += seconds
        said += b"".join(map(piece, answer.tokens[place : place + count]))
        place += count
        if b"\n" in said.lstrip():
            break
    return spent


def whole(answer: ArmAnswer) -> float:
    """Return the time from the question to the last token, both prompts read."""
    return answer.reading_seconds + answer.seconds


def quality(turns: Sequence[tuple[ArmAnswer, ...]], prompts: Sequence[Missing]) -> dict[str, Any]:
    """Compare the plain answers with what was taken out, and the drafted ones with the plain ones."""
    by_id = {prompt.id: prompt for prompt in prompts}
    pairs = [(shown(turn[0], by_id[turn[0].prompt].place), by_id[turn[0].prompt].middle) for turn in turns]
    return {
        "prompts": len(turns),
        "exact": mean([same(said, middle) for said, middle in pairs]),
        "first_line": mean([same(first_line(said), first_line(middle)) for said, middle in pairs]),
        "blank": mean([not said for said, _ in pairs]),
        "same_as_plain": mean([answer.tokens == turn[0].tokens for turn in turns for answer in turn[1:]]),
        "differ": [answer.prompt for turn in turns for answer in turn[1:] if answer.fork is not None],
    }


def shown(answer: ArmAnswer, place: CursorPosition) -> str:
    around = Around.of(window(place, Windows()))
    return tidy(answer.text, around, broken_off=answer.finish not in WHOLE)


def same(said: str, wanted: str) -> bool:
    return said.strip() == wanted.strip()


def first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def times(turns: Sequence[tuple[ArmAnswer, ...]], firsts: Sequence[float]) -> dict[str, Any]:
    """Return the times of both arms, and what drafting gains on each prompt."""
    count = len(turns[0])
    arms = {
        arm[0].arm: {
            "first_line_seconds": spread(firsts[number::count]),
            "whole_seconds": spread([whole(answer) for answer in arm]),
            "decoding_seconds": spread([answer.seconds for answer in arm]),
            "tokens_per_second": spread([answer.stats.tokens_per_second or 0.0 for answer in arm]),
            "accepted": sum(answer.stats.accepted for answer in arm),
            "drafted": sum(answer.stats.drafted for answer in arm),
        }
        for number, arm in enumerate(zip(*turns, strict=True))
    }
    return {
        "arms": arms,
        "decoding_speed_up": spread([turn[0].seconds / turn[1].seconds for turn in turns]),
        "whole_speed_up": spread([whole(turn[0]) / whole(turn[1]) for turn in turns]),
        "one_token_seconds": one_token(turns),
    }


def one_token(turns: Sequence[tuple[ArmAnswer, ...]]) -> float:
    """Return the median time of a plain round after the first."""
    return median([seconds for turn in turns for seconds, _ in turn[0].rounds[1:]] or [0.0])


class Listening(AsyncEngine):
    """A desk that notes what passes over one token take in the answer that it gives."""

    def __init__(self, plan: LoadPlan) -> None:
        super().__init__(plan)
        self.passes: list[float] = []

    async def answer(
        self, question: Question, urgency: Urgency = Urgency.ANSWER, wait: float | None = None
    ) -> AsyncGenerator[AnswerMessage]:
        """Yield what is said; see `Desk.answer`."""
        self.passes = []
        async with aclosing(super().answer(question, urgency, wait)) as messages:
            async for message in messages:
                if isinstance(message, Said) and message.round.width == 1:
                    self.passes.append(message.round.verify_seconds)
                yield message


async def go_on(prompts: Sequence[Missing], plan: LoadPlan, tokens: int) -> list[Next]:
    """Complete each place, accept it, and complete one line further down."""
    async_engine = Listening(plan)
    found: list[Next] = []
    try:
        await async_engine.load()
        for prompt in prompts:
            found += await _one_further(async_engine, prompt, Limits(tokens=tokens, seconds=None))
            tell(f"{len(found)} next ones of {len(prompts)}")
    finally:
        await asyncio.to_thread(async_engine.close)
    return found


async def _one_further(async_engine: Listening, prompt: Missing, limits: Limits) -> list[Next]:
    completer = Completer(async_engine)
    first = await completer.complete(prompt.place, limits)
    if not first.text:
        return []
    line = (prompt.place.behind + first.text).split("\n")[-1]
    indentation = line[: len(line) - len(line.lstrip())]
    second = await completer.complete(prompt.place.after(first.text + "\n" + indentation), limits)
    if second.ended is None:
        return []
    stats, later = second.ended.stats, async_engine.passes[1:]
    one_token = median(later) if len(later) >= _ENOUGH else None
    fetched = None
    if second.text:
        completer.prefetch(second)
        await completer.settled()
        start = time.perf_counter()
        await completer.complete(second.place.after(second.text), limits)
        fetched = time.perf_counter() - start
    await completer.close()
    unread = stats.prompt_tokens - stats.reused_tokens
    first_token = stats.first_token_seconds or 0.0
    return [Next(stats.reused_tokens / stats.prompt_tokens, unread, first_token, one_token, fetched)]


def next_ones(found: Sequence[Next]) -> dict[str, Any]:
    """Return how the second completions went."""
    return {
        "count": len(found),
        "reused": spread([one.reused for one in found]),
        "unread_tokens": spread([one.unread for one in found]),
        "first_token_seconds": spread([one.first_token_seconds for one in found]),
        "first_token_in_one_token_times": spread(
            [one.first_token_seconds / one.one_token_seconds for one in found if one.one_token_seconds]
        ),
        "fetched_seconds": spread([one.fetched_seconds for one in found if one.fetched_seconds is not None]),
    }


def spread(values: Sequence[float]) -> dict[str, float] | None:
    """Return what lies in the middle, and at both ends."""
    if not values:
        return None
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
    return {"p5": float(low), "p50": float(middle), "p95": float(high)}


def mean(values: Sequence[bool]) -> float:
    return sum(values) / len(values)


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("--draft", help="a small GGUF of the same family")
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--class", dest="name", default="fim")
    parser.add_argument("--limit", type=int, help="most prompts")
    parser.add_argument("-n", type=int, default=96, help="most tokens of a completion")
    parser.add_argument("-c", type=int, default=0, help="tokens of context")
    parser.add_argument("-t", type=int, default=0, help="threads of the model; 0: one a physical core")
    asked = parser.parse_args()
    prompts = read_prompts(asked.prompts, asked.name, asked.limit)
    options = LlamaOptions(context_size=asked.c, threads=asked.t)
    # What localspec knows of this machine need not be measured again.
    plan = LoadPlan(asked.target, parse_drafter(asked.draft or "auto"), options, machine_memory())
    turns, firsts = answer_all(prompts, plan, asked.n)
    found = asyncio.run(go_on(prompts, plan, asked.n))
    figures = times(turns, firsts)
    told = {
        "machine": processor_name(),
        "target": asked.target,
        "draft": asked.draft,
        "quality": quality(turns, prompts),
        "times": figures,
        "one_line_further": next_ones(found),
    }
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
