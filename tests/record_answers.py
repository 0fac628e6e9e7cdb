"""Record the answers that the pictures of the screen show: python tests/record_answers.py FOLDER, with the real pair.

Every figure in the pictures is one that was measured then. To be run again when the engine has more to tell; then look
at all pictures anew.
"""

import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from recorded import Recorded, write

from app.engine.load import LoadPlan
from app.engine.messages import Message, Said
from app.engine.worker import Question, Worker
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.exact_width import WIDEST
from models.llama_load import LlamaOptions
from models.prompts import Message as Turn
from models.sampling import SamplingParams

_TARGET, _DRAFT = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
_MOST = 220
_FUNCTION = "Write a Python function that merges two sorted lists, show how to call it, and say what it costs."
_QUOTE = "It waits for the moment when the queue is empty and the last worker has gone home, then it closes the door."


@dataclass(frozen=True, slots=True)
class Take:
    """An answer to record."""

    name: str
    prompt: str
    drafter: str = _DRAFT
    temperature: float = 0.0
    adapt: bool = True
    draft_length: int | None = None
    stop_after: int | None = None
    """Rounds after which it is stopped; None: it is not."""


TAKES = (
    Take("answer", _FUNCTION),
    Take("stopped", "What is a priority queue, and when is it better than a sorted list?", stop_after=40),
    Take("accepted", f'Repeat this sentence five times, word for word: "{_QUOTE}"', adapt=False, draft_length=3),
    Take(
        "rejected",
        "Give me ten unusual first names, separated by commas, and nothing else.",
        "lookup",
        1.0,
        adapt=False,
    ),
    Take("paused", "Tell me a strange short story about a lighthouse keeper and an orange dog.", temperature=1.2),
)


def record(folder: Path, take: Take) -> Recorded:
    """Load the pair and let it answer."""
    drafter = parse_drafter(str(folder / take.drafter) if take.drafter.endswith(".gguf") else take.drafter)
    options = LlamaOptions(context_size=4096, max_rows=WIDEST)
    sampling = SamplingParams(temperature=take.temperature, seed=3)
    question = Question(
        (Turn("user", take.prompt),),
        sampling,
        max_tokens=_MOST,
        adapt=take.adapt,
        draft_length=take.draft_length,
        watch=True,
    )
    abort, messages = AbortFlag(), []
    with TemporaryDirectory() as memory:
        plan = LoadPlan(str(folder / _TARGET), drafter, options, Path(memory) / "memory.json", allow_rounding=False)
        worker = Worker(plan, abort, time.perf_counter)
        messages += worker.load(lambda *_: None)
        for message in worker.answer(question):
            messages.append(shortened(message))
            if sum(isinstance(one, Said) for one in messages) == take.stop_after:
                abort.set()
        worker.close()
    return Recorded(take.name, take.prompt, tuple(messages))


def shortened(message: Message) -> Message:
    """Return a message without what no screen shows: distributions of a whole vocabulary."""
    if not isinstance(message, Said):
        return message
    return replace(message, round=replace(message.round, draft=replace(message.round.draft, probs=None)))


if __name__ == "__main__":
    write(record(Path(sys.argv[1]), take) for take in TAKES)
