"""Question to the engine: its messages, and all settings of its answer."""

from collections.abc import Callable
from dataclasses import dataclass, field

from models.forms.grammar import Grammar
from models.sampling.accept import Accept
from models.sampling.sampler import SamplingParams
from models.text.fim import Infill
from models.text.prompts import Message as Turn
from models.text.thoughts import Effort
from models.text.tool_calls import Tool


@dataclass(frozen=True, slots=True)
class Question:
    """Conversation whose next answer is wanted, with all settings of that answer."""

    turns: tuple[Turn, ...]
    sampling: SamplingParams
    raw: bool = False
    """Send the bare text, without the model's chat template."""
    special: bool = False
    """Read control tokens spelled in the turns as control tokens; else they are text."""
    effort: Effort = Effort.AUTO
    """Effort of thinking before the answer, where the template supports it."""
    stops: tuple[str, ...] = ()
    """Strings that end the answer and are not part of it."""
    max_tokens: int | None = None
    """Most tokens of the answer; None: until the model ends it or the context is full; 0: only read the prompt."""
    tools: tuple[Tool, ...] = ()
    """Tools listed in the prompt; `grammar` has those that the answer may call."""
    grammar: Grammar | None = None
    """Required form of the answer, thoughts before it excluded; None: any."""
    drops_oldest: bool = False
    """Leave out the oldest messages where all of them do not fit in the context; else that is an error."""
    infill: Infill | None = None
    """A place in a text to fill; the turns are then not looked at."""
    tokens: tuple[int, ...] = ()
    """Whole prompt in the target's tokens; empty: rendered from the turns."""
    lines: int | None = None
    """Most lines of the answer, empty ones not counted; None: no limit."""
    enough: Callable[[str], bool] | None = field(default=None, compare=False)
    """Receives all text after each round, on the engine's thread; returning True ends the answer. None: no callback."""
    seconds: float | None = None
    """Seconds from the first token on; the first line is completed in any case. None: no limit."""
    draft_length: int | None = None
    """Most draft tokens in a round; None: as many as pay off, or 3 without adapting."""
    adapt: bool = True
    """Draft only when and as far as it pays off; else always `draft_length` tokens."""
    prediction: str = ""
    """Text that resembles the expected answer, to copy drafts from."""
    explain: bool = False
    """Send an explanation of drafting costs and gains with the end."""
    listed: int | None = None
    """Send log probabilities with this number of most likely tokens; None: none."""
    scores: int | None = None
    """Send log probabilities of the prompt's tokens, each with this number of most likely ones; None: none."""
    watch: bool = False
    """Send figures from time to time and at the end."""
    accept: Accept = Accept.COUPLED
    """Accept rule for drafts."""
    allow_rounding: bool = False
    """Allow drafts longer than this machine's arithmetic is exact for: near-ties may then resolve differently."""
