"""Drafts keep within the width that the machine computes exactly, unless rounding is allowed."""

import time
from pathlib import Path

import pytest
from fakes import FakeClock

import app.engine.runtime.machine_measurements
from app.engine.conversation.messages import Said
from app.engine.decoding.request import Question
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.worker import Worker
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.llama.load import LlamaOptions
from models.sampling.accept import Accept
from models.sampling.sampler import SamplingParams
from models.text.prompts import Message
from models.toy import ToyModel

MOST_BRANCHES = ToyModel().max_branches


@pytest.mark.parametrize(
    ("width", "allow_rounding", "longest"), [(3, False, 2), (3, True, 6), (9, False, 6), (1, False, 6)]
)
def test_the_longest_draft(monkeypatch: pytest.MonkeyPatch, width: int, allow_rounding: bool, longest: int) -> None:
    monkeypatch.setattr(app.engine.runtime.machine_measurements, "exact_width", lambda _: width)
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


@pytest.mark.parametrize(
    ("exact", "width", "allow_rounding", "accept", "branches"),
    [
        (True, 9, False, Accept.COUPLED, MOST_BRANCHES),
        (False, 9, False, Accept.COUPLED, 0),
        (False, 9, True, Accept.COUPLED, MOST_BRANCHES),
        # Nothing is exact there, with second guesses or without.
        (False, 1, False, Accept.COUPLED, MOST_BRANCHES),
        (True, 9, False, Accept.RESIDUAL, MOST_BRANCHES),
        (True, 9, False, Accept.BLOCK, 0),
        (True, 9, True, Accept.TYPICAL, 0),
    ],
)
def test_second_guesses_are_checked_where_that_is_as_exact_as_the_draft_and_the_rule_knows_them(
    monkeypatch: pytest.MonkeyPatch, exact: bool, width: int, allow_rounding: bool, accept: Accept, branches: int
) -> None:
    monkeypatch.setattr(app.engine.runtime.machine_measurements, "exact_width", lambda _: width)
    monkeypatch.setattr(app.engine.runtime.machine_measurements, "exact_branches", lambda _: exact)
    worker = Worker(LoadPlan("toy", parse_drafter("toy"), LlamaOptions(), Path("never used")), AbortFlag(), FakeClock())
    list(worker.load(lambda _, __: None))
    turns = (Message("user", "hello"),)
    list(worker.answer(Question(turns, SamplingParams(), max_tokens=4, allow_rounding=allow_rounding, accept=accept)))
    adaptive = worker._slot.drafting.adaptive
    worker.close()
    assert adaptive is not None
    assert adaptive.settings.max_siblings == branches


def test_every_lane_of_a_server_keeps_to_the_longest_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.engine.runtime.machine_measurements, "exact_width", lambda _: 3)
    plan = LoadPlan("toy", parse_drafter("model:toy"), LlamaOptions(), Path("never used"), slots=2)
    worker = Worker(plan, AbortFlag(), FakeClock())
    list(worker.load(lambda _, __: None))
    question = Question((Message("user", "hello"),), SamplingParams(), max_tokens=20, draft_length=6, adapt=False)
    first, second = worker.answer(question), worker.answer(question)
    # One lane is taken, the other is left.
    next(first)
    lanes = [list(second), list(first)]
    worker.close()
    drafts = [[said.round.draft.size for said in lane if isinstance(said, Said)] for lane in lanes]
    assert [max(lane) for lane in drafts] == [2, 2]
