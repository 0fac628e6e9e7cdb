"""A computed EAGLE-3 head for the starter: 64 answers of a real model, whose drafts are sometimes accepted."""

from collections.abc import Iterator

import pytest
from closed_form_head import write_closed_form_head
from computed_head import answers, middle_layers
from fakes import Case, run

from app.bench.prompts import choose, read_prompts
from app.engine.conversation.transcript import Transcript
from drafters.base import NullDrafter
from drafters.head import HeadDrafter
from models.heads.head_model import HeadModel
from models.heads.loading import load_head
from models.library.catalog import STARTER, find_model
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.sampling.sampler import SamplingParams
from models.text.prompts import Message

pytestmark = [pytest.mark.computed, pytest.mark.starter]

_LEAST = 0.08
"""Least share of first draft tokens that are accepted: of a head of random weights none are."""


@pytest.fixture(scope="module")
def target() -> Iterator[LlamaModel]:
    model = LlamaModel(find_model(STARTER), LlamaOptions(context_size=1024))
    yield model
    model.close()


@pytest.fixture(scope="module")
def head(target: LlamaModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadDrafter]:
    path = find_model(STARTER)
    read = answers(target, choose(read_prompts(None), ["chat", "qa", "math", "code"], 12), 160)
    file = write_closed_form_head(tmp_path_factory.mktemp("head") / "s-eagle3.gguf", path, read, middle_layers(30))
    drafter = HeadDrafter(HeadModel(load_head(file, target), target))
    yield drafter
    drafter.close()


def test_a_computed_head_is_accepted_now_and_then_and_changes_no_text(target: LlamaModel, head: HeadDrafter) -> None:
    transcript = Transcript(target)
    first = tried = 0
    prompts = choose(read_prompts(None), ["edit", "rag", "summarize", "translate"], 4)
    for number, asked in enumerate([*prompts, *prompts, *prompts, *prompts]):
        prompt = tuple(transcript.prompt([Message("user", asked.turns[0])]))
        case = Case(prompt, SamplingParams(temperature=0.7 * (number >= len(prompts)), seed=number), budget=96)
        target.rewind(0)
        wanted = run(case, NullDrafter(), 0, target=target)
        target.rewind(0)
        got = run(case, head, 3, target=target)
        assert got == wanted
        drafted = [round_ for round_ in got.rounds if round_.draft.tokens]
        tried += len(drafted)
        first += sum(round_.verdict.accepted > 0 for round_ in drafted)
    assert tried > 500
    assert first > _LEAST * tried
