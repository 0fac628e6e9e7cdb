"""Drafts keep within the width that the machine computes exactly, unless rounding is allowed."""

import time
from pathlib import Path

import pytest

import app.engine.load
from app.engine.load import LoadPlan
from app.engine.messages import Said
from app.engine.question import Question
from app.engine.worker import Worker
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.llama_load import LlamaOptions
from models.prompts import Message
from models.sampling import SamplingParams


@pytest.mark.parametrize(
    ("width", "allow_rounding", "longest"), [(3, False, 2), (3, True, 6), (9, False, 6), (1, False, 6)]
)
def test_the_longest_draft(monkeypatch: pytest.MonkeyPatch, width: int, allow_rounding: bool, longest: int) -> None:
    monkeypatch.setattr(app.engine.load, "exact_width", lambda _: width)
    plan = LoadPlan("toy", parse_drafter("model:toy"), LlamaOptions(), Path("never used"))
    worker = Worker(plan, AbortFlag(), time.perf_counter)
    list(worker.load(lambda _, __: None))
    turns = (Message("user", "hello"),)
    question = Question(
        turns, SamplingParams(), max_tokens=40, draft_length=6, adapt=False, allow_rounding=allow_rounding
    )
    drafts = [len(said.round.draft.tokens) for said in worker.answer(question) if isinstance(said, Said)]
    worker.close()
    assert max(drafts) == longest
