"""A draft model that reads up, skips and looks back: its cache, and what it would have said."""

from collections.abc import Sequence

import pytest
from checking import FIXED
from drafting import PROMPT, SAMPLER, VOCAB, bounded, fresh_draft, new_drafter, proposals_of_chance
from fakes import END, StoppingModel
from hypothesis import given, settings
from hypothesis import strategies as st

from drafters.base import NO_DRAFT
from drafters.draft_model import DraftModel
from models.base import Logits
from models.errors import Cancelled
from models.sampling.confidence import share
from models.toy import ToyModel, ToyVocab

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


@pytest.mark.parametrize(("window", "judged"), [(32, 16), (24, 8), (16, 0)])
def test_what_was_guessed_from_next_to_nothing_after_a_gap_is_not_judged(window: int, judged: int) -> None:
    drafter = new_drafter()
    context = PROMPT * 6
    drafter.begin(context[: len(context) - 40], SAMPLER)
    drafter.focus(context, window)
    assert len(drafter.catch_up(context, 40)) == judged


def test_a_text_with_a_padding_row_of_the_target_is_not_read_to_look_back() -> None:
    drafter = DraftModel(ToyModel(), ToyVocab(padding=5))
    drafter.begin(PROMPT, SAMPLER)
    said = [ToyModel().vocab.size, *SAID]
    assert drafter.catch_up([*PROMPT, *said], len(said)) == ()
    assert drafter.model.length == 0


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


def test_the_beginning_of_a_text_whose_end_alone_was_read_is_read_whole() -> None:
    """Asked again, a prompt ends soon after what was skipped: a few tokens are left of it, and say nothing."""
    drafter, prompt = new_drafter(), PROMPT * 6
    context = [*prompt, *range(30)]
    drafter.begin(prompt, SAMPLER)
    drafter.focus(context, 32)
    drafter.extend(context, (), 1, lambda _: True)
    drafter.begin(prompt, SAMPLER)
    assert (drafter.skipped, drafter.unread(prompt)) == (0, len(prompt))


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
            proposals_of_chance,
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
        proposals = [token for token in draft.tokens if token != END]
        accepted = round(kept * len(proposals))
        emitted = [*proposals[:accepted], 9]
        drafter.accept(emitted, accepted)
        context += emitted
        assert drafter.model._cache == drafter._view(context)[: drafter.model.length]
        assert drafter.model.length == len(drafter._cached) < len(drafter._view(context))
