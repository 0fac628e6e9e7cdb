"""What the engine thread tells its listeners: frozen values, no text dropped, in order."""

from dataclasses import dataclass

from app.engine.control.explain import Explanation
from app.engine.conversation.session import Reading
from app.engine.decoding.ending import Finish
from app.engine.decoding.logprobs import Place
from app.engine.decoding.round import Round
from app.engine.decoding.stats import Snapshot
from app.engine.trace.trace import Walk
from models.errors import LocalspecError
from models.sampling.accept import Accept
from models.text.thoughts import Effort


@dataclass(frozen=True, slots=True)
class Ready:
    """The engine can answer."""

    model: str
    """The target's file name, without its ending."""
    description: str
    """Architecture, size and quantisation."""
    drafter: str
    context_size: int
    exact_draft: int | None
    """Longest draft whose pass is, bit for bit, what one token at a time would give here; None: no drafter."""
    notes: tuple[str, ...] = ()
    """What the user should know about how it was loaded, such as why something fell back."""
    chat_notes: tuple[str, ...] = ()
    """What the user should know besides who wants to chat; to complete or to fill in it means nothing."""
    slots: int = 1
    """Answers that can be given at once, each with a cache of its own."""
    efforts: tuple[Effort, ...] = ()
    """How much the model can be asked to think; () without a chat template."""


@dataclass(frozen=True, slots=True)
class Said:
    """A round ended."""

    text: str
    """Characters that became certain; "" when they are not yet."""
    round: Round
    lengths: tuple[int, ...] = ()
    """Characters that each emitted token completes, certain by now or later; an end token completes none."""
    pieces: tuple[bytes, ...] = ()
    """What each emitted token adds to the text, which may end inside a character; b"" for a control token."""
    proposed: tuple[bytes, ...] = ()
    """The same of each token that was checked: the draft's chain, then the siblings."""
    places: tuple[Place, ...] = ()
    """How likely each emitted token was, where somebody asked; not of an end token."""


@dataclass(frozen=True, slots=True)
class Watched:
    """How an answer goes, from time to time, for who watches it."""

    stats: Snapshot
    explanation: Explanation | None
    """None: nobody guesses."""
    held: int
    """Tokens of the conversation in the context."""


@dataclass(frozen=True, slots=True)
class Ended:
    """An answer is complete, or was stopped."""

    text: str
    """Characters that were held back until now."""
    answer: str
    """The whole answer."""
    finish: Finish
    stats: Snapshot
    drafter: str
    accept: Accept
    """The rule that drafts were judged by."""
    explanation: Explanation | None = None
    """What drafting cost and gained, when it was asked for."""
    left_out: int = 0
    """Oldest messages that had no room in the context."""


@dataclass(frozen=True, slots=True)
class Explained:
    """The answer to why drafting does what it does."""

    explanation: Explanation | None
    """None: nobody guesses."""


@dataclass(frozen=True, slots=True)
class Walked:
    """The answer to how a round went."""

    walk: Walk | None
    reason: str = ""
    """Why there is none."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The job could not be done; the engine goes on with the next."""

    error: LocalspecError


Message = Ready | Reading | Said | Watched | Ended | Explained | Walked | Failed
"""Everything a listener can receive."""
