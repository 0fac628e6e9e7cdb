"""What an answer is wanted to, and how."""

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
    """A conversation that wants its next answer."""

    turns: tuple[Turn, ...]
    sampling: SamplingParams
    raw: bool = False
    """Send the bare text, without the model's chat template."""
    special: bool = False
    """Let what the turns spell like a control token be that token; else it is text."""
    effort: Effort = Effort.AUTO
    """How much to think before the answer, where the template lets one choose."""
    stops: tuple[str, ...] = ()
    """Strings that end the answer and are not part of it."""
    max_tokens: int | None = None
    """None: until the model ends it, or the context is full; 0: read the prompt, and say nothing."""
    tools: tuple[Tool, ...] = ()
    """What the model is told that it may call; `grammar` has what it can."""
    grammar: Grammar | None = None
    """What the answer has to look like, thoughts before it not counted; None: as it likes."""
    drops_oldest: bool = False
    """Leave out the oldest messages where all of them do not fit in the context; else that is an error."""
    infill: Infill | None = None
    """A place in a text to fill; the turns are then not looked at."""
    tokens: tuple[int, ...] = ()
    """The whole prompt, in the target's tokens; empty: the turns say it."""
    lines: int | None = None
    """Most lines to say, empty ones not counted; None: any number."""
    enough: Callable[[str], bool] | None = field(default=None, compare=False)
    """Told all that was said after each round, on the engine's thread: True ends the answer. None: nobody is told."""
    seconds: float | None = None
    """Time to speak, from the first token on; the first line is completed in any case. None: any time."""
    draft_length: int | None = None
    """Most tokens to guess in a round; None: as many as pay, or 3 without adapting."""
    adapt: bool = True
    """Guess when and as long as it pays; else always `draft_length`."""
    prediction: str = ""
    """A text like the answer that is expected: guesses may be taken from it."""
    explain: bool = False
    """Tell in the end what drafting cost here, and what came of it."""
    listed: int | None = None
    """Tell how likely each token was, with so many of the likeliest beside it; None: nobody asks."""
    watch: bool = False
    """Tell how it goes, from time to time and in the end."""
    accept: Accept = Accept.COUPLED
    """How drafts are judged."""
    allow_rounding: bool = False
    """Draft longer than this machine's arithmetic is exact for: a near-tie may then fall the other way."""
