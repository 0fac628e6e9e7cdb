"""A draft model with screened rows: where a form allows only tokens that are screened out, it drafts nothing."""

from collections.abc import Sequence
from typing import cast

import numpy as np
import pytest
from drafting import PROMPT, VOCAB, bounded
from numpy.typing import NDArray

from drafters.base import NO_DRAFT
from drafters.draft_model import DraftModel
from models.base import Logits
from models.forms.grammar_state import GrammarState
from models.sampling.accept import Accept
from models.sampling.sampler import Sampler, SamplingParams
from models.toy import ToyModel

SCREENED, UNLIKELY = 4, VOCAB.tokenize(".")[0]
"""Tokens that a row has logits for, and one that it never has."""


class Screened(ToyModel):
    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        whole = super().decode(tokens, rows, parents)
        whole[:, UNLIKELY] = -np.inf
        least = np.sort(whole, axis=1)[:, -SCREENED:][:, :1] if rows else whole
        return np.where(whole >= least, whole, np.float32(-np.inf))


class Form:
    """Allows one token alone, an unlikely one, after so many of an answer; anything before, and after it."""

    def __init__(self, after: int) -> None:
        self._after = after

    def allowed(self, tokens: Sequence[int], drafted: Sequence[int]) -> NDArray[np.bool_]:
        place = len(tokens) + len(drafted) - len(PROMPT)
        return np.arange(VOCAB.size) == UNLIKELY if place == self._after else np.ones(VOCAB.size, np.bool_)

    def allows(self, token: int, tokens: Sequence[int], drafted: Sequence[int]) -> bool:
        return bool(self.allowed(tokens, drafted)[token])

    def forced(self, *_: Sequence[int]) -> list[int]:
        return []


SAMPLINGS = {
    "greedy": (SamplingParams(temperature=0), Accept.COUPLED),
    "coupled": (SamplingParams(temperature=0.7), Accept.COUPLED),
    "no cuts": (SamplingParams(temperature=0.7, top_k=0, top_p=1, min_p=0), Accept.COUPLED),
    "drawn": (SamplingParams(temperature=0.7), Accept.RESIDUAL),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_draft_ends_where_a_form_wants_what_its_row_lacks_and_goes_on_behind_it(sampling: str, after: int) -> None:
    params, accept = SAMPLINGS[sampling]
    sampler = Sampler(params, accept, grammar=cast(GrammarState, Form(after)))
    drafter = DraftModel(Screened(), VOCAB)
    drafter.begin(PROMPT, sampler)
    draft = drafter.propose(PROMPT, 6)
    assert len(draft.tokens) == after
    assert draft.probs is None or len(draft.probs) == after
    if after == 0:
        assert draft is NO_DRAFT
    emitted = [*draft.tokens, UNLIKELY]
    drafter.accept(emitted, after)
    context = [*PROMPT, *emitted]
    fresh = DraftModel(Screened(), VOCAB)
    fresh.begin(PROMPT, sampler)
    assert drafter.propose(context, 5).tokens == fresh.propose(context, 5).tokens != ()


def test_given_guesses_are_read_up_to_where_its_row_says_nothing() -> None:
    sampler = Sampler(SamplingParams(temperature=0), grammar=cast(GrammarState, Form(2)))
    plain = Sampler(SamplingParams(temperature=0))
    wanted = DraftModel(Screened(), VOCAB)
    wanted.begin(PROMPT, plain)
    proposals = wanted.propose(PROMPT, 4).tokens
    drafter = DraftModel(Screened(), VOCAB)
    drafter.begin(PROMPT, sampler)
    assert drafter.extend(PROMPT, proposals, 8, bounded(99)).tokens == proposals[:2]


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_with_no_form_rows_that_lack_tokens_are_drafted_from(sampling: str) -> None:
    params, accept = SAMPLINGS[sampling]
    drafter = DraftModel(Screened(), VOCAB)
    drafter.begin(PROMPT, Sampler(params, accept))
    assert drafter.propose(PROMPT, 6).tokens
