"""Messages of the engine thread to its listeners: frozen values, in order, with no text dropped."""

from dataclasses import dataclass

from app.engine.control.explain import Explanation
from app.engine.conversation.session import Reading
from app.engine.decoding.ending import Finish
from app.engine.decoding.logprobs import TokenLogprobs
from app.engine.decoding.round import Round
from app.engine.decoding.stats import Snapshot
from app.engine.trace.trace import Walk
from models.errors import LocalspecError
from models.sampling.accept import Accept
from models.text.thoughts import Effort


@dataclass(frozen=True, slots=True)
class Ready:
    """Message that the models are loaded."""

    model: str
    """The target's file name, without its ending."""
    description: str
    """Architecture, size and quantisation."""
    drafter: str
    context_size: int
    exact_draft: int | None
    """Longest draft whose pass equals one-token passes to the last bit on this machine; None: no drafter."""
    notes: tuple[str, ...] = ()
    """Notes on the load for the user, such as why a setting fell back."""
    chat_notes: tuple[str, ...] = ()
    """Further notes that matter for chats only, not for completion or infill."""
    slots: int = 1
    """Most answers at once, each with a cache of its own."""
    efforts: tuple[Effort, ...] = ()
    """Efforts of thinking that the chat template supports; () without a chat template."""


@dataclass(frozen=True, slots=True)
class Said:
    """Message after a round."""

    text: str
    """New characters of the text; "" while they are still incomplete."""
    round: Round
    lengths: tuple[int, ...] = ()
    """Characters that each emitted token completes, in `text` or later; an end token completes none."""
    pieces: tuple[bytes, ...] = ()
    """Bytes of each emitted token, which may end inside a character; b"" for a control token."""
    proposed: tuple[bytes, ...] = ()
    """Bytes of each verified token: the draft's chain, then the siblings."""
    places: tuple[TokenLogprobs, ...] = ()
    """Log probabilities of each emitted token, where the question asks for them; none for an end token."""


@dataclass(frozen=True, slots=True)
class PromptScored:
    """Message with log probabilities of the next tokens of the prompt, where the question asks for them."""

    places: tuple[TokenLogprobs, ...]
    """Entry of each token; that of the first one is not a number."""


@dataclass(frozen=True, slots=True)
class Watched:
    """Message with the figures of a running answer, from time to time."""

    stats: Snapshot
    explanation: Explanation | None
    """None: no drafter."""
    held: int
    """Tokens of the conversation in the context."""


@dataclass(frozen=True, slots=True)
class Ended:
    """Message at the end of an answer, complete or stopped."""

    text: str
    """Last characters of the answer, held back until now."""
    answer: str
    """Text of the whole answer."""
    finish: Finish
    stats: Snapshot
    drafter: str
    accept: Accept
    """Accept rule of the answer."""
    explanation: Explanation | None = None
    """Costs and gains of drafting, where the question asks for them."""
    left_out: int = 0
    """Number of oldest messages left out, as they had no room in the context."""
    stopped_by: str = ""
    """The stop string that ended the answer; "": none did."""


@dataclass(frozen=True, slots=True)
class Explained:
    """Message with the controller's figures, for /spec."""

    explanation: Explanation | None
    """None: no drafter."""


@dataclass(frozen=True, slots=True)
class Walked:
    """Message with one round step by step, for /explain."""

    walk: Walk | None
    reason: str = ""
    """Reason where there is no walk."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """Message after the tokens of an earlier conversation were restored."""

    held: int
    """Tokens that the conversation takes in the context; 0 without an answer."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Message that a job failed; the engine goes on with the next."""

    error: LocalspecError


Message = Ready | Reading | PromptScored | Said | Watched | Ended | Explained | Walked | Recalled | Failed
"""Any message that a listener can receive."""
