"""A target in virtual time, prompts and arms for tests of the benchmark, and answers made of numbers alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from fakes import ScriptedDrafter

from app.bench.measuring.arms import PLAIN, Arm, ArmAnswer, Bench, BenchPrompt, OnAnswer, Skipped, Turn
from app.engine.decoding.controller import FixedLength
from app.engine.decoding.ending import Finish
from app.engine.decoding.stats import Stats
from drafters.base import NullDrafter
from models.base import Logits
from models.sampling.sampler import SamplingParams
from models.toy import ToyModel

COLD = SamplingParams(temperature=0, seed=3)
PROMPTS = tuple(BenchPrompt(f"p{i}", "chat", (text,)) for i, text in enumerate(["the cat ", "a dog sat ", "no hen "]))


class VirtualClock:
    """A clock that moves only when a test advances it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class TimedToy(ToyModel):
    """A toy whose passes take the seconds that a table says, or `per_token` each."""

    def __init__(
        self,
        clock: VirtualClock,
        costs: Mapping[int, float] | None = None,
        per_token: float = 1.0,
        context_size: int = 512,
        rewind_limit: int | None = None,
    ) -> None:
        super().__init__(context_size=context_size, rewind_limit=rewind_limit)
        self._clock, self._costs, self._per_token = clock, costs or {}, per_token

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        self._clock.now += self._costs.get(len(tokens), self._per_token * len(tokens))
        return super().decode(tokens, rows, parents)


def plain_arm() -> Arm:
    return Arm(PLAIN, NullDrafter(), FixedLength(0))


def scripted_arm(name: str, drafter: ScriptedDrafter | None = None) -> Arm:
    return Arm(name, drafter or ScriptedDrafter(), FixedLength(3))


def ask(
    make_arms: Callable[[], Sequence[Arm]],
    prompts: Sequence[BenchPrompt] = PROMPTS,
    target: ToyModel | None = None,
    clock: VirtualClock | None = None,
    on_answer: OnAnswer = lambda _, __: None,
    max_tokens: int = 12,
) -> tuple[list[Turn], list[Skipped]]:
    """Run a benchmark; return its turns, and what was left out."""
    clock = clock or VirtualClock()
    bench = Bench(target or TimedToy(clock), clock, max_tokens, on_answer)
    events = list(bench.run(prompts, make_arms, COLD))
    return [event for event in events if not isinstance(event, Skipped)], [
        event for event in events if isinstance(event, Skipped)
    ]


def answer(arm: str, prompt: str, rounds: Sequence[tuple[float, int]], **changed: object) -> ArmAnswer:
    """Return an answer with these rounds: seconds and tokens."""
    count = sum(tokens for _, tokens in rounds)
    made = ArmAnswer(
        arm, prompt, "chat", 0, 0.0, 1, tuple(range(count)), "", Finish.LENGTH, 0.5, tuple(rounds),
        (0.0,) * len(rounds), Stats().snapshot(), prompt_tokens=(), widths=tuple(tokens for _, tokens in rounds),
        trees=(False,) * len(rounds),
    )  # fmt: skip
    return replace(made, **changed)  # type: ignore[arg-type]


def failing_at_the_second_prompt(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> list[str]:
    """Let a run fail in the middle; return the list that the ids of the prompts asked will be in."""
    turn, prompt_tokens = Bench._turn, list[str]()

    def failing(self: Bench, prompt: BenchPrompt, *arguments: Any) -> Any:
        prompt_tokens.append(prompt.id)
        if prompt.id != prompt_tokens[0]:
            raise error
        return turn(self, prompt, *arguments)

    monkeypatch.setattr(Bench, "_turn", failing)
    return prompt_tokens
