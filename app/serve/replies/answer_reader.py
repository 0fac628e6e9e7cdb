"""Division of an answer into the parts that every protocol has: thoughts, text and tool calls."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.engine.decoding.ending import Finish
from app.serve.replies.figures import finish_reason
from app.serve.requests.engine_request import Outcome, Piece
from models.forms.tool_division import CallPiece, Calls, Spoken
from models.text.thoughts import Thoughts
from models.text.tool_calls import CallFormat, Tool


@dataclass(frozen=True, slots=True)
class AnswerParts:
    """The parts of an answer that became certain together, in this order."""

    thoughts: str
    text: str
    calls: Sequence[CallPiece]


class AnswerReader:
    """Divides one answer as it comes: call `feed` for each piece, the outcome last, or `read` once for a whole text."""

    def __init__(self, form: CallFormat | None, called: Sequence[Tool], *, divides: bool = True) -> None:
        """Take the format of calls (None: no tools), the tools that may be called, and whether thoughts are divided."""
        self._thoughts = Thoughts(divides=divides, keeps_calls=form is not None)
        self._calls = None if form is None else Calls(form, called)
        self._has_answered = False
        self._undecided = 0
        """Tokens of which no part is certain yet."""
        self.thinking_tokens = 0
        """Number of emitted tokens before the answer itself, where the answer began with thoughts."""

    def read(self, text: str, *, last: bool) -> AnswerParts:
        """Take more text, or the `last` of it; return what became certain."""
        parts = self._thoughts.feed(text, last=last)
        spoken = Spoken(parts.answer) if self._calls is None else self._calls.feed(parts.answer, last=last)
        return AnswerParts(parts.thoughts, spoken.text, spoken.calls)

    def feed(self, piece: Piece | Outcome) -> AnswerParts:
        """Take a piece of the answer, or its outcome; return what became certain."""
        if isinstance(piece, Outcome):
            return self.read(piece.rest, last=True)
        parts = self.read(piece.text, last=False)
        self._has_answered = self._has_answered or bool(parts.text or parts.calls)
        if not self._has_answered:
            self._undecided += piece.tokens
        if parts.thoughts and not self._has_answered:
            self.thinking_tokens, self._undecided = self.thinking_tokens + self._undecided, 0
        return parts

    @property
    def has_called(self) -> bool:
        """Whether the answer has a call with all its arguments."""
        return self._calls is not None and self._calls.are_whole

    def finish_reason(self, finish: Finish) -> str:
        """Return the reason why the answer ended, in OpenAI's terms."""
        reason = finish_reason(finish)
        return "tool_calls" if reason == "stop" and self.has_called else reason
