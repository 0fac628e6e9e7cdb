"""Drafters that copy continue the text before the cursor, whatever names they were created from."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from app.bench.measuring.arm_names import ArmKit, ArmSpec, make_arms
from app.engine.costs.pass_cost import VerifyCurve
from app.engine.runtime.load import TOY_FIM, LoadPlan
from app.engine.runtime.loader import Loader
from drafters.base import Drafter
from drafters.history.store import Place
from drafters.registry import DrafterSpec
from models.abort import AbortFlag
from models.llama.load import LlamaOptions
from models.sampling.sampler import Sampler, SamplingParams
from models.text.fim import fim_prompt
from models.toy import ToyModel

PREFIX, SUFFIX = "one two three\none two", "\nsomething else"


def loaded(kind: str, folder: Path, texts: Place | None = None) -> Drafter:
    plan = LoadPlan(TOY_FIM, DrafterSpec(kind), LlamaOptions(), folder / "machine.json", texts=texts)
    loader = Loader(plan, AbortFlag(), lambda: 0.0, lambda _, __: None)
    return loader.drafting(plan.drafter, loader.target()).drafter


def benchmarked(kind: str) -> Drafter:
    kit = ArmKit(ToyModel(markers=True), VerifyCurve({1: 1.0, 8: 1.0}), 7)
    (arm,) = make_arms([ArmSpec(kind, 7)], kit)
    return arm.drafter


HOW: dict[str, Callable[[Path], Drafter]] = {
    "loaded": partial(loaded, "auto"),
    "with a memory": lambda folder: loaded("auto", folder, Place(folder / "memory", folder)),
    "lookup loaded": partial(loaded, "lookup"),
    **{kind: lambda _, kind=kind: benchmarked(kind) for kind in ("auto", "suffix", "lookup")},
}


@pytest.mark.parametrize("how", HOW)
def test_copies_at_a_cursor_go_on_from_what_is_before_it(how: str, tmp_path: Path) -> None:
    drafter = HOW[how](tmp_path)
    vocab = ToyModel(markers=True).vocab
    prompt = fim_prompt(vocab, PREFIX, SUFFIX)
    assert prompt is not None
    drafter.begin(prompt, Sampler(SamplingParams()))
    assert drafter.propose(prompt, 6).tokens == (*vocab.tokenize(" three"),)
