"""A chat on a worker that keeps its cache on disk, as the fronts use it."""

import time
from collections.abc import Sequence
from pathlib import Path

from tiny_gguf import END_OF_TEXT

from app.engine.conversation.messages import Ended, Ready, Said
from app.engine.decoding.request import Question
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.worker import Worker
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.sampling.sampler import SamplingParams
from models.states.folder import StateFolder
from models.text.prompts import Message as Turn

KEY = "0123456789"
WHOLE = tuple((token, -1_000_000.0) for token in (*range(128, 256), END_OF_TEXT - 2, END_OF_TEXT - 1, END_OF_TEXT))
"""No answer has a part of a character, nor an end: what is emitted is what is read again."""
LONG = "abc odf urk " * 46
"""A message of 552 tokens: none of them has two letters."""


class KeptChat:
    """A conversation in a process of its own, so to speak: nothing but `states` outlives it."""

    def __init__(
        self,
        model: Path,
        folder: Path,
        states: StateFolder | None,
        *,
        draft: str = "off",
        options: LlamaOptions | None = None,
    ) -> None:
        plan = LoadPlan(
            str(model),
            parse_drafter(draft),
            options or LlamaOptions(context_size=1024, threads=1, extra_buffers=False),
            folder / f"memory-{draft.rpartition('/')[2]}.json",
            states=states,
        )
        self.abort = AbortFlag()
        self.worker = Worker(plan, self.abort, time.perf_counter)
        (self.ready,) = [each for each in self.worker.load(lambda *_: None) if isinstance(each, Ready)]
        self.turns: list[Turn] = []
        self.spelled: list[tuple[int, ...]] = []
        self.drafted = 0

    @property
    def target(self) -> LlamaModel:
        target = self.worker._slot.target
        assert isinstance(target, LlamaModel)
        return target

    def ask(self, text: str, *, seed: int = 1, tokens: int = 24, adapt: bool = True) -> Ended:
        """Answer a message, and go on from there."""
        self.turns.append(Turn("user", text))
        return self.again(seed=seed, tokens=tokens, adapt=adapt)

    def again(self, *, seed: int = 1, tokens: int = 24, adapt: bool = True) -> Ended:
        """Answer the last message, which has no answer here yet."""
        question = self._question(seed, tokens, adapt=adapt)
        emitted: list[int] = []
        for message in self.worker.answer(question):
            if isinstance(message, Said):
                emitted += message.round.emitted
                self.drafted += len(message.round.draft.tokens)
            elif isinstance(message, Ended):
                self.turns.append(Turn("assistant", message.answer))
                self.spelled.append(tuple(emitted))
                return message
        raise AssertionError("an answer ends")

    def undo(self) -> None:
        """Take back the last answer."""
        self.turns.pop()
        self.spelled.pop()

    def keep(self, *, leaving: bool = True) -> None:
        """Keep the cache, and wait for the disk."""
        list(self.worker.keep(KEY, leaving=leaving))
        if self.worker._writer is not None:
            assert self.worker._writer.settle()

    def resume(self, turns: Sequence[Turn], spelled: Sequence[tuple[int, ...]]) -> int:
        """Go on with a conversation of an earlier run; return the tokens that are in the cache."""
        self.turns, self.spelled = list(turns), list(spelled)
        list(self.worker.recall(self._question(1, 1, adapt=True), self.spelled, KEY))
        return self.target.length

    def close(self) -> None:
        self.worker.close()

    def _question(self, seed: int, tokens: int, *, adapt: bool) -> Question:
        return Question(
            tuple(self.turns),
            SamplingParams(temperature=0.8, seed=seed, bias=WHOLE),
            max_tokens=tokens,
            adapt=adapt,
            raw=self.target.chat_template is None,
        )
