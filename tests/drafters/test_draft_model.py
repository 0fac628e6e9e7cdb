"""The draft model: how little it decodes, what its cache holds, and which models it refuses."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from checking import FIXED
from drafting import PROMPT, SAMPLER, VOCAB, fresh_draft
from fakes import END, FakeClock, PaddedToy, RaisingDrafter, StoppingModel
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.conversation.session import Session
from app.engine.decoding.controller import FixedLength, RoundPlan
from app.engine.decoding.ending import Ending
from app.engine.decoding.round import Round
from drafters.base import NO_DRAFT
from drafters.draft_model import DraftModel
from models.base import RewindSupport
from models.errors import Cancelled, PairError
from models.toy import ToyModel, ToyVocab


class Limits(FixedLength):
    """A controller that goes through the given draft lengths, and keeps at the last."""

    def __init__(self, limits: Sequence[int]) -> None:
        super().__init__(limits[0])
        self._limits = list(limits)

    def plan(self) -> RoundPlan:
        return RoundPlan(self._limits[0])

    def observe(self, round_: Round) -> None:  # noqa: ARG002
        if len(self._limits) > 1:
            self._limits.pop(0)


@dataclass
class Worked:
    """A round, and what it cost the draft model."""

    round: Round
    context: list[int]
    tokens: int
    """Tokens that the draft model decoded."""
    passes: int
    """Passes it made."""


def rounds_of(model: StoppingModel, limits: Sequence[int], budget: int = 30) -> list[Worked]:
    """Answer PROMPT with a toy target and this draft model; check its cache after every round."""
    target = ToyModel()
    session = Session(target, DraftModel(model, target.vocab), FakeClock())
    worked: list[Worked] = []
    context, decoded, passes = list(PROMPT), 0, 0
    for event in session.answer(PROMPT, SAMPLER, Ending(VOCAB, budget=budget), Limits(limits)):
        if isinstance(event, Round):
            worked.append(Worked(event, context, model.decoded - decoded, len(model.passes) - passes))
            context, decoded, passes = list(session.tokens), model.decoded, len(model.passes)
            assert model._cache == session.tokens[: model.length], "the cache holds confirmed tokens alone"
    return worked


@pytest.mark.parametrize("unlikeness", [0.0, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("draft_length", [1, 2, 4, 8])
def test_a_draft_of_k_tokens_costs_k_evaluations_or_one_more_after_full_acceptance(
    unlikeness: float, draft_length: int
) -> None:
    first, *worked = rounds_of(StoppingModel(unlikeness=unlikeness), [draft_length])
    assert first.tokens == len(PROMPT) + len(first.round.draft.tokens) - 1
    before = first
    for after in worked:
        k = len(after.round.draft.tokens)
        caught_up = k > 0 and before.round.accepted == len(before.round.draft.tokens)
        assert after.tokens == k + caught_up
        assert after.passes == k
        before = after


@given(st.lists(st.integers(0, 6), min_size=1, max_size=30), st.sampled_from([0.0, 0.5, 2.0]))
@settings(FIXED, max_examples=50)
def test_only_tokens_that_are_new_to_the_cache_are_decoded(limits: list[int], unlikeness: float) -> None:
    known = 0
    for worked in rounds_of(StoppingModel(unlikeness=unlikeness), limits):
        k = len(worked.round.draft.tokens)
        if k == 0:
            assert worked.tokens == 0
            continue
        assert worked.tokens == len(worked.context) - known + k - 1
        # The last draft token is never decoded, so it is new even when it is accepted.
        known = len(worked.context) + min(worked.round.verdict.accepted, k - 1)


def test_a_long_prompt_is_read_in_passes_that_the_model_can_take() -> None:
    prompt = PROMPT * 8
    model = StoppingModel()
    drafter = DraftModel(model, VOCAB)
    drafter.begin(prompt, SAMPLER)
    assert model.passes == []
    drafter.propose(prompt, 1)
    full, rest = divmod(len(prompt), model.batch_size)
    assert model.passes == [(model.batch_size, 0)] * full + [(rest, 1)]


def test_a_prompt_that_fills_its_last_pass_still_gives_a_row() -> None:
    prompt = (PROMPT * 8)[:128]
    assert fresh_draft(prompt, 3) != ()


def test_the_next_prompt_costs_what_it_does_not_share_with_the_last() -> None:
    model = ToyModel()
    drafter = DraftModel(model, VOCAB)
    drafter.begin(PROMPT, SAMPLER)
    drafter.propose(PROMPT, 1)
    drafter.accept([3], 0)
    longer = [*PROMPT, 3, *VOCAB.tokenize(" and then")]
    before = model.decoded
    drafter.begin(longer, SAMPLER)
    assert drafter.propose(longer, 1).tokens == fresh_draft(longer, 1)
    assert model.decoded - before == len(longer) - len(PROMPT)
    before = model.decoded
    drafter.begin(longer, SAMPLER)
    assert drafter.propose(longer, 1).tokens == fresh_draft(longer, 1)
    assert model.decoded - before == 1


def test_a_draft_of_the_targets_own_model_is_the_targets_own_text() -> None:
    worked = rounds_of(StoppingModel(), [4], budget=29)
    assert [work.round.accepted for work in worked[:-1]] == [4] * 5
    assert all(work.round.verdict.is_bonus for work in worked[:-1])


class EndsAtOnce(ToyModel):
    """A toy that ends every text."""

    def __init__(self) -> None:
        super().__init__()
        self._pairs[:, END] += 100


def test_nothing_is_guessed_after_an_end_token() -> None:
    model = EndsAtOnce()
    drafter = DraftModel(model, VOCAB)
    drafter.begin(PROMPT, SAMPLER)
    assert drafter.propose(PROMPT, 8).tokens == (END,)
    assert model.decoded == len(PROMPT)


@pytest.mark.parametrize("stop_at", range(1, 9))
def test_after_a_draft_that_was_stopped_the_next_equals_that_of_a_new_drafter(stop_at: int) -> None:
    prompt = PROMPT * 4
    model = StoppingModel(stop_at=stop_at)
    drafter = DraftModel(model, VOCAB)
    drafter.begin(prompt, SAMPLER)
    with pytest.raises(Cancelled):
        drafter.propose(prompt, 7)
    assert drafter.propose(prompt, 7).tokens == fresh_draft(prompt, 7)


def test_after_a_round_that_was_stopped_in_the_target_the_next_draft_equals_that_of_a_new_drafter() -> None:
    drafter = DraftModel(ToyModel(), VOCAB)
    drafter.begin(PROMPT, SAMPLER)
    first = drafter.propose(PROMPT, 5)
    assert drafter.propose(PROMPT, 5) == first
    drafter.accept([*first.tokens[:2], 3], 2)
    context = [*PROMPT, *first.tokens[:2], 3]
    assert drafter.propose(context, 5).tokens == fresh_draft(context, 5)


def test_a_drafter_that_fails_in_accept_starts_the_next_answer_in_order() -> None:
    target, model = ToyModel(), ToyModel(unlikeness=0.3)
    drafter = RaisingDrafter(DraftModel(model, target.vocab), "accept", RuntimeError("lost"), at=3)
    session = Session(target, drafter, FakeClock())
    with pytest.raises(RuntimeError, match="lost"):
        list(session.answer(PROMPT, SAMPLER, Ending(VOCAB, budget=20), Limits([4])))
    context = list(session.tokens)
    drafter.begin(context, SAMPLER)
    assert drafter.propose(context, 4).tokens == fresh_draft(context, 4, unlikeness=0.3)


@pytest.mark.parametrize(("room", "most"), [(5, 5), (1, 1), (0, 0), (-3, 0)])
def test_drafts_end_where_the_draft_models_context_ends(room: int, most: int) -> None:
    drafter = DraftModel(ToyModel(context_size=len(PROMPT) + room), VOCAB)
    drafter.begin(PROMPT, SAMPLER)
    assert len(drafter.propose(PROMPT, 8).tokens) == most


def test_a_draft_model_with_a_smaller_context_falls_silent_and_the_answer_goes_on() -> None:
    worked = rounds_of(StoppingModel(context_size=len(PROMPT) + 10), [4], budget=25)
    drafted = [len(work.round.draft.tokens) for work in worked]
    assert drafted[:2] == [4, 4]
    assert drafted[-1] == 0
    assert sum(len(work.round.emitted) for work in worked) == 25


class OtherVocab(ToyVocab):
    """The toy's vocabulary with another kind, another first token and another spelling of token 3."""

    kind = "other"
    bos = 7

    def text(self, token: int) -> str:
        return "?" if token == 3 else super().text(token)


class LargerVocab(ToyVocab):
    """The toy's vocabulary and one real token more."""

    def __init__(self) -> None:
        super().__init__(padding=2)

    def is_padding(self, token: int) -> bool:
        return token > END + 1


def refusal(model: ToyModel) -> PairError:
    with pytest.raises(PairError) as caught:
        DraftModel(model, VOCAB)
    assert caught.value.title == f"{model.name} can't draft for this target."
    assert "--draft lookup" in caught.value.hint
    return caught.value


def test_a_draft_model_of_another_vocabulary_is_refused_with_every_reason() -> None:
    model = ToyModel(rewind_limit=4)
    model.vocab = OtherVocab()
    model.rewind_support = RewindSupport(4, "recurrent state")
    assert refusal(model).cause.splitlines() == [
        "- the target's tokenizer is toy, the draft's other",
        "- the first token added to a prompt differs: None and 7",
        "- token 3 is 'o' for the target, '?' for the draft",
        "- its memory can't take back rejected tokens (recurrent state)",
    ]


def test_a_draft_model_with_a_token_that_the_target_lacks_is_refused() -> None:
    model = ToyModel(padding=2)
    model.vocab = LargerVocab()
    assert refusal(model).cause == "- token 32 ('[PAD32]') exists only in the draft"


@pytest.mark.parametrize("rewind_limit", [0, 16])
def test_a_draft_model_that_can_go_back_only_so_far_is_refused(rewind_limit: int) -> None:
    assert (
        refusal(ToyModel(rewind_limit=rewind_limit)).cause
        == "- its memory can't take back rejected tokens (a list of tokens)"
    )


def test_padding_rows_are_no_reason_to_refuse_and_are_never_guessed() -> None:
    drafter = DraftModel(PaddedToy(0, 3, fill=100.0), VOCAB)
    drafter.begin(PROMPT, SAMPLER)
    assert drafter.propose(PROMPT, 8).tokens == fresh_draft(PROMPT, 8)


def test_after_a_padding_row_of_a_larger_target_there_is_nothing_to_say() -> None:
    drafter = DraftModel(ToyModel(), ToyVocab(padding=5))
    drafter.begin(PROMPT, SAMPLER)
    first = drafter.propose(PROMPT, 4).tokens
    emitted = [*first[:2], VOCAB.size]
    drafter.accept(emitted, 2)
    context = [*PROMPT, *emitted]
    assert drafter.propose(context, 4) == NO_DRAFT
    drafter.accept([5], 0)
    assert drafter.propose([*context, 5], 4) == NO_DRAFT
    drafter.begin(PROMPT, SAMPLER)
    assert drafter.propose(PROMPT, 4).tokens == first


def test_closing_frees_the_model_and_may_be_done_twice() -> None:
    model = ToyModel()
    drafter = DraftModel(model, VOCAB)
    drafter.begin(PROMPT, SAMPLER)
    drafter.propose(PROMPT, 2)
    drafter.close()
    drafter.close()
    assert model.length == 0
