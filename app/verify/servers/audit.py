"""Comparison of greedy answers that servers gave to one question; no network code.

Two answers are compared token by token where both servers report their tokens, else character by character. The first
place where they differ is the *fork*; text after it is not comparable.
Rounding may cause a fork: a pass over several tokens sums in another order than a pass over one. Its size is measured
before the fork, where both servers read equal text: the largest difference of the log probability of a token that both
list is the *floor* d. Where one server emits `a` and the other `b`, the log probability of `a` over `b` has moved by
the sum of `a`'s lead on the one side and `b`'s lead on the other. Rounding moves each of the two by d at most, so it
explains a fork up to 2 d (a near-tie), and none beyond.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile

from app.serve.client.served_answers import ServedAnswer, ServedModel, ServedToken

LEAST_FLOOR = 1 / 64
"""Step of a half-precision number between 16 and 32, where the logits of likely tokens are; natural log."""
MOST_FLOOR = 1.0
"""Most that a floor counts: passes of different widths differ by up to .8, and a fault must not explain itself."""
_END = re.compile(rb"(<\|[^<>]*\|>|</s>|<eos>|<end_of_turn>)?")
_BEFORE = 40
_AFTER = 24


@dataclass(frozen=True, slots=True)
class Side:
    """One answer at the fork."""

    text: str
    ended: bool = False
    gap: float | None = None
    """Gap between the two most likely tokens; None: not known."""
    lead: float | None = None
    """Lead of the emitted token over the other answer's; negative where this side ranks the other's higher."""
    at_least: bool = False
    """Whether the other's token is not listed on this side, so that the lead may be larger than `lead`."""


@dataclass(frozen=True, slots=True)
class ServedFork:
    """First place where two answers differ."""

    token: int | None
    """Token of the fork, from 0; None where characters were compared."""
    character: int
    """Character of the fork, from 0."""
    before: str
    """End of the common text."""
    sides: tuple[Side, Side]

    @property
    def moved(self) -> float | None:
        """Movement of one token against the other between both answers, as far as known; None: not known at all."""
        leads = [abs(side.lead) for side in self.sides if side.lead is not None]
        return sum(leads) if leads else None

    @property
    def at_least(self) -> bool:
        """Whether the movement may be larger than `moved`."""
        return any(side.at_least for side in self.sides)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of two answers to one question."""

    by_tokens: bool
    """Whether tokens were compared, not characters."""
    compared: int
    """Tokens, or characters, compared, the place of the fork included."""
    differences: tuple[float, ...] = ()
    """Largest difference of a log probability at each token place before the fork that both servers list."""
    fork: ServedFork | None = None


class ServedForkKind(StrEnum):
    """Verdict on a fork: explained by rounding, or not."""

    NEAR_TIE = "near-tie"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True)
class Threshold:
    """Largest gap that rounding explains."""

    places: int
    """Token places at which log probabilities were compared."""
    difference: float
    """Largest difference at these places."""

    @property
    def floor(self) -> float:
        """Difference of one log probability that rounding may cause."""
        return min(max(self.difference, LEAST_FLOOR), MOST_FLOOR)

    @property
    def gap(self) -> float:
        """Largest gap that two log probabilities, each moved by the floor, can close."""
        return 2 * self.floor

    def kind(self, fork: ServedFork) -> ServedForkKind:
        """Return whether rounding explains a fork; a fork with an unknown gap is unexplained."""
        explained = fork.moved is not None and not fork.at_least and fork.moved <= self.gap
        return ServedForkKind.NEAR_TIE if explained else ServedForkKind.UNEXPLAINED


@dataclass(frozen=True, slots=True)
class AuditedQuestion:
    """Question with its answers, the first of which the others are compared with."""

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
    """Return the first difference of two answers, and the differences of their log probabilities before it."""
    if first.tokens is None or second.tokens is None:
        return _by_characters(first, second)
    ours, theirs = first.tokens, second.tokens
    place = _shared([token.data for token in ours], [token.data for token in theirs])
    if _same_to_the_end(first, second, place):
        # Without bytes, two different tokens may have one spelling.
        if first.text != second.text:
            return _by_characters(first, second)
        return Comparison(True, place, _differences(ours[:place], theirs[:place]))
    text = b"".join(token.data for token in ours[:place]).decode(errors="replace")
    sides = (_side(ours, theirs, place), _side(theirs, ours, place))
    fork = ServedFork(place, len(text), text[-_BEFORE:], sides)
    return Comparison(True, place + 1, _differences(ours[:place], theirs[:place]), fork)


def threshold(comparisons: Sequence[Comparison]) -> Threshold:
    """Return the largest gap that rounding explains, from differences of log probabilities before forks."""
    differences = [difference for comparison in comparisons for difference in comparison.differences]
    return Threshold(len(differences), max(differences, default=0.0))


def not_best(answer: ServedAnswer) -> list[float]:
    """Return the distance to the top of each token that its own server ranks lower; none under greedy decoding."""
    behind = [
        token.best[0][1] - token.logprob for token in answer.tokens or () if token.best and token.logprob is not None
    ]
    return [gap for gap in behind if gap > LEAST_FLOOR]


def same_model(first: ServedModel | None, second: ServedModel | None) -> bool | None:
    """Tell whether two servers serve one model, by its sizes and its name; None where one does not report them."""
    if first is None or second is None:
        return None
    ours, theirs = dict(first.facts), dict(second.facts)
    known_facts = ours.keys() & theirs.keys()
    if known_facts:
        return all(ours[fact] == theirs[fact] for fact in known_facts)
    return _plain_name(first.id) == _plain_name(second.id)


def _plain_name(name: str) -> str:
    """Return a model name without folders, owners and file extensions."""
    return name.replace("\\", "/").rsplit("/", 1)[-1].lower().removesuffix(".gguf")


def _by_characters(first: ServedAnswer, second: ServedAnswer) -> Comparison:
    place = _shared(first.text, second.text)
    if first.text == second.text:
        return Comparison(False, place)
    sides = tuple(
        Side(answer.text[place : place + _AFTER], ended=place == len(answer.text)) for answer in (first, second)
    )
    fork = ServedFork(None, place, first.text[max(0, place - _BEFORE) : place], (sides[0], sides[1]))
    return Comparison(False, place + 1, fork=fork)


def _shared(one: Sequence[object], other: Sequence[object]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _same_to_the_end(first: ServedAnswer, second: ServedAnswer, place: int) -> bool:
    """Tell whether the only difference from here on is that one server lists the end token."""
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
    text = token.data.decode(errors="backslashreplace")
    if token.logprob is None or len(token.best) < 2:
        return Side(text)
    gap = token.best[0][1] - token.best[1][1]
    rivals = [pair for pair in token.best if pair[0] != token.data]
    known = [
        logprob for data, logprob in rivals if (data == others[place].data if place < len(others) else _ends(data))
    ]
    if known:
        return Side(text, gap=gap, lead=token.logprob - known[0])
    return Side(text, gap=gap, lead=token.logprob - rivals[-1][1], at_least=True)


def _ends(data: bytes) -> bool:
    """Tell whether a listed token may be an end token: one without bytes, or spelled like one."""
    return _END.fullmatch(data) is not None
