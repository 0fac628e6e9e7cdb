"""Summary of an audit: its figures and its verdict."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.serve.client.served_answers import ServedAnswer
from app.verify.servers.audit import (
    AuditedQuestion,
    Comparison,
    ServedFork,
    ServedForkKind,
    Threshold,
    not_best,
    threshold,
)
from models.system.counted import counted


@dataclass(frozen=True, slots=True)
class FoundFork:
    """Fork with its question and answer."""

    prompt: str
    turn: int
    answer: int
    """Number of the answer that forked from the first, from 1."""
    fork: ServedFork
    kind: ServedForkKind

    @property
    def where(self) -> str:
        """Place of the fork in its answer, in words."""
        character = f"character {self.fork.character}"
        return character if self.fork.token is None else f"token {self.fork.token} ({character})"

    @property
    def gap(self) -> str:
        """Gap of the fork, in words."""
        moved = self.fork.moved
        return "not known" if moved is None else f"{'at least ' if self.fork.at_least else ''}{moved:.3g}"


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens and times of one server's answers."""

    tokens: int
    seconds: float
    """Seconds of wall time of requests, prompts included, of answers with known tokens."""
    drafted: int | None
    """Draft tokens; None: not reported."""
    accepted: int

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens a second of wall time; None where the server does not report its tokens."""
        return self.tokens / self.seconds if self.tokens and self.seconds > 0 else None


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures of all comparisons together."""

    answers: int
    """Comparisons of two answers."""
    tokens: int
    """Tokens compared, where both servers report them."""
    characters: int
    """Characters compared elsewhere."""
    threshold: Threshold
    forks: tuple[FoundFork, ...]

    @property
    def unexplained(self) -> tuple[FoundFork, ...]:
        """The forks that rounding does not explain."""
        return tuple(found for found in self.forks if found.kind is ServedForkKind.UNEXPLAINED)

    @property
    def largest_gap(self) -> float | None:
        """The largest gap of a fork, as far as known; None without any."""
        return max((gap for found in self.forks if (gap := found.fork.moved) is not None), default=None)


def place(prompt: str, turn: int) -> str:
    """Return the name of a question."""
    return f"{prompt} turn {turn + 1}" if turn else prompt


def summarise(questions: Sequence[AuditedQuestion]) -> Summary:
    """Return the figures of all questions asked so far."""
    comparisons = [comparison for one in questions for comparison in one.comparisons]
    limit = threshold(comparisons)
    return Summary(
        answers=len(comparisons),
        tokens=_compared(comparisons, by_tokens=True),
        characters=_compared(comparisons, by_tokens=False),
        threshold=limit,
        forks=tuple(
            FoundFork(one.prompt, one.turn, number, comparison.fork, limit.kind(comparison.fork))
            for one in questions
            for number, comparison in enumerate(one.comparisons, start=1)
            if comparison.fork is not None
        ),
    )


def speed(answers: Sequence[ServedAnswer]) -> Speed:
    """Return the tokens and times of one server's answers."""
    counted = [answer for answer in answers if answer.counted]
    drafted = [answer.drafted for answer in answers if answer.drafted is not None]
    return Speed(
        tokens=sum(answer.counted or 0 for answer in counted),
        seconds=sum(answer.seconds for answer in counted),
        drafted=sum(drafted) if drafted else None,
        accepted=sum(answer.accepted or 0 for answer in answers),
    )


def never_best(answers: Sequence[ServedAnswer]) -> tuple[int, float]:
    """Return the number of tokens that their own server ranks behind another, and the largest distance."""
    behind = [gap for answer in answers for gap in not_best(answer)]
    return len(behind), max(behind, default=0.0)


def verdict(summary: Summary, *, servers: int) -> str:
    """Return the verdict in a sentence or two."""
    if summary.unexplained:
        forked = _forked(summary, len(summary.unexplained))
        found = f"{forked} where rounding does not explain it: the texts are not the same."
    elif summary.forks:
        found = f"{_forked(summary, len(summary.forks))} only at near-ties, which rounding explains."
    elif summary.tokens + summary.characters:
        found = f"The same text every time: {_amount(summary)}, no fork."
    else:
        found = "Every answer was empty, so nothing was compared."
    if servers == 1:
        return f"{found} One server alone shows only whether it repeats itself. Add a server that does not speculate."
    return found


def _forked(summary: Summary, count: int) -> str:
    return f"{count} of {counted(summary.answers, 'answer')} {'forks' if count == 1 else 'fork'}"


def _amount(summary: Summary) -> str:
    parts = [f"{counted(summary.answers, 'answer')} compared"]
    parts += [counted(summary.tokens, "token")] if summary.tokens else []
    parts += [counted(summary.characters, "character")] if summary.characters else []
    return ", ".join(parts)


def _compared(comparisons: Sequence[Comparison], *, by_tokens: bool) -> int:
    return sum(comparison.compared for comparison in comparisons if comparison.by_tokens is by_tokens)
