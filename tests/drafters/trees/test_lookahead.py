"""Lookahead: the window moves by what the target says after its tokens, and the pool's n-grams are drafted."""

import numpy as np
import pytest

from drafters.base import NO_DRAFT, Draft
from drafters.branching import likeliest
from drafters.lookahead import Lookahead
from models.sampling.sampler import Sampler, SamplingParams

SIZE, END = 40, 39
SAMPLER = Sampler(SamplingParams(temperature=0))
PROMPT = list(range(20, 32))
"""Twelve tokens: a window of six columns, 20 to 25 over 26 to 31."""


def begun() -> Lookahead:
    drafter = Lookahead(lambda token: token == END)
    drafter.begin(PROMPT, SAMPLER)
    return drafter


def says_next(token: int) -> int:
    """Return what the target of these tests says after a token."""
    return (token * 7 + 3) % (SIZE - 1)


def verified(drafter: Lookahead, pending: int, size: int) -> Draft:
    """Let a tree of the drafter be verified by that target, and return it."""
    draft = drafter.propose([*PROMPT, pending], size)
    tree = likeliest(draft, size, 8, draft.confidence)
    rows = np.zeros((tree.size + 1, SIZE), np.float32)
    for row, token in zip(rows, (pending, *tree.checked), strict=True):
        row[says_next(token)] = 1.0
    drafter.read_rows(pending, tree, rows)
    return tree


def test_the_window_is_drafted_where_the_pool_has_nothing() -> None:
    draft = begun().propose([*PROMPT, 5], 3)
    assert draft.tokens == (21, 27)
    assert draft.offers is not None
    assert draft.offers.wants_rows
    assert [(offer.place, offer.token) for offer in draft.offers.nodes] == [(0, 26), (1, 22), (~1, 28)]


def test_what_the_target_says_after_the_window_is_an_n_gram_and_the_next_window() -> None:
    drafter = begun()
    verified(drafter, 5, 3)
    assert drafter.propose([*PROMPT, 21], 8).tokens == (27, says_next(27))
    assert drafter.propose([*PROMPT, 5], 8).tokens == (26, says_next(26))
    window = drafter.propose([*PROMPT, 6], 3)
    assert window.tokens == (27, says_next(27)), "the second tokens of the columns are now the first"


def test_a_window_that_goes_on_finds_what_the_target_says_ahead_of_the_text() -> None:
    drafter = begun()
    for pending in range(10):
        verified(drafter, pending, 12)
    # A Jacobi iteration settles on the target's own text: every n-gram is now what it says after the first two tokens.
    grams = [(first, *gram) for first, kept in drafter._pool.items() for gram in kept]
    assert len(grams) > 10
    settled = [gram for gram in grams if gram[1:] == (says_next(gram[0]), says_next(gram[1]))]
    assert len(settled) > len(grams) / 2


def test_only_as_much_of_the_window_moves_as_was_verified() -> None:
    drafter = begun()
    verified(drafter, 5, 1)
    draft = drafter.propose([*PROMPT, 6], 3)
    assert draft.tokens == (21, 27), "its one verified token says nothing about a whole n-gram"
    drafter.read_rows(6, NO_DRAFT, np.zeros((1, SIZE), np.float32))
    assert drafter.propose([*PROMPT, 6], 3) == draft


def test_the_latest_n_grams_come_first_and_no_token_twice() -> None:
    drafter = begun()
    for gram in ((1, 2), (1, 3), (4, 2), (5, 6), (7, 8)):
        drafter._keep(11, gram)
    draft = drafter.propose([11], 20)
    assert draft.tokens == (7, 8)
    assert draft.offers is not None
    pooled = [offer for offer in draft.offers.nodes if offer.confidence > 0.1]
    assert [(offer.place, offer.token) for offer in pooled] == [(0, 5), (~0, 6), (0, 4), (~2, 2), (0, 1), (~4, 3)]
    places = [(offer.place, offer.token) for offer in draft.offers.nodes]
    assert len(set(places)) == len(places)


def test_the_pool_forgets_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drafters.lookahead._MOST", 3)
    drafter = begun()
    for first in (1, 2, 3, 1, 4):
        drafter._keep(first, (first, first))
    assert [*drafter._pool] == [3, 1, 4]


def test_nothing_follows_an_end_token() -> None:
    drafter = begun()
    drafter._keep(1, (END, 2))
    assert drafter.propose([1], 8).tokens == (END,)
    assert drafter.propose([END], 8) == NO_DRAFT
