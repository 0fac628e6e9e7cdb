"""The real target and draft under --strict: 1,000 tokens with and without drafting, and not one that differs.

Run with LOCALSPEC_PAIR=FOLDER and -m pair; takes about three minutes on two cores.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.engine.conversation.session import Session
from app.engine.costs.exact_settings import Settled, Strict
from app.engine.decoding.controller import FixedLength
from app.engine.decoding.ending import Ending
from app.engine.decoding.round import Round
from drafters.base import Drafter, NullDrafter
from drafters.draft_model import DraftModel
from drafters.suffix import SuffixDrafter
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.sampling.sampler import Sampler, SamplingParams
from models.text.prompts import ChatTemplate, Message

FOLDER = Path(os.environ.get("LOCALSPEC_PAIR", "/nonexistent"))
TARGET = FOLDER / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
DRAFT = FOLDER / "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
CONTEXT = 2048
BUDGET = 130
PROMPTS = (
    "Write a Python function that returns the n-th Fibonacci number, with a docstring.",
    "Why is the sky blue?",
    "Write a bash script that renames all .txt files in a folder to .md.",
    "Repeat this three times: the train leaves at seven, so we should hurry.",
)

pytestmark = [
    pytest.mark.pair,
    pytest.mark.skipif(
        not (TARGET.exists() and DRAFT.exists()), reason="LOCALSPEC_PAIR names no folder with the models"
    ),
]


@dataclass
class Kit:
    settled: Settled
    model: DraftModel

    def answer(self, text: str, params: SamplingParams, drafter: Drafter, length: int) -> list[int]:
        target = self.settled.model
        template = ChatTemplate.of(target)
        assert template is not None
        prompt = target.vocab.tokenize(template.render([Message("user", text)]))
        target.rewind(0)
        session = Session(target, drafter, time.perf_counter)
        ending = Ending(target.vocab, budget=BUDGET)
        rounds = session.answer(prompt, Sampler(params), ending, FixedLength(length))
        return [token for event in rounds if isinstance(event, Round) for token in event.emitted]


@pytest.fixture(scope="module")
def kit() -> Iterator[Kit]:
    model = LlamaModel(TARGET, LlamaOptions(context_size=CONTEXT))
    settled = Strict(lambda options: LlamaModel(TARGET, options), time.perf_counter, print).settle(model)
    print(settled.note)
    draft = DraftModel(LlamaModel(DRAFT, LlamaOptions(context_size=CONTEXT)), settled.model.vocab)
    yield Kit(settled, draft)
    draft.close()
    settled.model.close()


def test_1000_tokens_without_a_fork(kit: Kit) -> None:
    widest = kit.settled.checked.width
    assert widest > 1
    compared = 0
    for number, text in enumerate(PROMPTS):
        params = SamplingParams(temperature=(0.0, 0.7)[number % 2], seed=number)
        plain = kit.answer(text, params, NullDrafter(), 0)
        suffix = SuffixDrafter(kit.settled.model.vocab.is_end)
        for drafter, length in ((kit.model, widest - 1), (kit.model, max(1, widest - 2)), (suffix, widest - 1)):
            got = kit.answer(text, params, drafter, length)
            assert got == plain, f"a fork with {drafter.name} and drafts of {length}"
            compared += len(plain)
    print(f"{compared} tokens compared, no fork, passes of up to {widest} tokens")
    assert compared >= 1000
