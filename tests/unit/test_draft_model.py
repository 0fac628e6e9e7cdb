"""The draft model: how little it decodes, what its cache holds, and which models it refuses."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from checking import FIXED
from fakes import END, FakeClock, PaddedToy, RaisingDrafter, StoppingModel
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.control import FixedLength
from app.engine.ending import Ending
from app.engine.session import Session
from app.engine.speculate import Round
from drafters.base import NO_DRAFT
from drafters.draft_model import DraftModel, GoesOn
from models.base import Logits, RewindSupport
from models.errors import Cancelled, PairError
from models.sampling import Sampler, SamplingParams, share
from models.toy import ToyModel, ToyVocab

VOCAB = ToyVocab()
PROMPT = VOCAB.tokenize("the cat sat on the mat")
SAMPLER = Sampler(SamplingParams(seed=5))


class Limits(FixedLength):
    """A controller that goes through the given draft lengths, and keeps at the last."""

    def __init__(self, limits: Sequence[int]) -> None:
        super().__init__(limits[0])
        self._limits = list(limits)

    def limit(self) -> int:
        return self._limits[0]

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
        # The last guess is never decoded, so it is new even when it came true.
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


def fresh_draft(context: Sequence[int], limit: int, unlikeness: float = 0.0) -> tuple[int, ...]:
    drafter = DraftModel(ToyModel(unlikeness=unlikeness), VOCAB)
    drafter.begin(context, SAMPLER)
    return drafter.propose(context, limit).tokens


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
        "- its memory can't take back guesses (recurrent state)",
    ]


def test_a_draft_model_with_a_token_that_the_target_lacks_is_refused() -> None:
    model = ToyModel(padding=2)
    model.vocab = LargerVocab()
    assert refusal(model).cause == "- token 32 ('[PAD32]') exists in the draft alone"


@pytest.mark.parametrize("rewind_limit", [0, 16])
def test_a_draft_model_that_can_go_back_only_so_far_is_refused(rewind_limit: int) -> None:
    assert (
        refusal(ToyModel(rewind_limit=rewind_limit)).cause == "- its memory can't take back guesses (a list of tokens)"
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


def bounded(goes: int) -> GoesOn:
    """Want guesses until there are so many."""
    return lambda sureness: len(sureness) < goes


def new_drafter(unlikeness: float = 0.3, vocab: ToyVocab = VOCAB) -> DraftModel:
    model = ToyModel(unlikeness=unlikeness)
    model.vocab = vocab
    return DraftModel(model, vocab)


guesses_of_chance = st.lists(st.integers(0, END), max_size=6)


@given(st.integers(0, 6), guesses_of_chance, st.integers(0, 9), st.sampled_from([0.0, 0.3, 2.0]))
@settings(FIXED, max_examples=150)
def test_with_guesses_given_the_draft_is_the_very_one_without_them(
    right: int, others: list[int], limit: int, unlikeness: float
) -> None:
    wanted = DraftModel(ToyModel(unlikeness=unlikeness), VOCAB)
    wanted.begin(PROMPT, SAMPLER)
    draft = wanted.propose(PROMPT, limit)
    given_guesses = [*fresh_draft(PROMPT, right, unlikeness), *others]
    drafter = DraftModel(ToyModel(unlikeness=unlikeness), VOCAB)
    drafter.begin(PROMPT, SAMPLER)
    assert drafter.extend(PROMPT, given_guesses, limit, bounded(99)) == draft


@pytest.mark.parametrize("right", range(5))
def test_given_guesses_are_read_in_one_pass_and_cut_at_the_first_disagreement(right: int) -> None:
    wanted = fresh_draft(PROMPT, 8)
    wrong = (wanted[right] + 1) % 28
    model = StoppingModel()
    drafter = DraftModel(model, VOCAB)
    drafter.begin(PROMPT, SAMPLER)
    draft = drafter.extend(PROMPT, [*wanted[:right], wrong, *wanted[right + 1 : 6]], 8, bounded(0))
    assert draft.tokens == wanted[: right + 1], "what it agrees with, and its own word in place of the first other"
    assert len(draft.confidence) == right + 1
    assert model.passes == [(len(PROMPT) + 6, 7)]
    assert model._cache == [*PROMPT, *wanted[:right]]


def test_guesses_that_are_all_right_are_gone_on_with_as_long_as_it_is_wished() -> None:
    wanted = fresh_draft(PROMPT, 8)
    heard: list[tuple[float, ...]] = []

    def goes_on(sureness: tuple[float, ...]) -> bool:
        heard.append(sureness)
        return len(sureness) < 6

    drafter = DraftModel(ToyModel(), VOCAB)
    drafter.begin(PROMPT, SAMPLER)
    draft = drafter.extend(PROMPT, wanted[:3], 8, goes_on)
    assert draft.tokens == wanted[:6]
    assert heard == [draft.confidence[:length] for length in (4, 5, 6)]


def test_no_more_guesses_are_read_than_a_pass_gives_rows_for() -> None:
    model = StoppingModel()
    model.max_rows = 4
    drafter = DraftModel(model, VOCAB)
    drafter.begin(PROMPT, SAMPLER)
    wanted = fresh_draft(PROMPT, 8)
    assert drafter.extend(PROMPT, wanted, 8, bounded(99)).tokens == wanted
    assert model.passes[0] == (len(PROMPT) + 3, 4)


def test_a_given_guess_that_is_a_padding_row_of_the_target_is_not_read() -> None:
    drafter = DraftModel(ToyModel(), ToyVocab(padding=5))
    drafter.begin(PROMPT, SAMPLER)
    assert drafter.extend(PROMPT, [VOCAB.size + 1], 4, bounded(99)) == NO_DRAFT
    assert drafter.extend(PROMPT, [], 4, bounded(99)).tokens == fresh_draft(PROMPT, 4)


def test_how_sure_a_guess_is_is_about_its_probability() -> None:
    drafter = new_drafter()
    drafter.begin(PROMPT, Sampler(SamplingParams(temperature=0)))
    draft = drafter.propose(PROMPT, 6)
    for place, (guess, sure) in enumerate(zip(draft.tokens, draft.confidence, strict=True)):
        row = ToyModel(unlikeness=0.3).decode([*PROMPT, *draft.tokens[:place]], 1)[0]
        probs = Sampler(SamplingParams(temperature=1, top_k=0, top_p=1, min_p=0)).distribution(row, [])
        assert sure == pytest.approx(probs[guess], rel=1e-4)


BOS = 5


class BosVocab(ToyVocab):
    """The toy's vocabulary, with a token that every text begins with."""

    bos = BOS


def row_after(tokens: Sequence[int]) -> Logits:
    model = ToyModel(unlikeness=0.3)
    for start in range(0, len(tokens) - 1, model.batch_size):
        model.decode(tokens[start : min(start + model.batch_size, len(tokens) - 1)], 0)
    return model.decode(tokens[-1:], 1)[0]


def said_by_hand(context: Sequence[int], judged: int, head: int = 0, skipped: int = 0) -> list[tuple[float, bool]]:
    """Ask a new model what it would have said, one place after the other."""
    told = []
    for place in range(len(context) - judged, len(context)):
        row = row_after([*context[:head], *context[head + skipped : place]])
        pick = SAMPLER.pick(row, context[:place])
        told.append((share(row, pick), pick == context[place]))
    return told


SAID = VOCAB.tokenize(" and the cat sat there")


def test_hindsight_is_what_the_model_would_really_have_said() -> None:
    drafter = new_drafter()
    drafter.begin(PROMPT, SAMPLER)
    # Some of it is what the model says itself, so that it is right here and there.
    context = [*PROMPT, *fresh_draft(PROMPT, 6, unlikeness=0.3), *SAID[:6]]
    hindsight = drafter.catch_up(context, len(context) - len(PROMPT))
    assert list(hindsight) == said_by_hand(context, len(hindsight))
    assert len(hindsight) == min(len(context) - len(PROMPT) - 1, drafter.model.max_rows)
    assert {right for _, right in hindsight} == {True, False}


@given(
    st.lists(st.integers(0, END), min_size=1, max_size=90),
    st.integers(0, 90),
    st.integers(0, 40),
    st.one_of(st.none(), st.integers(1, 50)),
    st.sampled_from([VOCAB, BosVocab()]),
)
@settings(FIXED, max_examples=150)
def test_reading_up_is_followed_by_the_same_draft_as_reading_at_once(
    context: list[int], said: int, read_before: int, window: int | None, vocab: ToyVocab
) -> None:
    drafter, other = new_drafter(vocab=vocab), new_drafter(vocab=vocab)
    early = context[: max(1, len(context) - read_before)]
    drafter.begin(early, SAMPLER)
    drafter.extend(early, (), 3, bounded(99))
    drafter.accept([], 0)
    other.begin(context, SAMPLER)
    if window is not None:
        drafter.focus(context, window)
        other.focus(context, window)
    head = 0 if vocab.bos is None else 1
    hindsight = drafter.catch_up(context, said)
    assert list(hindsight) == said_by_hand(context, len(hindsight), head, drafter.skipped)
    if hindsight:
        assert drafter.unread(context) == 1
    assert drafter.extend(context, (), 5, bounded(99)) == other.extend(context, (), 5, bounded(99))
    assert drafter.model._cache == other.model._cache


@pytest.mark.parametrize(("said", "judged"), [(0, 0), (1, 0), (2, 1), (10, 9), (40, 17)])
def test_only_what_was_said_in_the_answer_is_judged_as_far_as_one_pass_has_rows(said: int, judged: int) -> None:
    drafter = new_drafter()
    context = PROMPT * 3
    drafter.begin(context[: len(context) - said], SAMPLER)
    assert len(drafter.catch_up(context, said)) == judged


def test_what_was_read_before_is_not_judged() -> None:
    drafter = new_drafter()
    drafter.begin(PROMPT, SAMPLER)
    drafter.propose(PROMPT, 1)
    drafter.accept([3], 0)
    context = [*PROMPT, 3, 4, 5]
    assert drafter.unread(context) == 3
    assert list(drafter.catch_up(context, 20)) == said_by_hand(context, 2)
    assert drafter.catch_up(context, 20) == ()


@pytest.mark.parametrize("stop_at", range(1, 4))
def test_reading_up_that_was_stopped_loses_nothing(stop_at: int) -> None:
    context = PROMPT * 7
    model = StoppingModel(stop_at=stop_at)
    drafter = DraftModel(model, VOCAB)
    drafter.begin(context, SAMPLER)
    with pytest.raises(Cancelled):
        drafter.catch_up(context, 10)
    assert model._cache == context[: model.length] == drafter._cached
    assert drafter.propose(context, 4).tokens == fresh_draft(context, 4)


def test_what_is_unread_is_what_a_draft_would_have_to_read() -> None:
    model = StoppingModel()
    drafter = DraftModel(model, VOCAB)
    drafter.begin(PROMPT, SAMPLER)
    assert drafter.unread(PROMPT) == len(PROMPT)
    draft = drafter.propose(PROMPT, 3).tokens
    drafter.accept([*draft[:2], 9], 2)
    context = [*PROMPT, *draft[:2], 9]
    assert drafter.unread(context) == 1
    assert drafter.unread([*context, 1, 2]) == 3
    before = model.decoded
    drafter.propose([*context, 1, 2], 1)
    assert model.decoded - before == 3


@pytest.mark.parametrize(("vocab", "first"), [(VOCAB, []), (BosVocab(), [BOS])])
def test_a_model_that_skips_reads_the_end_alone_and_the_token_that_every_text_begins_with(
    vocab: ToyVocab, first: list[int]
) -> None:
    drafter = new_drafter(vocab=vocab)
    context = [BOS, *PROMPT, *PROMPT]
    drafter.begin(context, SAMPLER)
    drafter.focus(context, 10)
    assert drafter.unread(context) == 10 + len(first)
    draft = drafter.propose(context, 4).tokens
    assert drafter.model._cache == [*first, *context[-10:], *draft[:3]]
    # From here on nothing more is skipped.
    drafter.accept([*draft[:2], 9], 2)
    assert drafter.unread([*context, *draft[:2], 9]) == 1
    drafter.propose([*context, *draft[:2], 9], 1)
    assert drafter.model._cache == [*first, *context[-10:], *draft[:2], 9]


def test_a_window_wider_than_the_text_skips_nothing() -> None:
    drafter = new_drafter()
    drafter.begin(PROMPT, SAMPLER)
    drafter.focus(PROMPT, 1000)
    assert (drafter.skipped, drafter.unread(PROMPT)) == (0, len(PROMPT))
    assert drafter.propose(PROMPT, 4).tokens == fresh_draft(PROMPT, 4, unlikeness=0.3)


def test_a_new_text_that_is_shorter_than_what_was_skipped_is_read_whole() -> None:
    drafter = new_drafter()
    drafter.begin(PROMPT * 6, SAMPLER)
    drafter.focus(PROMPT * 6, 32)
    drafter.propose(PROMPT * 6, 4)
    drafter.accept([], 0)
    other = VOCAB.tokenize("something else")
    drafter.begin(other, SAMPLER)
    assert drafter.unread(other) == len(other)
    assert drafter.propose(other, 4).tokens == fresh_draft(other, 4, unlikeness=0.3)


def test_a_conversation_that_goes_on_goes_on_skipping() -> None:
    drafter = new_drafter()
    context = PROMPT * 6
    drafter.begin(context, SAMPLER)
    drafter.focus(context, 32)
    drafter.propose(context, 1)
    drafter.accept([3], 0)
    longer = [*context, 3, *SAID]
    drafter.begin(longer, SAMPLER)
    assert drafter.unread(longer) == 1 + len(SAID)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["extend", "catch up", "focus", "nothing"]),
            st.integers(0, 4),
            guesses_of_chance,
            st.integers(1, 8),
            st.floats(0, 1),
        ),
        min_size=1,
        max_size=10,
    ),
    st.sampled_from([VOCAB, BosVocab()]),
)
@settings(FIXED, max_examples=150)
def test_between_rounds_the_cache_holds_the_beginning_of_the_view_whatever_was_asked(
    rounds: list[tuple[str, int, list[int], int, float]], vocab: ToyVocab
) -> None:
    drafter = new_drafter(vocab=vocab)
    context = list(PROMPT)
    drafter.begin(context, SAMPLER)
    for kind, right, others, limit, kept in rounds:
        draft = NO_DRAFT
        if kind == "focus":
            drafter.focus(context, limit)
        elif kind == "catch up":
            drafter.catch_up(context, len(context) - len(PROMPT))
        elif kind == "extend":
            new = new_drafter(vocab=vocab)
            new.begin(context, SAMPLER)
            new.skipped = drafter.skipped
            wanted = new.propose(context, limit)
            draft = drafter.extend(context, [*wanted.tokens[:right], *others], limit, bounded(99))
            assert draft == wanted
        # An end token would end the answer.
        guesses = [token for token in draft.tokens if token != END]
        accepted = round(kept * len(guesses))
        emitted = [*guesses[:accepted], 9]
        drafter.accept(emitted, accepted)
        context += emitted
        assert drafter.model._cache == drafter._view(context)[: drafter.model.length]
        assert drafter.model.length == len(drafter._cached) < len(drafter._view(context))


def test_closing_frees_the_model_and_may_be_done_twice() -> None:
    model = ToyModel()
    drafter = DraftModel(model, VOCAB)
    drafter.begin(PROMPT, SAMPLER)
    drafter.propose(PROMPT, 2)
    drafter.close()
    drafter.close()
    assert model.length == 0
