"""Arms by name, and the draft model that they share."""

from collections.abc import Sequence

import numpy as np
import pytest
from fakes import FakeClock, StoppingModel

from app.bench.measuring.arm_names import ArmKit, ArmSpec, make_arms, parse_arms
from app.bench.measuring.arms import Arm, Bench, BenchPrompt
from app.bench.measuring.shared_draft_model import Lender
from app.engine.decoding.controller import FixedLength
from drafters.base import NullDrafter
from drafters.draft_model import DraftModel
from models.errors import Cancelled, PairError, UsageError
from models.sampling.sampler import Sampler, SamplingParams
from models.text.prompts import Message
from models.toy import ToyModel

SAMPLER = Sampler(SamplingParams(temperature=0))


def names(*given: str, draft_max: int = 3, has_draft: bool = True) -> list[str]:
    return [str(arm) for arm in parse_arms(given, draft_max, has_draft=has_draft)]


def test_plain_always_comes_first_and_nothing_comes_twice() -> None:
    assert names("lookup:7", "off", "auto") == ["off", "lookup:7", "auto"]
    assert names("lookup", "lookup:3", "model", "lookup:03") == ["off", "lookup:3", "model:3"]
    assert names("lookup", draft_max=5) == ["off", "lookup:5"]


def test_without_names_there_is_auto_and_the_fixed_arms_where_there_is_a_draft_model() -> None:
    assert names(has_draft=False) == ["off", "auto"]
    assert names(draft_max=4) == ["off", "auto", "lookup:4", "model:4"]


@pytest.mark.parametrize(
    "name", ["lookup:0", "lookup:65", "model:x", "auto:3", "off:1", "fast", "lookup:", ":3", "model:²"]
)
def test_what_is_no_arm_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(UsageError, match="Unknown arm") as failure:
        names(name)
    assert "off, auto, lookup, suffix, recycle, lookahead, model" in failure.value.hint


def test_a_model_arm_needs_a_draft_model() -> None:
    with pytest.raises(UsageError, match="no draft model"):
        names("model:3", has_draft=False)
    assert ArmSpec("model", 3) in parse_arms(["model:3"], 3, has_draft=True)


@pytest.mark.parametrize("kind", ["lookup", "suffix"])
def test_a_memory_that_cannot_go_back_is_refused_by_name_and_plain_for_auto(kind: str) -> None:
    kit = ArmKit(ToyModel(rewind_limit=0), None, 3)
    with pytest.raises(PairError, match=f"{kind}:3 can't be used"):
        make_arms([ArmSpec("off"), ArmSpec(kind, 3)], kit)
    (arm,) = make_arms([ArmSpec("auto")], kit)
    assert arm.drafter.name == "off"


def test_borrowers_in_turn_see_what_an_owner_would_see() -> None:
    lender, alone = Lender(ToyModel(1)), [ToyModel(1), ToyModel(1)]
    lent = [lender.lend(), lender.lend()]
    for tokens in ([3, 4, 5], [6], [7, 8]):
        for borrower, owner in zip(lent, alone, strict=True):
            assert np.array_equal(borrower.decode(tokens, rows=1), owner.decode(tokens, rows=1))
        alone[0].rewind(alone[0].length - 1)
        lent[0].rewind(lent[0].length - 1)
        assert [model.length for model in lent] == [model.length for model in alone]
        alone.reverse()
        lent.reverse()


def test_a_text_is_read_again_when_the_model_is_taken_and_not_later() -> None:
    model = ToyModel(1)
    lender = Lender(model)
    one, other = lender.lend(), lender.lend()
    text = [i % 20 for i in range(100)]
    for start in (0, 50):
        one.decode(text[start : start + 50], rows=0)
    other.decode([1], rows=0)
    one.take()
    before = model.decoded
    one.decode([2], rows=1)
    assert model.decoded == before + 1
    one.take()
    assert model.decoded == before + 1, "who has it already reads nothing"


def test_a_text_whose_reading_was_stopped_is_nobodys() -> None:
    model = StoppingModel(1)
    lender = Lender(model)
    one, other = lender.lend(), lender.lend()
    for _ in range(2):
        one.decode([5] * 50, rows=0)
    other.decode([1, 2, 3], rows=0)
    model.stop_at = len(model.passes) + 2
    with pytest.raises(Cancelled):
        one.take()
    alone = ToyModel(1)
    alone.decode([1, 2, 3], rows=0)
    assert np.array_equal(other.decode([4], rows=1), alone.decode([4], rows=1))


def test_a_closed_borrower_leaves_nothing_and_the_model_open() -> None:
    lender = Lender(ToyModel(1))
    one = lender.lend()
    one.decode([1, 2, 3], rows=0)
    one.close()
    one.close()
    assert one.length == 0
    assert np.array_equal(lender.lend().decode([4], rows=1), ToyModel(1).decode([4], rows=1))


def test_two_draft_models_over_one_guess_as_if_each_had_its_own() -> None:
    target, lender = ToyModel(1), Lender(ToyModel(1))
    shared = [DraftModel(lender.lend(), target.vocab) for _ in range(2)]
    own = [DraftModel(ToyModel(1), target.vocab) for _ in range(2)]
    prompts = [[1, 2, 3, 4], [9, 8, 7]]
    for drafters in (shared, own):
        for drafter, prompt in zip(drafters, prompts, strict=True):
            drafter.begin(prompt, SAMPLER)
    for _ in range(4):
        proposals = [[list(d.propose(p, 3).tokens) for d, p in zip(ds, prompts, strict=True)] for ds in (shared, own)]
        assert proposals[0] == proposals[1]
        for place, proposal in enumerate(proposals[0]):
            prompts[place] = [*prompts[place], *proposal[:2], 11]
            for drafters in (shared, own):
                drafters[place].accept([*proposal[:2], 11], 2)


class Listening(NullDrafter):
    """Keeps the messages that it is handed."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, ...]] = []

    def converse(self, turns: Sequence[Message]) -> None:
        self.heard.append(tuple(turn.role for turn in turns))


def test_a_drafter_that_reads_messages_is_handed_those_of_each_turn() -> None:
    drafter, prompt = Listening(), BenchPrompt("one", "chat", ("a", "b"))
    arms = [Arm("off", NullDrafter(), FixedLength(0)), Arm("text", drafter, FixedLength(0))]
    bench = Bench(ToyModel(), FakeClock(), 4, lambda *_: None)
    assert len(list(bench.run([prompt], lambda: arms, SamplingParams(temperature=0)))) == 2
    assert drafter.heard == [("user",), ("user", "assistant", "user")]
