"""The real target and draft: the same tokens with and without drafting.

Drafts within the width that this machine computes exactly may not change one token. Longer ones (--allow-rounding) may
fork at a near-tie, and each fork must be explained by the rounding measured right there.

Run with LOCALSPEC_PAIR=FOLDER and -m pair; takes about ten minutes on two cores.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from app.engine.conversation.session import Session
from app.engine.decoding.controller import FixedLength
from app.engine.decoding.ending import Ending
from app.engine.decoding.round import Round
from app.engine.decoding.stats import Stats
from drafters.base import Drafter, NullDrafter
from drafters.draft_model import DraftModel
from drafters.prompt_lookup import PromptLookup
from models.llama.exact_width import exact_width
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.sampling.sampler import Sampler, SamplingParams
from models.text.prompts import ChatTemplate, Message

FOLDER = Path(os.environ.get("LOCALSPEC_PAIR", "/nonexistent"))
TARGET = FOLDER / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
DRAFT = FOLDER / "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
TOKENS = 128
CONTEXT = 2048

pytestmark = [
    pytest.mark.pair,
    pytest.mark.skipif(
        not (TARGET.exists() and DRAFT.exists()), reason="LOCALSPEC_PAIR names no folder with the models"
    ),
]

CODE = '''def mean(values):
    """Return the arithmetic mean of a list of numbers."""
    total = 0
    for value in values:
        total += value
    return total / len(values)


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle]
'''
STORY = """The lighthouse keeper had not spoken to anyone for eleven days when the boat arrived. It was a small boat,
painted blue, and it carried a crate of oranges, two letters and a dog. The keeper read the first letter twice and
burned the second one unread. Then she named the dog Orange, and in the evening she told it about the winter of
the great storm."""
PROMPTS = (
    "Why is the sky blue?",
    "Write a short poem about the sea in winter.",
    "Give me three ideas for a birthday party.",
    "Explain what a hash table is to a child.",
    "Translate to German: The train leaves at seven, so we should hurry.",
    "What is the capital of Australia, and why not Sydney?",
    "A farmer has 17 sheep, buys 5 and sells 9. How many are left? Think step by step.",
    "If 3 pens cost 4.50, how much do 7 pens cost?",
    "Write a Python function that returns the n-th Fibonacci number.",
    "Write a Python function that checks whether a string is a palindrome, with tests.",
    "Write a bash script that renames all .txt files in a folder to .md.",
    "Write an SQL query for the three best-selling products of each month.",
    f"Add type hints to this code and return the whole file:\n\n{CODE}",
    f"Rename `values` to `numbers` everywhere and return the whole file:\n\n{CODE}",
    f"Make `median` right for lists of even length and return the whole file:\n\n{CODE}",
    f"Add a docstring to `median` and return the whole file:\n\n{CODE}",
    f"Summarize in two sentences:\n\n{STORY}",
    f"Repeat this text word by word:\n\n{STORY}",
    f"List every noun of this text:\n\n{STORY}",
    f"What was in the crate, and how is the dog called?\n\n{STORY}",
)
LENGTHS = (1, 2, 3, 4, 8)
TEMPERATURES = (0.0, 0.7, 1.0)


@dataclass
class Answer:
    prompt: list[int]
    tokens: list[int]
    stats: Stats


@dataclass
class Pair:
    target: LlamaModel
    model: DraftModel
    lookup: PromptLookup
    exact: int
    """Longest draft that changes no bit here."""

    def drafter(self, name: str) -> Drafter:
        return {"off": NullDrafter(), "model": self.model, "lookup": self.lookup}[name]

    def answer(self, text: str, params: SamplingParams, drafter: str, length: int) -> Answer:
        template = ChatTemplate.of(self.target)
        assert template is not None
        prompt = self.target.vocab.tokenize(template.render([Message("user", text)]))
        session = Session(self.target, self.drafter(drafter), time.perf_counter)
        self.target.rewind(0)
        ending = Ending(self.target.vocab, budget=TOKENS)
        rounds = list(session.answer(prompt, Sampler(params), ending, FixedLength(length)))
        emitted = [token for event in rounds if isinstance(event, Round) for token in event.emitted]
        return Answer(prompt, emitted, session.stats)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    target = LlamaModel(TARGET, LlamaOptions(context_size=CONTEXT))
    draft = DraftModel(LlamaModel(DRAFT, LlamaOptions(context_size=CONTEXT, max_rows=1)), target.vocab)
    yield Pair(target, draft, PromptLookup(target.vocab.is_end), exact_width(target) - 1)
    draft.close()
    target.close()


def combinations() -> list[tuple[int, str, int, float]]:
    """Return (prompt, drafter, length, temperature): every prompt twice, every other combination at least once."""
    grid = [(name, length, t) for t in TEMPERATURES for length in LENGTHS for name in ("model", "lookup")]
    return [(place // 2, *grid[(place + place // len(grid)) % len(grid)]) for place in range(2 * len(PROMPTS))]


def explain(pair: Pair, plain: Answer, other: Answer, place: int, params: SamplingParams, width: int) -> str:
    """Return how a fork came about; fails unless rounding, as measured right there, is as large as the gap."""
    prefix = plain.prompt + plain.tokens[:place]
    narrow = rows_at(pair.target, prefix, 1)
    noise = max(np.abs(narrow - rows_at(pair.target, prefix, rows)).max() for rows in range(2, width + 2))
    ids, keys = Sampler(params).keys(narrow, prefix)
    found = {int(token): float(key) for token, key in zip(ids, keys, strict=True)}
    bound = 2 * float(noise) / (params.temperature or 1.0)
    wanted = (plain.tokens[place], other.tokens[place])
    assert wanted[0] in found or wanted[1] in found, "neither token is a candidate"
    if all(token in found for token in wanted):
        gap = abs(found[wanted[0]] - found[wanted[1]])
    else:
        # One of them fell out of the candidates: it must have stood at their edge.
        missing = next(token for token in wanted if token not in found)
        gap = float(narrow[ids].min() - narrow[missing])
    assert gap <= bound, f"fork at {place}: gap {gap:.4f}, rounding explains {bound:.4f}"
    return f"gap {gap:.4f}, rounding {noise:.4f}"


def rows_at(target: LlamaModel, prefix: list[int], width: int) -> np.ndarray:
    """Return the logits after a prefix, from a pass over `width` tokens of which it is the first row."""
    target.rewind(0)
    for start in range(0, len(prefix) - 1, target.batch_size):
        target.decode(prefix[start : min(start + target.batch_size, len(prefix) - 1)], rows=0)
    rows: np.ndarray = target.decode([prefix[-1]] + [11] * (width - 1), rows=width)[0].copy()
    return rows


def test_drafting_changes_no_token_that_rounding_does_not(pair: Pair) -> None:
    plain: dict[tuple[int, float], Answer] = {}
    compared = 0
    forks = []
    for number, name, length, temperature in combinations():
        params = SamplingParams(temperature=temperature, seed=number)
        if (number, temperature) not in plain:
            plain[number, temperature] = pair.answer(PROMPTS[number], params, "off", 0)
        expected = plain[number, temperature]
        got = pair.answer(PROMPTS[number], params, name, length)
        same = next((i for i, (a, b) in enumerate(zip(expected.tokens, got.tokens, strict=False)) if a != b), None)
        compared += len(expected.tokens) if same is None else same
        told = ""
        if same is None:
            assert got.tokens == expected.tokens
        else:
            assert length > pair.exact, f"fork at {same} with drafts of {length}, exact up to {pair.exact}"
            told = f" fork at {same}: " + explain(pair, expected, got, same, params, length)
            forks.append(told)
        print(f"prompt {number:2} {name:6} k={length} T={temperature}: {got.stats.accepted}/{got.stats.drafted}{told}")
    print(f"{compared} tokens compared, {len(forks)} forks, none with drafts of up to {pair.exact} tokens")
    assert compared > 20 * TOKENS


def test_the_draft_model_evaluates_k_or_k_plus_one_tokens_a_round(pair: Pair) -> None:
    model = pair.model.model
    count = 0
    decode = model.decode

    def counted(tokens: list[int], rows: int) -> np.ndarray:
        nonlocal count
        count += len(tokens)
        return decode(tokens, rows)

    model.decode = counted  # type: ignore[method-assign,assignment]
    try:
        answer = pair.answer(PROMPTS[8], SamplingParams(temperature=0), "model", 4)
    finally:
        model.decode = decode  # type: ignore[method-assign]
    stats = answer.stats
    in_rounds = count - len(answer.prompt)
    print(f"{stats.drafts} drafts, {stats.drafted} drafted, {in_rounds} evaluated beside the prompt")
    assert stats.accepted > 0
    assert in_rounds <= stats.drafted + stats.drafts
