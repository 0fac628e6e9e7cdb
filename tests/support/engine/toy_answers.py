"""Answers of the toy as the engine tells them, message by message, on a clock that moves at each call."""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from fakes import FakeClock

from app.engine.conversation.messages import Ended, Message, Ready, Said, Watched
from app.engine.decoding.request import Question
from app.engine.decoding.round import Clock
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.worker import Worker
from app.ui.panel.flow import Flow
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.llama.load import LlamaOptions
from models.sampling.accept import Accept
from models.sampling.sampler import SamplingParams
from models.text.prompts import Message as Turn

PROMPT = "the cat sat on the mat. the cat sat on the hat. the cat"


def toy_messages(
    folder: Path,
    drafter: str,
    prompt: str = PROMPT,
    *,
    temperature: float = 0.0,
    clock: Clock | None = None,
    **options: object,
) -> list[Message]:
    """Return what the engine tells of a load and an answer; `options` are those of the question."""
    plan = LoadPlan("toy", parse_drafter(drafter), LlamaOptions(context_size=0), folder / "memory.json")
    worker = Worker(plan, AbortFlag(), clock or FakeClock(0.01))
    asked = {"max_tokens": 60, "watch": True, **options}
    question = Question((Turn("user", prompt),), SamplingParams(temperature=temperature, seed=5), **asked)  # type: ignore[arg-type]
    try:
        return [*worker.load(lambda *_: None), *worker.answer(question)]
    finally:
        worker.close()


def rounds_of(messages: list[Message]) -> list[Said]:
    """Return what was told of the rounds."""
    return [message for message in messages if isinstance(message, Said)]


@lru_cache
def toy_answer(drafter: str = "toy", *, adapt: bool = False, accept: Accept = Accept.COUPLED) -> tuple[Message, ...]:
    """Return what the engine tells of an answer, which is the same each time and so made once."""
    with TemporaryDirectory() as folder:
        return tuple(toy_messages(Path(folder), drafter, adapt=adapt, accept=accept, temperature=0.8))


def toy_flow(drafter: str = "toy", *, adapt: bool = False, accept: Accept = Accept.COUPLED) -> Flow:
    """Return a flow that has heard such an answer."""
    return fed(toy_answer(drafter, adapt=adapt, accept=accept))


def fed(messages: Iterable[Message], flow: Flow | None = None) -> Flow:
    """Return a flow that has heard these messages; each comes a tenth of a second after the last."""
    flow = flow or Flow(lambda: 3 << 30)
    for place, message in enumerate(messages):
        if isinstance(message, Ready):
            flow.ready(message)
            flow.begin()
        elif isinstance(message, Said | Watched | Ended):
            flow.hear(message, place / 10)
    return flow
