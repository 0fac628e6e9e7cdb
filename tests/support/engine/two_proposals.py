"""Drafts with siblings on `ToyModel`: their drafter, and answers made with them."""

from collections.abc import Sequence
from dataclasses import replace

from fakes import END, INTACT, LETTERS, Answer, MakeDrafter, OracleDrafter, Parts

from app.engine.decoding.controller import FixedLength
from drafters.base import Draft, Drafter
from drafters.draft_model import DraftModel
from models.base import LanguageModel
from models.toy import ToyModel

BRANCHES = ToyModel().max_branches


class TwoProposals(OracleDrafter):
    """Knows the plain answer: every third first guess is wrong, and the second beside it right half the time."""

    name = "two guesses"

    def propose(self, context: Sequence[int], limit: int) -> Draft:
        start = len(context) - self._start
        right = self._answer[start : start + limit]
        firsts = tuple(
            (token + 1) % LETTERS if place % 3 == 2 else token for place, token in enumerate(right, start=start)
        )
        seconds = tuple(self._second(place, token) for place, token in enumerate(right, start=start))
        return Draft(firsts, source=self.name, runners_up=seconds)

    def _second(self, place: int, token: int) -> int | None:
        if place % 3 == 2:
            return token if place % 2 else (token + 2) % LETTERS
        # Beside a right guess stands nothing, or something wrong, even an end token.
        return (None, END, (token + 3) % LETTERS)[place // 3 % 3]


def two_proposals(_: object, __: LanguageModel, answer: Answer) -> Drafter:
    return TwoProposals(answer.tokens)


def toy_draft(unlikeness: float) -> MakeDrafter:
    return lambda case, target, _: DraftModel(
        ToyModel(case.toy_seed, unlikeness=unlikeness, context_size=case.context_size), target.vocab
    )


def with_second_proposals(count: int, parts: Parts = INTACT) -> Parts:
    """Return parts whose controller has second guesses beside so many of a draft's first tokens."""
    return replace(parts, controller=lambda _, length: FixedLength(length, count))


def came_true(answers: Sequence[Answer]) -> int:
    """Return how many second guesses became text."""
    return sum(round_.verdict.branch != () for answer in answers for round_ in answer.rounds)
