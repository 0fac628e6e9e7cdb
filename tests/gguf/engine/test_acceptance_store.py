"""What a draft model has shown in one run is known in the next, for the same two files and no others."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from adapting import EVEN, MODEL, model_cost, new, played
from checking import caught
from fakes import FakeClock
from gguf import LlamaFileType
from tiny_gguf import write_llama

from app.engine.control import acceptance_store
from app.engine.control.acceptance import Acceptance
from app.engine.control.acceptance_store import RECORD_KEY, AcceptanceStore
from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.conversation.messages import Said
from app.engine.decoding.request import Question
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.worker import Worker
from drafters.base import Draft, ModelDrafter
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.llama.load import LlamaOptions
from models.sampling.sampler import SamplingParams
from models.system.remembered import Json, Remembered
from models.text.prompts import Message as Turn


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    return tmp_path / "memory.json"


@pytest.fixture
def known(memory: Path) -> Remembered:
    return Remembered(memory)


def records(memory: Path) -> dict[str, dict[str, Json]]:
    known = Remembered(memory)
    return {key: table for key in known._all() if key.startswith(RECORD_KEY) and (table := known.get_table(key))}


def loaded(target: Path, draft: Path, memory: Path) -> Worker:
    plan = LoadPlan(str(target), parse_drafter(str(draft)), LlamaOptions(context_size=256, max_rows=8), memory)
    worker = Worker(plan, AbortFlag(), FakeClock(0.001))
    list(worker.load(lambda *_: None))
    return worker


def answer(worker: Worker) -> None:
    question = Question((Turn("user", "a b c"),), SamplingParams(temperature=0), max_tokens=4)
    # What comes after the last message counts too.
    told = list(worker.answer(question))
    assert any(isinstance(message, Said) for message in told)


def proposal(worker: Worker, proposals: int) -> Acceptance:
    """Accept `proposals` draft tokens of the draft model; return the acceptance then."""
    drafting = worker._slot.drafting
    assert drafting.adaptive is not None
    assert drafting.model is not None
    for _ in range(proposals):
        drafting.adaptive.acceptance.observe(Draft((1,), confidence=(0.9,), source=drafting.model.name), (1,))
    return drafting.adaptive.acceptance


def run(target: Path, draft: Path, memory: Path, proposals: int = 0) -> Acceptance:
    """Answer once in a run of its own, in which so many draft tokens are accepted; return what was known by its end."""
    worker = loaded(target, draft, memory)
    try:
        answer(worker)
        return proposal(worker, proposals)
    finally:
        worker.close()


def weight(acceptance: Acceptance) -> float:
    """Return how many first draft tokens of draft models are known, old ones counting less."""
    cells = acceptance._by_place.items()
    return sum(cell.weight for (source, group), cell in cells if source.startswith("model:") and group == 0)


def test_a_run_goes_on_from_what_the_last_one_knew(tmp_path: Path, memory: Path) -> None:
    model = write_llama(tmp_path / "model.gguf", file_type=LlamaFileType.ALL_F32)
    first = run(model, model, memory, proposals=5)
    assert weight(first) > 4
    assert len(records(memory)) == 1
    second = run(model, model, memory)
    assert weight(second) == pytest.approx(weight(first) / 2), "half of it counts, as from one answer to the next"
    with pytest.MonkeyPatch.context() as broken, caught():
        broken.setattr(Acceptance, "recall", lambda *_: None)
        assert weight(run(model, model, memory)) > 0


def test_who_is_killed_or_drafts_otherwise_has_lost_little(tmp_path: Path, memory: Path) -> None:
    model = write_llama(tmp_path / "model.gguf", file_type=LlamaFileType.ALL_F32)
    worker = loaded(model, model, memory)
    try:
        proposal(worker, 40)
        answer(worker)
        (after_an_answer,) = records(memory).values()
        proposal(worker, 5)
        list(worker.use_drafter(parse_drafter("off"), lambda *_: None))
        (after_a_change,) = records(memory).values()
        assert after_a_change != after_an_answer
    finally:
        worker.close()


def test_the_same_pair_chosen_anew_goes_on_from_what_it_showed(tmp_path: Path, memory: Path) -> None:
    model = write_llama(tmp_path / "model.gguf", file_type=LlamaFileType.ALL_F32)
    worker = loaded(model, model, memory)
    try:
        before = weight(proposal(worker, 9))
        assert before > 4
        list(worker.use_drafter(parse_drafter(str(model)), lambda *_: None))
        assert weight(proposal(worker, 0)) == pytest.approx(before)
    finally:
        worker.close()


def test_another_pair_has_shown_nothing(tmp_path: Path, memory: Path) -> None:
    model, other = (write_llama(tmp_path / name, file_type=LlamaFileType.ALL_F32) for name in ("a.gguf", "b.gguf"))
    run(model, model, memory, proposals=5)
    assert weight(run(model, other, memory)) == 0
    assert weight(run(other, model, memory)) == 0


def proved(worker: Worker) -> float:
    """Return how often the draft model is known to be right at the first place of a draft."""
    drafting = worker._slot.drafting
    assert drafting.adaptive is not None
    assert drafting.model is not None
    return drafting.adaptive.acceptance.proven(drafting.model.name, 1)[0]


def test_a_new_pair_is_looked_at_before_its_first_answer_and_once(tmp_path: Path, memory: Path) -> None:
    model, other = (write_llama(tmp_path / name, file_type=LlamaFileType.ALL_F32) for name in ("a.gguf", "b.gguf"))

    def first(draft: Path) -> float:
        worker = loaded(model, draft, memory)
        try:
            assert worker._slot.target.length == 0
            return proved(worker)
        finally:
            worker.close()

    def again() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(acceptance_store, "agreement_of", lambda *_: pytest.fail("it was looked at before"))
            assert first(model) == pytest.approx(known)

    known = first(model)
    assert known > 0.5, "it agrees with itself"
    assert len(records(memory)) == 1
    again()
    with caught(), pytest.MonkeyPatch.context() as broken:
        broken.setattr(AcceptanceStore, "introduce", lambda *_: None)
        assert first(other) > 0
    assert first(other) == pytest.approx(known)
    assert len(records(memory)) == 2


def test_a_pair_that_meets_in_a_conversation_is_looked_at_and_the_conversation_stays(
    tmp_path: Path, memory: Path
) -> None:
    model = write_llama(tmp_path / "model.gguf", file_type=LlamaFileType.ALL_F32)
    worker = loaded(model, model, memory)
    try:
        answer(worker)
        target = worker._slot.target
        said = target.length
        assert said > 4
        memory.unlink()
        worker._slot.drafting.introduce(target)
        assert len(records(memory)) == 1
        assert target.length == said
    finally:
        worker.close()


def shown(adaptive: AdaptiveController, rounds: int, right: int = 2) -> None:
    for _ in range(rounds):
        played(adaptive, Draft((1, 2), confidence=(0.9, 0.9), source=MODEL), right=right)


def new_record(known: Remembered, adaptive: AdaptiveController) -> AcceptanceStore:
    named = cast("ModelDrafter", SimpleNamespace(name=MODEL))
    return AcceptanceStore(known, f"{RECORD_KEY}a for b", named, adaptive.acceptance)


Make = Callable[[], AdaptiveController]


@pytest.fixture
def make() -> Make:
    return lambda: new(EVEN, step=0.05)


def test_a_prompt_is_read_on_a_loan_in_the_first_answer_of_a_run_where_the_last_run_proved_the_pair(
    known: Remembered, make: Make
) -> None:
    before, after = make(), make()
    record = new_record(known, before)
    shown(before, 40)
    record.keep()
    played(after)
    assert after.policy.loan(model_cost(0.05), 130, 31) is None
    new_record(known, after)
    after.begin()
    played(after)
    assert after.policy.loan(model_cost(0.05), 130, 31) is not None


def test_all_that_is_learnt_of_it_comes_back_and_nothing_of_others(known: Remembered, make: Make) -> None:
    before, after = make(), make()
    record = new_record(known, before)
    shown(before, 20)
    shown(before, 20, right=1)
    played(before, Draft((1, 2), confidence=(0.9, 0.9), source="suffix"), right=2)
    record.keep()
    new_record(known, after)
    proposal = Draft((1, 2), confidence=(0.9, 0.9), source=MODEL)
    assert after.acceptance.chances(proposal) == pytest.approx(before.acceptance.chances(proposal))
    assert after.acceptance.proven(MODEL, 8) == pytest.approx(before.acceptance.proven(MODEL, 8))
    for _ in range(20):
        before.acceptance.begin()
        after.acceptance.begin()
    assert after.acceptance.proven(MODEL, 8) == pytest.approx(before.acceptance.proven(MODEL, 8)), "in the long run too"
    assert after.acceptance.proven(MODEL, 1)[0] > 0.5
    assert after.acceptance.proven("suffix", 1) == [0.0]
    assert not after.acceptance.counts, "screens tell what was seen since the models were loaded"


def test_it_is_written_after_a_number_of_guesses_and_at_the_end(known: Remembered, memory: Path, make: Make) -> None:
    adaptive = make()
    record = new_record(known, adaptive)
    shown(adaptive, 3)
    record.keep()
    assert not memory.exists()
    record.keep(least=1)
    first = records(memory)
    assert len(first) == 1
    record.keep(least=1)
    assert records(memory) == first
    memory.unlink()
    record.keep(least=1)
    assert not memory.exists(), "nothing was new"
    shown(adaptive, 40)
    record.keep()
    assert records(memory) != first


@pytest.mark.parametrize(
    "table",
    [
        {"0": [5, 3]},
        {"0": [-1, 3]},
        {"0": [1, 1e9]},
        {"0": [float("nan"), 3]},
        {"0 lasting": [1, 1e9]},
        {"0 lasting": [5, 3]},
        {"lasting 0": [1, 2]},
        {"0": "many"},
        {"0": [1]},
        {"": [1, 2]},
        {"a b": [1, 2]},
        {"0 1 2": [1, 2]},
        {"0": [True, True, True]},
        {"0": None},
    ],
    ids=str,
)
def test_a_record_that_can_not_be_one_is_no_record(known: Remembered, table: dict[str, Json], make: Make) -> None:
    known.put(f"{RECORD_KEY}a for b", table)
    adaptive = make()
    new_record(known, adaptive)
    assert not adaptive.acceptance.knows(MODEL)
    assert adaptive.acceptance.proven(MODEL, 1) == [0.0]
