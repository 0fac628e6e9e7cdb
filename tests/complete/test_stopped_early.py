"""Completions end when enough was said: the same text as ever, fewer tokens, and a cache that can be gone on with."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from run_here import localspec_here

from app.complete.asking import Asking
from app.complete.completer import Completer
from app.complete.place import CursorPosition
from app.complete.ring import Ring
from app.complete.settings import CompletionSettings, Limits
from app.complete.tidy import shown
from app.engine.conversation.messages import Ended
from app.engine.decoding.ending import Finish
from app.engine.runtime.async_engine import AsyncEngine
from app.engine.runtime.load import LoadPlan
from drafters.registry import parse_drafter
from models.llama.load import LlamaOptions
from models.sampling.sampler import SamplingParams

CODE = "def add(a, b):\n    return a\n\n\ndef twice(a):\n    b = |\n\n\nprint(twice(add(one, two)))\n"
LIMITS = Limits(tokens=200, seconds=None)


def sampled(seed: int) -> CompletionSettings:
    """Return settings under which the toy model soon leaves the block, as it knows nothing of code."""
    return CompletionSettings(SamplingParams(temperature=1.5, top_k=0, top_p=1.0, min_p=0.0, seed=seed))


async def whole_answer(
    async_engine: AsyncEngine, settings: CompletionSettings, place: CursorPosition
) -> tuple[Ended, str]:
    """Return the whole answer at a position without an early stop, and the shown part of it."""
    asked = Asking(settings, Ring(settings.ring, lambda: 0.0)).at(place, LIMITS)
    messages = [message async for message in async_engine.answer(replace(asked.question, enough=None))]
    ended = messages[-1]
    assert isinstance(ended, Ended)
    assert ended.finish is Finish.LENGTH
    return ended, shown(ended.answer, asked.around, broken_off=True)


@pytest.mark.parametrize("drafter", ["off", "lookup"])
def test_the_same_is_shown_after_fewer_tokens_and_what_was_read_stays_read(drafter: str, tmp_path: Path) -> None:
    plan = LoadPlan("toy-fim", parse_drafter(drafter), LlamaOptions(context_size=4096), tmp_path / "memory.json")

    async def main() -> None:
        async_engine, place = AsyncEngine(plan), CursorPosition.between("a.py", *CODE.split("|"))
        try:
            await async_engine.load()
            for seed in range(3):
                settings = sampled(seed)
                full, wanted = await whole_answer(async_engine, settings, place)
                completer = Completer(async_engine, settings)
                completion = await completer.complete(place, LIMITS)
                assert completion.text == wanted
                ended = completion.ended
                assert ended is not None
                assert ended.finish is Finish.STOP
                assert ended.stats.emitted < full.stats.emitted / 2
                assert full.answer.startswith(ended.answer)
                assert (await completer.complete(place, LIMITS)).text == wanted, "it is remembered"
                again = await completer.complete(place, replace(LIMITS, tokens=3))
                assert again.ended is not None
                assert again.ended.stats.reused_tokens == again.ended.stats.prompt_tokens - 1
        finally:
            await asyncio.to_thread(async_engine.close)

    asyncio.run(main())


def test_the_command_prints_what_it_ever_printed(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text(CODE.replace("|", ""), encoding="utf-8")
    flags = ["-n", "200", "--temp", "1.5", "--top-k", "0", "--top-p", "1", "--min-p", "0", "-s", "1", "--json"]
    arguments = ["complete", "-m", "toy-fim", f"{file}:6:9", "--draft", "off", *flags]
    stopped, raw = (
        json.loads(localspec_here(*arguments, *more, home=tmp_path).stdout) for more in ((), ("--raw-output",))
    )
    assert stopped["finish"] == "stop"
    assert raw["finish"] == "length"
    assert raw["answer"].startswith(stopped["answer"])
    assert stopped["usage"]["completion_tokens"] < raw["usage"]["completion_tokens"] / 2
    assert raw["text"].startswith(stopped["text"])
    assert stopped["text"]
