"""When an answer ends though the model would go on: its time is over, or enough was said."""

from collections.abc import Sequence

from app.engine.ending import Finish
from app.engine.question import Question
from app.engine.session import Reading
from app.engine.speculate import Clock, Round


class Limit:
    """Tells when the time for an answer is over, or enough was said."""

    def __init__(self, question: Question, clock: Clock) -> None:
        self._speaking, self._reading = question.seconds, question.reading_seconds
        self._enough = question.enough
        self._clock = clock
        self._started = clock() if self._reading is not None else 0.0
        self._first: float | None = None

    def reached(self, event: Reading | Round, answer: Sequence[str]) -> Finish | None:
        """Hear what happened, and what was said so far, in pieces; return why it is to end, None for going on.

        The first line is completed in any case; a blank one is none.
        """
        if isinstance(event, Reading):
            unread = event.done < event.total - 1
            late = unread and self._reading is not None and self._clock() - self._started > self._reading
            return Finish.TIME if late else None
        if self._enough is not None and self._enough("".join(answer)):
            return Finish.STOP
        return Finish.TIME if self._speaking is not None and self._is_late(self._speaking, answer) else None

    def _is_late(self, seconds: float, answer: Sequence[str]) -> bool:
        now = self._clock()
        self._first = now if self._first is None else self._first
        return now - self._first > seconds and "\n" in "".join(answer).lstrip()
