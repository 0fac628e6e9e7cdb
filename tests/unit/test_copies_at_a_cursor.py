"""At a cursor everybody who copies goes on from what is before it, however a drafter comes to be."""

from pathlib import Path

import pytest

from app.engine.bench_arms import ArmKit, ArmSpec, make_arms
from app.engine.calibrate import VerifyCurve
from app.engine.load import TOY_FIM, Loader, LoadPlan
from drafters.base import Drafter
from drafters.memory import Place
from drafters.registry import DrafterSpec
from models.abort import AbortFlag
from models.fim import fim_prompt
from models.llama_load import LlamaOptions
from models.sampling import Sampler, SamplingParams
from models.toy import ToyModel

PREFIX, SUFFIX = "one two three\none two", "\nsomething else"


def loaded(folder: Path, texts: Place | None) -> Drafter:
    plan = LoadPlan(TOY_FIM, DrafterSpec("auto"), LlamaOptions(), folder / "machine.json", texts=texts)
    loader = Loader(plan, AbortFlag(), lambda: 0.0, lambda _, __: None)
    return loader.drafting(plan.drafter, loader.target()).drafter


def benchmarked(kind: str) -> Drafter:
    kit = ArmKit(ToyModel(markers=True), VerifyCurve({1: 1.0, 8: 1.0}), 7, None)
    (arm,) = make_arms([ArmSpec(kind, 7)], kit)
    return arm.drafter


@pytest.mark.parametrize("how", ["loaded", "with a memory", "auto", "suffix"])
def test_copies_at_a_cursor_go_on_from_what_is_before_it(how: str, tmp_path: Path) -> None:
    texts = Place(tmp_path / "memory", tmp_path) if how == "with a memory" else None
    drafter = benchmarked(how) if how in ("auto", "suffix") else loaded(tmp_path, texts)
    vocab = ToyModel(markers=True).vocab
    prompt = fim_prompt(vocab, PREFIX, SUFFIX)
    assert prompt is not None
    drafter.begin(prompt, Sampler(SamplingParams()))
    assert drafter.propose(prompt, 6).tokens == (*vocab.tokenize(" three"),)
