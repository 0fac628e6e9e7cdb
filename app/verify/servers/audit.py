"""Compares greedy answers that servers gave to the same question. It takes answers, and knows no network.

Two answers are compared token by token where both servers told their tokens, else character by character. The first
place where they differ is the *fork*; what comes after it answers another text, and says nothing more.

Rounding may cause a fork: a pass over several tokens sums in another order than a pass over one. How much of it there
is can be seen before the fork, where both read the same text: the largest difference of the log probability of a token
that both list is the *floor* d. Where one says `a` and the other `b`, the log probability of `a` over `b` has moved by
the lead that `a` has on the one side and the lead that `b` has on the other, together. Rounding moves each of the two
by d at most, so it explains a fork up to 2 d (a near-tie), and none beyond.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile

from app.serve.client.served_answers import ServedAnswer, ServedModel, ServedToken

LEAST_FLOOR = 1 / 64
"""The step of a half-precision number between 16 and 32, where the logits of likely tokens are; natural log."""
MOST_FLOOR = 1.0
"""A floor is taken for no more: passes of different widths differ by up to .8, and a fault must not excuse itself."""
_END = re.compile(rb"(<\|[^<>]*\|>|</s>|<eos>|<end_of_turn>)?")
_BEFORE = 40
_AFTER = 24


@dataclass(frozen=True, slots=True)
class Side:
    """What one answer has at the fork."""

    said: str
    ended: bool = False
    gap: float | None = None
    """Between the two likeliest tokens; None: not known."""
    lead: float | None = None
    """Of what was said over what the other answer said; negative where this side itself ranks the other's higher."""
    at_least: bool = False
    """The other's token is not listed on this side, so its lead may be larger than `lead`."""


@dataclass(frozen=True, slots=True)
class Fork:
    """The first place where two answers differ."""

    token: int | None
    """From 0; None where texts were compared."""
    character: int
    """From 0."""
    before: str
    """The end of what both had said."""
    sides: tuple[Side, Side]

    @property
    def moved(self) -> float | None:
        """How far one token moved against the other between both answers, as far as known; None: not known at all."""
        leads = [abs(side.lead) for side in self.sides if side.lead is not None]
        return sum(leads) if leads else None

    @property
    def at_least(self) -> bool:
        """Whether it may have moved further than `moved`."""
        return any(side.at_least for side in self.sides)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two answers to one question, compared."""

    by_tokens: bool
    """Otherwise by characters."""
    compared: int
    """Tokens, or characters, that both have, the place of the fork included."""
    differences: tuple[float, ...] = ()
    """Of each token place before the fork that both list tokens of: the largest difference of a log probability."""
    fork: Fork | None = None


class ForkKind(StrEnum):
    """Whether rounding explains a fork."""

    NEAR_TIE = "near-tie"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True)
class Threshold:
    """Up to where rounding explains a fork."""

    places: int
    """Token places at which log probabilities were compared."""
    difference: float
    """The largest difference seen there."""

    @property
    def floor(self) -> float:
        """The difference that rounding is taken to make to one log probability."""
        return min(max(self.difference, LEAST_FLOOR), MOST_FLOOR)

    @property
    def gap(self) -> float:
        """The largest gap that two log probabilities, each moved by the floor, can close."""
        return 2 * self.floor

    def kind(self, fork: Fork) -> ForkKind:
        """Tell whether rounding explains a fork; one whose gap is not known is not explained."""
        explained = fork.moved is not None and not fork.at_least and fork.moved <= self.gap
        return ForkKind.NEAR_TIE if explained else ForkKind.UNEXPLAINED


@dataclass(frozen=True, slots=True)
class Asked:
    """One question with the answers to it, the first of them being what the others are compared with."""

    prompt: str
    """Id of the prompt."""
    class_name: str
    turn: int
    """Number of the turn in its conversation, from 0."""
    answers: tuple[ServedAnswer, ...]

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Each later answer compared with the first."""
        first, *others = self.answers
        return tuple(compare(first, other) for other in others)


def compare(first: ServedAnswer, second: ServedAnswer) -> Comparison:
    """Return where two answers differ first, and how much their log probabilities differ before that."""
    if first.tokens is None or second.tokens is None:
        return _by_characters(first, second)
    ours, theirs = first.tokens, second.tokens
    place = _shared([token.data for token in ours], [token.data for token in theirs])
    if _same_to_the_end(first, second, place):
        # Tokens without bytes may be spelled alike and yet be different ones.
        if first.text != second.text:
            return _by_characters(first, second)
        return Comparison(True, place, _differences(ours[:place], theirs[:place]))
    said = b"".join(token.data for token in ours[:place]).decode(errors="replace")
    sides = (_side(ours, theirs, place), _side(theirs, ours, place))
    fork = Fork(place, len(said), said[-_BEFORE:], sides)
    return Comparison(True, place + 1, _differences(ours[:place], theirs[:place]), fork)


def threshold(comparisons: Sequence[Comparison]) -> Threshold:
    """Return up to where rounding explains forks, from what log probabilities did before them."""
    differences = [difference for comparison in comparisons for difference in comparison.differences]
    return Threshold(len(differences), max(differences, default=0.0))


def not_best(answer: ServedAnswer) -> list[float]:
    """Return how far each token that its own server ranks behind another lies behind it; greedy decoding has none."""
    behind = [
        token.best[0][1] - token.logprob for token in answer.tokens or () if token.best and token.logprob is not None
    ]
    return [gap for gap in behind if gap > LEAST_FLOOR]


def same_model(first: ServedModel | None, second: ServedModel | None) -> bool | None:
    """Tell whether two servers serve one model, by its sizes and its name; None where one does not say."""
    if first is None or second is None:
        return None
    ours, theirs = dict(first.facts), dict(second.facts)
    told = ours.keys() & theirs.keys()
    if told:
        return all(ours[fact] == theirs[fact] for fact in told)
    return _plain_name(first.id) == _plain_name(second.id)


def _plain_name(name: str) -> str:
    """Return the part of a name that folders, owners and file endings leave the same."""
    return name.replace("\\", "/").rsplit("/", 1)[-1].lower().removesuffix(".gguf")


def _by_characters(first: ServedAnswer, second: ServedAnswer) -> Comparison:
    place = _shared(first.text, second.text)
    if first.text == second.text:
        return Comparison(False, place)
    sides = tuple(
        Side(answer.text[place : place + _AFTER], ended=place == len(answer.text)) for answer in (first, second)
    )
    fork = Fork(None, place, first.text[max(0, place - _BEFORE) : place], (sides[0], sides[1]))
    return Comparison(False, place + 1, fork=fork)


def _shared(one: Sequence[object], other: Sequence[object]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _same_to_the_end(first: ServedAnswer, second: ServedAnswer, place: int) -> bool:
    """Tell whether nothing differs from here on but that one server lists the token that ended the answer."""
    rest = [len(answer.tokens or ()) - place for answer in (first, second)]
    return rest == [0, 0] or (sorted(rest) == [0, 1] and (first.text, first.finish) == (second.text, second.finish))


def _differences(ours: Sequence[ServedToken], theirs: Sequence[ServedToken]) -> tuple[float, ...]:
    found = []
    for one, other in zip(ours, theirs, strict=True):
        known = dict(other.best)
        places = [abs(logprob - known[data]) for data, logprob in one.best if data in known]
        found += [max(places)] if places else []
    return tuple(found)


def _side(tokens: Sequence[ServedToken], others: Sequence[ServedToken], place: int) -> Side:
    if place >= len(tokens):
        return Side("", ended=True)
    token = tokens[place]
    said = token.data.decode(errors="backslashreplace")
    if token.logprob is None or len(token.best) < 2:
        return Side(said)
    gap = token.best[0][1] - token.best[1][1]
    rivals = [pair for pair in token.best if pair[0] != token.data]
    known = [
        logprob for data, logprob in rivals if (data == others[place].data if place < len(others) else _ends(data))
    ]
    if known:
        return Side(said, gap=gap, lead=token.logprob - known[0])
    return Side(said, gap=gap, lead=token.logprob - rivals[-1][1], at_least=True)


def _ends(data: bytes) -> bool:
    """Tell whether a listed token may be what ends an answer: one without bytes, or spelled as such tokens are."""
    return _END.fullmatch(data) is not None
