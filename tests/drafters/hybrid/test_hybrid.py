"""Combination of drafters: which is asked when, what the draft model reads, and which drafts come out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from fakes import ScriptedDrafter, StoppingModel

from drafters.base import NO_DRAFT, Draft, Hindsight
from drafters.draft_model import DraftModel
from drafters.hybrid import Ask, Eager, Hybrid, ModelRequest, checked_source
from drafters.suffix import SuffixDrafter
from models.errors import Cancelled, LocalspecError
from models.sampling.sampler import Sampler, SamplingParams
from models.toy import ToyModel, ToyVocab

VOCAB = ToyVocab()
PROMPT = VOCAB.tokenize("the cat sat on the mat")
LONG = VOCAB.tokenize("the cat sat on the mat. " * 6)
SAMPLER = Sampler(SamplingParams(seed=5))


@dataclass
class Scripted:
    """A control that makes the requests it was given, and keeps what it was asked."""

    requests: list[ModelRequest] = field(default_factory=list)
    """Answers to `request`, in turn; the last one again and again."""
    most: int = 99
    """Longest draft of the model's that goes on."""
    free: list[Draft] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)
    learnt: list[tuple[str, Hindsight]] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    """Sources of the drafts that could have gone on."""
    reports: list[str] = field(default_factory=list)
    """Reports of the drafter, in order."""

    @property
    def policy(self) -> "Scripted":
        return self

    def worth(self, draft: Draft) -> float:
        return sum(draft.tokens)

    def choose(self, unread: Callable[[], Mapping[str, int]]) -> str:
        return next(iter(unread()))

    def failed(self, name: str) -> None:
        self.reports.append(f"{name} failed")

    def request(self, free: Draft, unread: int, limit: int, *, skipped: int = 0) -> ModelRequest:  # noqa: ARG002
        self.free.append(free)
        self.unread.append(unread)
        self.skipped.append(skipped)
        return self.requests.pop(0) if len(self.requests) > 1 else self.requests[0]

    def requested(self, request: ModelRequest) -> None:
        self.reports.append(f"requested {request.ask.value}")

    def read(self) -> None:
        self.reports.append("read")

    def stepped(self) -> None:
        self.reports.append("stepped")

    def learn(self, source: str, hindsight: Hindsight) -> None:
        self.learnt.append((source, hindsight))
        self.reports.append("learn")

    def goes_on(self, source: str, confidence: tuple[float, ...]) -> bool:
        self.sources.append(source)
        return len(confidence) < self.most


def own(context: Sequence[int], length: int) -> tuple[int, ...]:
    """Return what the draft model drafts when no other drafter does."""
    drafter = DraftModel(ToyModel(unlikeness=0.3), VOCAB)
    drafter.begin(context, SAMPLER)
    return drafter.propose(context, length).tokens


@dataclass
class Parts:
    """A hybrid of a scripted drafter and a draft model, and what they were asked."""

    hybrid: Hybrid
    model: StoppingModel
    free: ScriptedDrafter
    control: Scripted


def begun(
    wanted: ModelRequest | list[ModelRequest],
    proposals: Sequence[int] = (),
    context: Sequence[int] = PROMPT,
    most: int = 99,
) -> Parts:
    model = StoppingModel(unlikeness=0.3)
    free = ScriptedDrafter([proposals])
    control = Scripted(wanted if isinstance(wanted, list) else [wanted], most)
    hybrid = Hybrid([free], DraftModel(model, VOCAB), control)
    hybrid.begin(context, SAMPLER)
    return Parts(hybrid, model, free, control)


def test_its_name_names_all_of_them() -> None:
    suffix, model = SuffixDrafter(VOCAB.is_end), DraftModel(ToyModel(), VOCAB)
    assert Hybrid([suffix], None, Eager()).name == "suffix"
    assert Hybrid([suffix], model, Eager()).name == "suffix+model:toy-0"
    assert Hybrid([], model, Eager()).name == "model:toy-0"
    assert checked_source("model:toy-0", "suffix") == "model:toy-0+suffix"


def test_those_who_copy_have_a_prompt_in_the_order_of_the_text_and_the_model_as_it_is() -> None:
    free, model = ScriptedDrafter(), StoppingModel()
    hybrid = Hybrid(
        [free], DraftModel(model, VOCAB), Scripted([ModelRequest(Ask.DRAFT, 1)]), lambda prompt: [*prompt[::-1]]
    )
    hybrid.begin(PROMPT, SAMPLER)
    assert free.begun == [tuple(PROMPT[::-1])]
    alone = DraftModel(StoppingModel(), VOCAB)
    alone.begin(PROMPT, SAMPLER)
    assert hybrid.propose(PROMPT, 1).tokens == alone.propose(PROMPT, 1).tokens


def test_of_free_drafts_the_one_worth_most_is_taken() -> None:
    poor, rich = ScriptedDrafter([(1, 1)]), ScriptedDrafter([(9,)])
    for free in ([poor, rich], [rich, poor]):
        hybrid = Hybrid(free, None, Scripted())
        hybrid.begin(PROMPT, SAMPLER)
        assert hybrid.propose(PROMPT, 4).tokens == (9,)


@pytest.mark.parametrize("free", [[], [ScriptedDrafter()], [ScriptedDrafter(), ScriptedDrafter()]])
def test_where_nobody_guesses_there_is_no_draft(free: list[ScriptedDrafter]) -> None:
    hybrid = Hybrid(free, None, Scripted())
    hybrid.begin(PROMPT, SAMPLER)
    assert hybrid.propose(PROMPT, 4) == NO_DRAFT


def test_a_draft_model_that_is_not_asked_does_nothing() -> None:
    parts = begun(ModelRequest(), (1, 2, 3))
    assert parts.hybrid.propose(PROMPT, 4) == Draft((1, 2, 3), source="scripted")
    assert parts.model.passes == []
    assert parts.control.free[0].tokens == (1, 2, 3)
    assert parts.control.unread == [len(PROMPT)]


@pytest.mark.parametrize("proposals", [(), (1, 2, 3)])
def test_a_draft_of_the_model_is_its_own_whatever_else_was_guessed(proposals: tuple[int, ...]) -> None:
    draft = begun(ModelRequest(Ask.DRAFT, 4), proposals).hybrid.propose(PROMPT, 4)
    assert draft.tokens == own(PROMPT, 4)
    assert draft.source == "model:toy-0"
    assert len(draft.confidence) == 4


@pytest.mark.parametrize("right", range(5))
def test_a_free_draft_is_checked_in_one_pass_cut_where_the_model_disagrees_and_gone_on_with(right: int) -> None:
    wanted = own(PROMPT, 8)
    proposals = [*wanted[:right], *((token + 1) % 28 for token in wanted[right:5])]
    parts = begun([ModelRequest(Ask.CHECK, 8)] * 2, proposals)
    # What is to be read first is no business of this test.
    parts.hybrid._model.catch_up(PROMPT, 0)
    parts.model.passes.clear()
    draft = parts.hybrid.propose(PROMPT, 8)
    assert draft.tokens == wanted
    assert draft.source == "model:toy-0+scripted"
    assert set(parts.control.sources) == {"model:toy-0+scripted"}
    first, *others = parts.model.passes
    assert first[1] == 1 + 5, "one pass over all draft tokens"
    assert others == [(1, 1)] * (8 - right - 1), "and one for each token of its own after the first"


def test_no_more_of_a_free_draft_is_checked_than_was_wished() -> None:
    wanted = own(PROMPT, 8)
    parts = begun(ModelRequest(Ask.CHECK, 2), wanted, most=0)
    assert parts.hybrid.propose(PROMPT, 8).tokens == wanted[:3], "two that it was given, and the next of its own"


def test_a_draft_goes_on_as_long_as_the_appraiser_says_and_no_further_than_the_limit() -> None:
    assert begun(ModelRequest(Ask.DRAFT, 8), most=3).hybrid.propose(PROMPT, 8).tokens == own(PROMPT, 3)
    assert begun(ModelRequest(Ask.DRAFT, 8)).hybrid.propose(PROMPT, 2).tokens == own(PROMPT, 2)


def test_to_check_nothing_is_to_draft() -> None:
    draft = begun(ModelRequest(Ask.CHECK, 4), ()).hybrid.propose(PROMPT, 4)
    assert (draft.tokens, draft.source) == (own(PROMPT, 4), "model:toy-0")


def test_a_model_that_has_much_to_read_is_judged_by_it_and_then_asked_again() -> None:
    parts = begun([ModelRequest(Ask.DRAFT, 4), ModelRequest()], (1, 2), context=LONG)
    context = [*LONG, *VOCAB.tokenize("and then it")]
    assert parts.hybrid.propose(context, 4).tokens == (1, 2), "asked again, it was not wanted any more"
    assert parts.control.unread == [len(context), 1]
    ((source, hindsight),) = parts.control.learnt
    assert source == "model:toy-0"
    assert len(hindsight) == len("and then it") - 1


@pytest.mark.parametrize("said", [[], [3]])
def test_a_model_that_has_much_to_read_and_nothing_to_be_judged_by_is_asked_once_and_drafts_at_once(
    said: list[int],
) -> None:
    parts = begun([ModelRequest(Ask.DRAFT, 4), ModelRequest()], context=LONG)
    context = [*LONG, *said]
    assert parts.hybrid.propose(context, 4).tokens == own(context, 4)
    assert (parts.control.unread, parts.control.learnt) == ([len(context)], [])


def test_a_model_that_has_little_to_read_drafts_at_once() -> None:
    parts = begun(ModelRequest(Ask.DRAFT, 4), context=PROMPT[:16])
    parts.hybrid.propose(PROMPT[:16], 4)
    assert (parts.control.unread, parts.control.learnt) == ([16], [])


def test_a_model_that_is_not_asked_reads_nothing_however_much_there_is() -> None:
    parts = begun(ModelRequest(), (1, 2), context=LONG)
    parts.hybrid.propose([*LONG, 3], 4)
    assert parts.model.passes == parts.control.learnt == []


def test_a_window_is_all_that_is_read() -> None:
    parts = begun([ModelRequest(Ask.DRAFT, 4, window=40), ModelRequest(Ask.DRAFT, 4)], context=LONG)
    draft = parts.hybrid.propose(LONG, 4)
    assert sum(tokens for tokens, _ in parts.model.passes) == 40 + len(draft.tokens) - 1
    assert parts.model._cache[:40] == LONG[-40:]


def test_who_has_read_a_window_alone_is_said_to_have_from_then_on() -> None:
    parts = begun([ModelRequest(Ask.DRAFT, 4, window=40), ModelRequest(Ask.DRAFT, 4)], context=LONG)
    for _ in range(2):
        parts.hybrid.propose(LONG, 4)
    assert parts.control.skipped[0] == 0
    assert set(parts.control.skipped[1:]) == {len(LONG) - 40}


def test_a_window_that_is_wished_after_a_look_back_is_all_that_is_read_too() -> None:
    model = StoppingModel(context_size=len(LONG))
    hybrid = Hybrid(
        [], DraftModel(model, VOCAB), Scripted([ModelRequest(Ask.DRAFT, 4), ModelRequest(Ask.DRAFT, 4, window=40)])
    )
    hybrid.begin(LONG, SAMPLER)
    # All of it is more than its context holds, so there is nothing to judge it by.
    draft = hybrid.propose([*LONG, *VOCAB.tokenize("and then it")], 4)
    assert len(draft.tokens) == 4
    assert sum(tokens for tokens, _ in model.passes) == 40 + len(draft.tokens) - 1


@pytest.mark.parametrize("ask", [Ask.DRAFT, Ask.CHECK])
@pytest.mark.parametrize("missing", [0, 1, 40])
@pytest.mark.parametrize("said", [0, 30])
def test_a_model_whose_context_is_full_leaves_it_to_the_others(ask: Ask, missing: int, said: int) -> None:
    model = DraftModel(StoppingModel(context_size=len(LONG) - missing), VOCAB)
    hybrid = Hybrid([ScriptedDrafter([(1, 2)])], model, Scripted([ModelRequest(ask, 4)]))
    hybrid.begin(LONG[: len(LONG) - said], SAMPLER)
    assert hybrid.propose(LONG, 4).tokens == (1, 2)


def test_all_of_them_hear_what_was_emitted_and_are_begun_and_closed() -> None:
    parts = begun(ModelRequest(Ask.DRAFT, 3))
    draft = parts.hybrid.propose(PROMPT, 3)
    emitted = [*draft.tokens[:2], 4]
    parts.hybrid.accept(emitted, 2)
    assert parts.free.begun == [tuple(PROMPT)]
    assert parts.free.accepts == [(tuple(emitted), 2)]
    context = [*PROMPT, *emitted]
    assert parts.model._cache == context[:-1]
    parts.hybrid.close()
    assert (parts.free.closed, parts.model.length) == (1, 0)


def test_a_text_is_learnt_by_those_that_keep_an_index() -> None:
    suffix = SuffixDrafter(VOCAB.is_end)
    hybrid = Hybrid([ScriptedDrafter(), suffix], DraftModel(ToyModel(), VOCAB), Scripted([ModelRequest()]))
    hybrid.learn(VOCAB.tokenize("a stitch in time saves nine"))
    context = VOCAB.tokenize("a stitch in ti")
    hybrid.begin(context, SAMPLER)
    assert hybrid.propose(context, 8).tokens == tuple(VOCAB.tokenize("me saves"))


@pytest.mark.parametrize("stop_at", range(1, 6))
def test_after_a_round_that_was_stopped_the_next_draft_is_that_of_a_new_hybrid(stop_at: int) -> None:
    wanted = own(LONG, 5)
    proposals = (*wanted[:2], 0)
    parts = begun([ModelRequest(Ask.CHECK, 5)], proposals, context=LONG)
    parts.model.stop_at = stop_at
    with pytest.raises(Cancelled):
        parts.hybrid.propose(LONG, 5)
    parts.model.stop_at = 0
    parts.hybrid.begin(LONG, SAMPLER)
    assert parts.hybrid.propose(LONG, 5).tokens == wanted


@pytest.mark.parametrize("fail_at", range(1, 6))
def test_a_draft_model_that_fails_is_left_out_of_the_answer_and_tried_again_in_the_next(fail_at: int) -> None:
    wanted = own(LONG, 5)
    parts = begun([ModelRequest(Ask.CHECK, 5)], (*wanted[:2], 0), context=LONG)
    parts.model.stop_at, parts.model.error = fail_at, LocalspecError("The numbers are no numbers.")
    free = parts.hybrid.propose(LONG, 5)
    assert free.source == "scripted"
    assert parts.hybrid.failures == {"model:toy-0": "The numbers are no numbers."}
    said = [*LONG, *free.tokens, 4]
    parts.hybrid.accept(said[len(LONG) :], len(free.tokens))
    assert parts.hybrid.propose(said, 5) == NO_DRAFT
    assert len(parts.model.passes) == fail_at
    parts.hybrid.begin(said, SAMPLER)
    assert parts.hybrid.failures == {}
    assert parts.model._cache == said[: parts.model.length], "its own draft tokens were rejected"
    assert parts.hybrid.propose(said, 5).tokens == own(said, 5)


def test_for_fixed_lengths_free_drafts_come_first_and_the_model_fills_the_gaps() -> None:
    eager = Eager()
    assert eager.request(Draft((1,)), 0, 4) == ModelRequest()
    assert eager.request(NO_DRAFT, 0, 4) == ModelRequest(Ask.DRAFT, 4)
    assert eager.worth(Draft((1, 2, 3))) > eager.worth(Draft((1,))) > eager.worth(NO_DRAFT)
    assert eager.goes_on("model:x", ())


def test_what_the_drafter_does_is_reported_in_order() -> None:
    parts = begun([ModelRequest(Ask.DRAFT, 4)] * 3, context=LONG, most=2)
    context = [*LONG, *own(LONG, 2)]
    parts.hybrid.propose(context, 4)
    caught_up = ["requested draft", "learn", "requested draft"]
    assert parts.control.reports == [*caught_up, "read", "stepped", "read"]
