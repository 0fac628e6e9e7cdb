"""A hole is spelled once, however many slots might fill it."""

from pathlib import Path

import pytest
from fakes import FakeClock

from app.engine.conversation.messages import Ended
from app.engine.decoding.request import Question
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.worker import Worker
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.llama.load import LlamaOptions
from models.sampling.sampler import SamplingParams
from models.text.fim import FimFormat, Infill


@pytest.mark.parametrize("slots", [1, 3])
def test_a_infill_is_spelled_once_for_all_lanes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slots: int) -> None:
    plan = LoadPlan("toy-fim", parse_drafter("off"), LlamaOptions(), tmp_path / "memory.json", slots=slots)
    worker, spelled = Worker(plan, AbortFlag(), FakeClock()), []
    list(worker.load(lambda _, __: None))
    prompt = FimFormat.prompt

    def spell(self: FimFormat, infill: Infill, room: int | None = None) -> list[int]:
        spelled.append(infill)
        return prompt(self, infill, room)

    monkeypatch.setattr(FimFormat, "prompt", spell)
    question = Question((), SamplingParams(seed=5), infill=Infill("x = ", "\n"), max_tokens=5)
    for _ in range(2):
        *_, end = worker.answer(question)
        assert isinstance(end, Ended)
    assert len(spelled) == 2
    assert end.stats.reused_tokens == end.stats.prompt_tokens - 1
    worker.close()
