"""Several draft models of which one drafts at a time: which one reads and drafts, and what all of them are told."""

from collections.abc import Callable, Mapping, Sequence

import pytest
from fakes import ScriptedDrafter, StoppingModel

from drafters.alternatives import AlternativeModels, one_of, parts_of
from drafters.base import draft_to_the_limit
from drafters.draft_model import DraftModel
from drafters.hybrid import Eager, Hybrid
from models.errors import LocalspecError
from models.sampling.sampler import Sampler, SamplingParams
from models.toy import ToyModel, ToyVocab

VOCAB = ToyVocab()
PROMPT = VOCAB.tokenize("the cat sat on the mat")
SAMPLER = Sampler(SamplingParams(seed=5))


class Turns(Eager):
    """A control that lets the draft models draft in a fixed order, and keeps what each had to read."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self.unread: list[Mapping[str, int]] = []

    def choose(self, unread: Callable[[], Mapping[str, int]]) -> str:
        self.unread.append(unread())
        return self._names.pop(0)


def two() -> tuple[AlternativeModels, StoppingModel, StoppingModel]:
    models = StoppingModel(1), StoppingModel(2, unlikeness=0.5)
    return AlternativeModels([DraftModel(model, VOCAB) for model in models]), *models


def test_the_first_drafts_until_another_is_used() -> None:
    both, first, second = two()
    assert (both.name, both.model) == ("model:toy-1", first)
    both.begin(PROMPT, SAMPLER)
    draft = both.extend(PROMPT, (), 3, draft_to_the_limit)
    assert (draft.source, first.length > 0, second.length) == ("model:toy-1", True, 0)
    both.accept(draft.tokens[:1], 1)
    both.use("model:toy-2")
    assert (both.name, both.model, both.unread(PROMPT)) == ("model:toy-2", second, len(PROMPT))


def test_each_keeps_what_it_has_read_while_another_drafts() -> None:
    both, first, _ = two()
    both.begin(PROMPT, SAMPLER)
    context = list(PROMPT)
    hybrid = Hybrid([], both, control := Turns(["model:toy-1", "model:toy-2", "model:toy-1"]))
    hybrid.begin(context, SAMPLER)
    sources = []
    for _ in range(3):
        draft = hybrid.propose(context, 2)
        sources.append(draft.source)
        context += draft.tokens
        hybrid.accept(draft.tokens, len(draft.tokens))
    assert sources == ["model:toy-1", "model:toy-2", "model:toy-1"]
    assert control.unread[1] == {"model:toy-1": 1, "model:toy-2": len(PROMPT) + 2}
    # One of its own two, then the two of the other.
    assert control.unread[2]["model:toy-1"] == 3
    assert first.length >= len(PROMPT)


def test_drafts_are_those_of_the_one_alone() -> None:
    both, *_ = two()
    alone = DraftModel(ToyModel(2, unlikeness=0.5), VOCAB)
    both.use("model:toy-2")
    for drafter in (both, alone):
        drafter.begin(PROMPT, SAMPLER)
    assert both.propose(PROMPT, 5).tokens == alone.propose(PROMPT, 5).tokens


def test_a_hybrid_of_one_draft_model_is_not_asked_which() -> None:
    hybrid = Hybrid([ScriptedDrafter()], DraftModel(ToyModel(), VOCAB), control := Turns([]))
    hybrid.begin(PROMPT, SAMPLER)
    assert hybrid.propose(PROMPT, 2).tokens
    assert control.unread == []


def fail(model: StoppingModel, at: int = 1) -> None:
    model.stop_at, model.error = at, LocalspecError("No memory.")


@pytest.mark.parametrize("at", [1, 2, 3])
def test_after_one_failed_the_other_drafts_until_the_next_answer(at: int) -> None:
    both, first, _ = two()
    hybrid = Hybrid([], both, Eager())
    hybrid.begin(PROMPT, SAMPLER)
    fail(first, at)
    assert hybrid.propose(PROMPT, 3).tokens == ()
    assert hybrid.failures == {"model:toy-1": "No memory."}
    said = [*PROMPT, 7]
    hybrid.accept([7], 0)
    alone = DraftModel(ToyModel(2, unlikeness=0.5), VOCAB)
    alone.begin(PROMPT, SAMPLER)
    draft = hybrid.propose(said, 3)
    assert (draft.source, draft.tokens) == ("model:toy-2", alone.propose(said, 3).tokens)
    assert len(first.passes) == at, "one that failed is not called again"
    first.stop_at = 0
    hybrid.begin(said, SAMPLER)
    assert (hybrid.failures, hybrid.propose(said, 3).source) == ({}, "model:toy-1")


def test_after_both_failed_the_free_drafters_go_on() -> None:
    both, *models = two()
    hybrid = Hybrid([ScriptedDrafter([(), (), (), (9, 9)])], both, Eager())
    hybrid.begin(PROMPT, SAMPLER)
    for model in models:
        fail(model)
    context, drafts = list(PROMPT), []
    for _ in range(4):
        drafts.append(hybrid.propose(context, 3).tokens)
        context.append(7)
        hybrid.accept([7], 0)
    assert drafts == [(), (), (), (9, 9)]
    assert hybrid.failures == dict.fromkeys(["model:toy-1", "model:toy-2"], "No memory.")
    assert [len(model.passes) for model in models] == [1, 1]


def test_closing_frees_all(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[int] = []
    both, *models = two()
    for number, model in enumerate(models):
        monkeypatch.setattr(model, "close", lambda number=number: closed.append(number))
    both.close()
    assert closed == [0, 1]


def test_the_name_of_a_hybrid_names_all() -> None:
    both, *_ = two()
    assert Hybrid([ScriptedDrafter()], both, Eager()).name.endswith("+model:toy-1+model:toy-2")


@pytest.mark.parametrize("count", [0, 1, 2])
def test_parts_of_any_number(count: int) -> None:
    drafters = [DraftModel(ToyModel(seed), VOCAB) for seed in range(count)]
    assert parts_of(one_of(drafters)) == tuple(drafters)
