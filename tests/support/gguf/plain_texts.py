"""Answers with a drafter, each compared with the plain one."""

from collections.abc import Sequence

from fakes import Case, run

from drafters.base import Drafter, NullDrafter
from models.base import LanguageModel
from models.sampling.sampler import SamplingParams


def drafted_in_plain_texts(drafter: Drafter, target: LanguageModel, text: Sequence[int], answers: int) -> int:
    """Check that so many answers to parts of a text, at three temperatures, are the plain ones.

    Returns the number of drafted tokens.
    """
    drafted = 0
    for number in range(answers):
        sampling = SamplingParams(temperature=(0, 0.7, 1.0)[number % 3], seed=number)
        case = Case(tuple(text[number : number + 9]), sampling, budget=12)
        wanted = run(case, NullDrafter(), 0, target=target)
        got = run(case, drafter, 1 + number % 7, target=target)
        assert got == wanted
        drafted += got.stats.drafted
    return drafted
