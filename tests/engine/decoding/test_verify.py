"""The accept rule on rows made by hand."""

from collections.abc import Sequence

import numpy as np
import pytest
from checking import FIXED
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from app.engine.decoding.verify import Verdict, verify
from drafters.base import Draft
from models.base import Logits
from models.errors import LocalspecError
from models.sampling.sampler import Sampler, SamplingParams

SIZE = 8
GREEDY = Sampler(SamplingParams(temperature=0))
HISTORY = [1, 2, 3]


def rows_that_say(*tokens: int) -> Logits:
    """Return a row for each token, in which it is the likeliest and the next id the second."""
    rows = np.zeros((len(tokens), SIZE), np.float32)
    for row, token in zip(rows, tokens, strict=True):
        row[token] = 2
        row[(token + 1) % SIZE] = 1
    return rows


def test_an_empty_draft_gives_the_plain_token() -> None:
    assert verify(rows_that_say(5), Draft(), GREEDY, HISTORY) == Verdict(0, 5, is_bonus=False)


def test_a_draft_accepted_whole_gives_a_bonus_token() -> None:
    assert verify(rows_that_say(4, 5, 6), Draft((4, 5)), GREEDY, HISTORY) == Verdict(2, 6, is_bonus=True)


def test_a_first_token_rejected_gives_its_replacement() -> None:
    assert verify(rows_that_say(4, 5, 6), Draft((7, 5)), GREEDY, HISTORY) == Verdict(0, 4, is_bonus=False)


def test_a_later_token_rejected_keeps_those_before_it() -> None:
    assert verify(rows_that_say(4, 5, 6, 7), Draft((4, 0, 6)), GREEDY, HISTORY) == Verdict(1, 5, is_bonus=False)


def test_a_last_token_rejected_gives_a_replacement_and_no_bonus() -> None:
    assert verify(rows_that_say(4, 5, 6), Draft((4, 6)), GREEDY, HISTORY) == Verdict(1, 5, is_bonus=False)


def test_a_draft_of_one_token_can_be_accepted_and_rejected() -> None:
    assert verify(rows_that_say(4, 5), Draft((4,)), GREEDY, HISTORY) == Verdict(1, 5, is_bonus=True)
    assert verify(rows_that_say(4, 5), Draft((0,)), GREEDY, HISTORY) == Verdict(0, 4, is_bonus=False)


def test_the_first_and_the_last_id_of_the_vocabulary_can_be_drafted() -> None:
    assert verify(rows_that_say(0, SIZE - 1, 0), Draft((0, SIZE - 1)), GREEDY, []) == Verdict(2, 0, is_bonus=True)


def test_confidence_and_source_of_a_draft_do_not_matter() -> None:
    sure = Draft((7, 5), confidence=(1.0, 1.0), source="sure")
    assert verify(rows_that_say(4, 5, 6), sure, GREEDY, HISTORY) == Verdict(0, 4, is_bonus=False)


def test_rows_after_a_rejection_are_not_looked_at() -> None:
    rows = rows_that_say(4, 5, 6)
    rows[1:] = np.nan
    assert verify(rows, Draft((7, 5)), GREEDY, HISTORY) == Verdict(0, 4, is_bonus=False)
    with pytest.raises(LocalspecError, match="NaN"):
        verify(rows, Draft((4, 5)), GREEDY, HISTORY)


def test_the_history_is_left_alone() -> None:
    history = list(HISTORY)
    verify(rows_that_say(4, 5, 6), Draft((4, 5)), GREEDY, history)
    assert history == HISTORY


def test_penalties_see_the_accepted_part_of_the_draft() -> None:
    # 4 is said twice by the rows, but the second time it was just drafted: the second likeliest is emitted.
    sampler = Sampler(SamplingParams(temperature=0, presence_penalty=1.5, penalty_window=-1))
    assert verify(rows_that_say(4, 4), Draft((4,)), sampler, [0]) == Verdict(1, 5, is_bonus=True)
    assert verify(rows_that_say(4, 4), Draft((4,)), sampler, [5]) == Verdict(1, 4, is_bonus=True)


def test_penalties_do_not_see_what_was_rejected() -> None:
    sampler = Sampler(SamplingParams(temperature=0, presence_penalty=1.5, penalty_window=-1))
    # Were the rejected 4 or the 5 after it counted, neither could be emitted in the place of 6.
    assert verify(rows_that_say(4, 0, 0), Draft((5, 4)), sampler, []) == Verdict(0, 4, is_bonus=False)
    assert verify(rows_that_say(6, 4, 0), Draft((6, 5)), sampler, []) == Verdict(1, 4, is_bonus=False)


class SpySampler(Sampler):
    """Says what its row says, and keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__(SamplingParams())
        self.asked: list[tuple[list[int], list[int]]] = []

    def pick(self, row: NDArray[np.float32], tokens: Sequence[int], drafted: Sequence[int] = ()) -> int:
        self.asked.append((list(tokens), list(drafted)))
        return int(row.argmax())


def test_row_i_is_sampled_after_the_history_and_the_first_i_draft_tokens() -> None:
    sampler = SpySampler()
    verify(rows_that_say(4, 5, 6), Draft((4, 5)), sampler, HISTORY)
    assert sampler.asked == [(HISTORY, []), (HISTORY, [4]), (HISTORY, [4, 5])]


def test_each_row_is_sampled_once_at_most() -> None:
    sampler = SpySampler()
    verify(rows_that_say(4, 5, 6), Draft((4, 0)), sampler, HISTORY)
    assert sampler.asked == [(HISTORY, []), (HISTORY, [4])]


tokens = st.integers(0, SIZE - 1)
samplings = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.8]),
    top_k=st.sampled_from([0, 3]),
    repeat_penalty=st.sampled_from([1.0, 1.5]),
    presence_penalty=st.sampled_from([0.0, 0.5]),
    penalty_window=st.sampled_from([-1, 2, 64]),
    seed=st.integers(0, 99),
)


@given(st.lists(tokens, max_size=6), st.lists(tokens, max_size=5), st.integers(0, 10**6), samplings)
@FIXED
def test_what_is_emitted_is_what_one_token_at_a_time_would_have_been(
    history: list[int], draft: list[int], seed: int, sampling: SamplingParams
) -> None:
    rows = np.random.default_rng(seed).normal(size=(len(draft) + 1, SIZE)).astype(np.float32)
    sampler = Sampler(sampling)
    verdict = verify(rows, Draft(tuple(draft)), sampler, history)
    text = list(history)
    for row in rows[: verdict.accepted + 1]:
        text.append(sampler.pick(row, text))
    assert text == [*history, *draft[: verdict.accepted], verdict.next_token]
    assert verdict.accepted == len(draft) or verdict.next_token != draft[verdict.accepted]
    assert verdict.is_bonus == (0 < verdict.accepted == len(draft))
