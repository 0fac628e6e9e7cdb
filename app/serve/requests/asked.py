"""What a request comes down to, whatever protocol it came in."""

from dataclasses import dataclass
from enum import StrEnum

from app.engine.decoding.ending import Finish
from app.engine.decoding.logprobs import TokenLogprobs
from app.engine.decoding.request import Question
from app.engine.decoding.stats import Snapshot
from app.engine.runtime.thread import Urgency


class Kind(StrEnum):
    """Class of a request: they are counted apart, since they differ in what is quick."""

    CHAT = "chat"
    COMPLETION = "completion"
    INFILL = "infill"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and whose it is."""

    question: Question
    kind: Kind
    indent: int = 0
    """Least blanks before a line of the answer, but for the first."""

    @property
    def warms(self) -> bool:
        """Whether it is asked for the cache's sake alone."""
        return self.question.max_tokens == 0

    @property
    def urgency(self) -> Urgency:
        """How soon it is wanted."""
        if self.warms:
            return Urgency.IDLE
        return Urgency.ANSWER if self.kind is Kind.CHAT else Urgency.COMPLETION


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that became certain; "" while the prompt is read, or a character is not whole."""

    text: str = ""
    places: tuple[TokenLogprobs, ...] = ()
    """How likely the tokens were that were emitted meanwhile, where the request asks for it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an answer ended."""

    rest: str
    """The end of the text, which nobody has heard yet."""
    text: str
    """The whole text."""
    finish: Finish
    stats: Snapshot
    places: tuple[TokenLogprobs, ...] = ()
    """How likely all tokens were, where the request asks for it."""
