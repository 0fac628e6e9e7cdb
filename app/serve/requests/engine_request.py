"""A request to the engine, independent of the protocol that it came in."""

from dataclasses import dataclass
from enum import StrEnum

from app.engine.conversation.session import Reading
from app.engine.decoding.ending import Finish
from app.engine.decoding.logprobs import TokenLogprobs
from app.engine.decoding.request import Question
from app.engine.decoding.stats import Snapshot
from app.engine.runtime.jobs import Urgency


class RequestKind(StrEnum):
    """Class of a request. Classes are counted apart: their typical times differ."""

    CHAT = "chat"
    COMPLETION = "completion"
    INFILL = "infill"


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """A question for the engine, with its class."""

    question: Question
    kind: RequestKind
    indent: int = 0
    """Minimum number of blanks before each line of the answer, except the first."""

    @property
    def warms(self) -> bool:
        """Whether the request only fills the cache."""
        return self.question.max_tokens == 0 and self.question.scores is None

    @property
    def urgency(self) -> Urgency:
        """Priority of the request in the engine's queue."""
        if self.warms:
            return Urgency.IDLE
        return Urgency.ANSWER if self.kind is RequestKind.CHAT else Urgency.COMPLETION


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of certain text; "" while the prompt is read, or until a character is complete."""

    text: str = ""
    places: tuple[TokenLogprobs, ...] = ()
    """Log probabilities of the tokens emitted meanwhile, if requested."""
    tokens: int = 0
    """Number of the tokens emitted meanwhile."""
    reading: Reading | None = None
    """Progress of the prompt; None: the answer has begun."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of an answer."""

    rest: str
    """The end of the text, not sent yet."""
    text: str
    """The whole text."""
    finish: Finish
    stats: Snapshot
    places: tuple[TokenLogprobs, ...] = ()
    """Log probabilities of all tokens, if requested."""
    stop: str = ""
    """The stop string that ended the answer; "": none did."""
    prompt_places: tuple[TokenLogprobs, ...] = ()
    """Log probabilities of the prompt's tokens, if requested; the first one's is not a number."""
