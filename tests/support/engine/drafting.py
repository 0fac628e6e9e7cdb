"""What the tests of the draft model share: its text, its sampler, and drafters over the toy model."""

from collections.abc import Sequence

from fakes import END
from hypothesis import strategies as st

from drafters.base import GoesOn
from drafters.draft_model import DraftModel
from models.sampling.sampler import Sampler, SamplingParams
from models.toy import ToyModel, ToyVocab

VOCAB = ToyVocab()
PROMPT = VOCAB.tokenize("the cat sat on the mat")
SAMPLER = Sampler(SamplingParams(seed=5))
proposals_of_chance = st.lists(st.integers(0, END), max_size=6)


def fresh_draft(context: Sequence[int], limit: int, unlikeness: float = 0.0) -> tuple[int, ...]:
    drafter = DraftModel(ToyModel(unlikeness=unlikeness), VOCAB)
    drafter.begin(context, SAMPLER)
    return drafter.propose(context, limit).tokens


def new_drafter(unlikeness: float = 0.3, vocab: ToyVocab = VOCAB) -> DraftModel:
    model = ToyModel(unlikeness=unlikeness)
    model.vocab = vocab
    return DraftModel(model, vocab)


def bounded(goes: int) -> GoesOn:
    """Want guesses until there are so many."""
    return lambda drafter_confidence: len(drafter_confidence) < goes
