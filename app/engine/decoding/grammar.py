"""What a grammar means for an answer: for what chooses its tokens, for what ends it, and for drafts."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from app.engine.decoding.ending import Ending
from app.engine.decoding.request import Question
from drafters.base import Draft
from models.base import Vocab
from models.forms.grammar import Grammar
from models.forms.preface import NO_PREFACE, Preface
from models.sampling.sampler import Sampler

if TYPE_CHECKING:
    from models.forms.grammar_state import GrammarState

SOURCE = "grammar"
"""Name, among those of drafters, of what can't be wrong."""


def state_of(grammar: Grammar | None, vocab: Vocab, prompt_length: int, preface: Preface) -> "GrammarState | None":
    """Return what follows the grammar of an answer that comes after so many tokens; None where there is none.

    Raises UsageError for a grammar that is too large.
    """
    if grammar is None:
        return None
    # Only who has a grammar waits for llguidance, which takes a tenth of a second.
    from models.forms.grammar_state import GrammarState

    return GrammarState(vocab, grammar, prompt_length, NO_PREFACE if grammar.has_thoughts else preface)


def allowed_after(
    grammar: Grammar | None, vocab: Vocab, asked: Sequence[int], said: Sequence[int], preface: Preface
) -> NDArray[np.bool_] | None:
    """Return which tokens may come after a prompt and the beginning of its answer, by id; None: any may."""
    state = state_of(grammar, vocab, len(asked), preface)
    return None if state is None else state.allowed((*asked, *said))


def ending_of(question: Question, vocab: Vocab, opening: str, sampler: Sampler) -> Ending:
    """Return what watches for the end of the answer, of which `opening` is in the prompt already."""
    return Ending(
        vocab,
        stops=question.stops,
        budget=question.max_tokens,
        lines=question.lines,
        opening=opening,
        is_complete=completes(sampler),
    )


def completes(sampler: Sampler) -> Callable[[Sequence[int]], bool] | None:
    """Return what tells whether the tokens of an answer leave nothing but an end; None where no grammar says."""
    return None if sampler.grammar is None else sampler.grammar.is_complete


def possible(draft: Draft, sampler: Sampler, tokens: Sequence[int]) -> Draft:
    """Return a draft up to what a grammar rules out: who copies knows of none."""
    if sampler.grammar is None or not draft.tokens:
        return draft
    fitting = sampler.grammar.fitting(draft.tokens, tokens)
    return draft if fitting == len(draft.tokens) else draft.shortened(fitting)


def with_certain(draft: Draft, sampler: Sampler, tokens: Sequence[int], most: Callable[[], int]) -> Draft:
    """Return a draft of all that a grammar leaves no choice about, where less than that is drafted.

    The target is asked all the same, for what follows. `most` tells how many tokens there is room for, if asked.
    """
    if sampler.grammar is None:
        return draft
    forced = sampler.grammar.forced(tokens)
    if len(draft.tokens) >= len(forced) or len(draft.tokens) >= (room := most()):
        return draft
    certain = tuple(forced[:room])
    return Draft(certain, confidence=(1.0,) * len(certain), source=SOURCE)
