"""Grammar of an answer: its allowed tokens, its end, and its drafts."""

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
"""Source name of draft tokens that a grammar leaves as the only choice."""


def state_of(grammar: Grammar | None, vocab: Vocab, prompt_length: int, preface: Preface) -> "GrammarState | None":
    """Return the grammar state of an answer after a prompt of `prompt_length` tokens; None without a grammar.

    Raises UsageError for a grammar that is too large.
    """
    if grammar is None:
        return None
    # Importing llguidance takes a tenth of a second, which answers without a grammar are spared.
    from models.forms.grammar_state import GrammarState

    return GrammarState(vocab, grammar, prompt_length, NO_PREFACE if grammar.has_thoughts else preface)


def allowed_after(
    grammar: Grammar | None, vocab: Vocab, prompt: Sequence[int], answer: Sequence[int], preface: Preface
) -> NDArray[np.bool_] | None:
    """Return a mask by token id of the tokens that may follow a prompt and the beginning of its answer; None: any."""
    state = state_of(grammar, vocab, len(prompt), preface)
    return None if state is None else state.allowed((*prompt, *answer))


def ending_of(question: Question, vocab: Vocab, preface: Preface, sampler: Sampler) -> Ending:
    """Return the end conditions of the answer, whose beginning may be part of the prompt already."""
    return Ending(
        vocab,
        stops=question.stops,
        budget=question.max_tokens,
        lines=question.lines,
        opening=preface.opening,
        is_complete=completes(sampler),
        after=preface.after_thoughts(),
    )


def completes(sampler: Sampler) -> Callable[[Sequence[int]], bool] | None:
    """Return a test whether only an end can follow the tokens of an answer; None without a grammar."""
    return None if sampler.grammar is None else sampler.grammar.is_complete


def possible(draft: Draft, sampler: Sampler, tokens: Sequence[int]) -> Draft:
    """Return a draft up to the first token that the grammar excludes: drafters do not know the grammar."""
    if sampler.grammar is None or not draft.tokens:
        return draft
    fitting = sampler.grammar.fitting(draft.tokens, tokens)
    return draft if fitting == len(draft.tokens) else draft.shortened(fitting)


def with_certain(draft: Draft, sampler: Sampler, tokens: Sequence[int], most: Callable[[], int]) -> Draft:
    """Return a draft of the tokens that the grammar leaves as the only choice, where the given draft is shorter.

    The pass is still needed for the token after them. `most` returns the room in tokens, and is called only if needed.
    """
    if sampler.grammar is None:
        return draft
    forced = sampler.grammar.forced(tokens)
    if len(draft.tokens) >= len(forced) or len(draft.tokens) >= (room := most()):
        return draft
    certain = tuple(forced[:room])
    return Draft(certain, confidence=(1.0,) * len(certain), source=SOURCE)
