"""Token Recycling: the matrix holds the target's likeliest successors, and a draft is the likeliest tree of them."""

from itertools import product
from math import prod
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from drafters.base import NO_DRAFT, Draft, Offers
from drafters.recycle import Recycle, likely

END = 9


def recycle(rows: dict[int, dict[int, float]], size: int = 10) -> Recycle:
    """Return a drafter that has read rows with these probabilities of the next token, by the token before."""
    drafter = Recycle(lambda token: token == END)
    tokens, logits = [*rows], np.full((len(rows), size), -50.0, np.float32)
    for row, token in zip(logits, tokens, strict=True):
        for after, chance in rows[token].items():
            row[after] = np.log(chance)
    drafter.read_rows(tokens[0], Draft(tuple(tokens[1:])), logits)
    return drafter


@given(hnp.arrays(np.float32, st.integers(2, 3000), elements=st.floats(-30, 30, width=32)))
def test_the_likeliest_tokens_are_those_with_the_largest_logits_as_far_as_they_count(row: np.ndarray) -> None:
    ids = likely(row)
    wanted = sorted((logit for logit in row.tolist() if logit > row.max() - np.log(510)), reverse=True)[:8]
    assert len(set(ids.tolist())) == len(ids)
    assert row[ids].tolist() == pytest.approx(wanted)


def test_the_likeliest_tokens_of_a_row_with_impossible_ones() -> None:
    row = np.full(2000, -np.inf, np.float32)
    row[[7, 1500, 1999]] = 1.0, 3.0, 2.0
    assert likely(row).tolist() == [1500, 1999, 7]


@pytest.mark.parametrize("value", [-np.inf, np.nan])
def test_a_row_without_a_largest_logit_teaches_nothing(value: float) -> None:
    drafter = recycle({1: {2: 0.9}})
    drafter.read_rows(1, NO_DRAFT, np.full((1, 10), value, np.float32))
    assert drafter.propose([1], 1).tokens == (2,)


def test_a_row_with_fewer_successors_forgets_the_earlier_ones() -> None:
    drafter = recycle({1: {2: 0.5, 3: 0.3, 4: 0.2}})
    rows = np.zeros((1, 10), np.float32)
    rows[0, 5] = 20.0
    drafter.read_rows(1, NO_DRAFT, rows)
    draft = drafter.propose([1], 8)
    assert (draft.tokens, draft.offers) == ((5,), Offers())


def test_the_chain_is_the_likeliest_successor_again_and_again() -> None:
    drafter = recycle({1: {2: 0.6, 3: 0.4}, 2: {3: 0.9, 1: 0.1}, 3: {4: 1.0}})
    draft = drafter.propose([5, 1], 8)
    assert draft.tokens == (2, 3, 4)
    assert draft.confidence == pytest.approx((0.6, 0.9, 1.0), abs=0.01)
    assert drafter.propose([1, 5], 8) == NO_DRAFT, "nothing is known of what follows 5"


def test_the_rows_of_rejected_tokens_are_kept_too_and_the_last_row_of_a_token_counts() -> None:
    drafter = recycle({1: {2: 1.0}})
    rows = np.zeros((3, 10), np.float32)
    rows[[0, 1, 2], [7, 8, 6]] = 20.0
    drafter.read_rows(1, Draft((3,), siblings=((0, 4),)), rows)
    assert [drafter.propose([token], 1).tokens for token in (1, 3, 4)] == [(7,), (8,), (6,)]


def test_nothing_follows_an_end_token() -> None:
    drafter = recycle({1: {END: 0.7, 2: 0.3}, END: {3: 1.0}, 2: {END: 0.6, 3: 0.4}})
    draft = drafter.propose([1], 6)
    assert draft.tokens == (END,)
    assert draft.offers is not None
    assert [(offer.place, offer.token) for offer in draft.offers.nodes] == [(0, 2), (~0, END), (~0, 3)]
    assert drafter.propose([END], 6) == NO_DRAFT


def paths(rows: dict[int, dict[int, float]], start: int, depth: int) -> dict[tuple[int, ...], float]:
    """Return the probability of every path from a token."""
    found, ends = dict[tuple[int, ...], float](), {(): 1.0}
    for _ in range(depth):
        ends = {
            (*path, after): chance * share
            for path, chance in ends.items()
            for after, share in rows[path[-1] if path else start].items()
        }
        found |= ends
    return found


@pytest.mark.parametrize(("seed", "limit"), [*product(range(5), (1, 3, 8))])
def test_chain_and_offers_are_the_likeliest_tokens(seed: int, limit: int) -> None:
    chance = Random(seed)
    rows = {}
    for token in range(8):
        weights = [chance.random() + 0.05 for _ in range(3)]
        rows[token] = {after: w / sum(weights) for after, w in zip(chance.sample(range(8), 3), weights, strict=True)}
    draft = recycle(rows).propose([0], limit)
    assert draft.offers is not None
    chain = {draft.tokens[: place + 1] for place in range(len(draft.tokens))}
    ends: list[tuple[int, ...]] = []
    for offer in draft.offers.nodes:
        before = draft.tokens[: offer.place] if offer.place >= 0 else ends[~offer.place]
        ends.append((*before, offer.token))
    known = paths(rows, 0, 8)
    rest = sorted((share for path, share in known.items() if path not in chain), reverse=True)
    assert len(set(ends)) == len(ends) == limit
    assert [known[path] for path in ends] == pytest.approx(rest[:limit], abs=0.02)
    shares = [prod(draft.confidence[: place + 1]) for place in range(len(draft.tokens))]
    assert shares == pytest.approx([known[draft.tokens[: place + 1]] for place in range(len(shares))], abs=0.02)


def test_a_vocabulary_of_fifty_thousand_takes_less_than_two_megabytes() -> None:
    drafter = recycle({1: {2: 1.0}}, size=50_000)
    assert drafter._matrix is not None
    assert drafter._matrix.nbytes < 2_000_000
    assert drafter.propose([1], 1).tokens == (2,)
    drafter.close()
    assert drafter.propose([1], 1) == NO_DRAFT
