"""When an answer ends though the model would go on: its time is over, or enough was said."""

from collections.abc import Sequence

from app.engine.decoding.ending import Finish
from app.engine.decoding.request import Question
from app.engine.decoding.round import Clock


class EarlyStop:
    """Tells when the time for an answer is over, or enough was said."""

    def __init__(self, question: Question, clock: Clock) -> None:
        self._seconds, self._enough = question.seconds, question.enough
        self._clock = clock
        self._first: float | None = None

    def reached(self, answer: Sequence[str]) -> Finish | None:
        """Hear what was said so far, in pieces, after each round; return why it is to end, None for going on.

        The first line is completed in any case; a blank one is none.
        """
        if self._enough is not None and self._enough("".join(answer)):
            return Finish.STOP
        return Finish.TIME if self._seconds is not None and self._is_late(self._seconds, answer) else None

    def _is_late(self, seconds: float, answer: Sequence[str]) -> bool:
        now = self._clock()
        self._first = now if self._first is None else self._first
        return now - self._first > seconds and "\n" in "".join(answer).lstrip()
