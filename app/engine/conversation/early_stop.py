"""Early end of an answer: its time limit, or a caller that has enough text."""

from collections.abc import Sequence

from app.engine.decoding.ending import Finish
from app.engine.decoding.request import Question
from app.engine.decoding.round import Clock


class EarlyStop:
    """Check after each round whether the time limit is reached or the caller has enough text."""

    def __init__(self, question: Question, clock: Clock) -> None:
        self._seconds, self._enough = question.seconds, question.enough
        self._clock = clock
        self._first: float | None = None

    def reached(self, answer: Sequence[str]) -> Finish | None:
        """Take the pieces of the answer after a round; return the reason to end it, None to go on.

        The time limit never cuts the first line; a blank line does not count.
        """
        if self._enough is not None and self._enough("".join(answer)):
            return Finish.STOP
        return Finish.TIME if self._seconds is not None and self._is_late(self._seconds, answer) else None

    def _is_late(self, seconds: float, answer: Sequence[str]) -> bool:
        now = self._clock()
        self._first = now if self._first is None else self._first
        return now - self._first > seconds and "\n" in "".join(answer).lstrip()
