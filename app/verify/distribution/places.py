"""Places for the distribution check: texts after which the target's next token has high entropy."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from app.bench.measuring.arms import BenchPrompt, Skipped
from app.engine.conversation.transcript import Transcript
from app.verify.distribution.row_cache import KnownCache
from drafters.base import Drafter
from models.sampling.distribution import Distribution
from models.sampling.sampler import Sampler
from models.text.fim import fim_prompt
from models.text.prompts import Message

_LOOKED_AT = 24
"""Tokens of a plain answer that are searched."""
_UNDECIDED = 0.05
"""Least entropy of a place, in nats."""
_SHOWN = 8
"""Tokens before a place that are shown."""


@dataclass(frozen=True, slots=True)
class SamplingPlace:
    """Text, with figures of the token after it."""

    prompt: str
    """Id of the prompt of the text."""
    class_name: str
    text: tuple[int, ...]
    before: str
    """End of the text, for the report."""
    entropy: float
    """Entropy of the next token, in nats."""
    possible: int
    """Number of possible next tokens."""


@dataclass(frozen=True, slots=True)
class ProposingModel:
    """Drafter to check, under a name."""

    name: str
    make: Callable[[], Drafter]
    """Returns a drafter that has seen no other text, or that begins anew with each text."""
    copies: bool
    """Whether it copies from the text, and drafts nothing where nothing repeats."""


class PlaceFinder:
    """Search for the place with the highest entropy in plain answers to prompts."""

    def __init__(self, cache: KnownCache, proposing_model: ProposingModel, sampler: Sampler, room: int) -> None:
        """Take the target, the drafter to check, the sampler, and the tokens to leave free in the context."""
        self._cache = cache
        self._proposing_model = proposing_model
        self._sampler = sampler
        self._room = room
        self._vocab = cache.model.vocab

    def find(self, prompt: BenchPrompt) -> SamplingPlace | Skipped:
        """Return the place, or the reason why there is none."""
        tokens = self._tokens(prompt)
        if tokens is None:
            return Skipped(prompt.id, prompt.class_name, "the model has no fill-in-the-middle tokens")
        longest = (2 if self._proposing_model.copies else 1) * (len(tokens) + _LOOKED_AT) + self._room
        if longest > self._cache.model.context_size:
            return Skipped(prompt.id, prompt.class_name, "too long for the context (larger: -c)")
        undecided = [pair for pair in self._candidates(tokens) if entropy(pair[1]) >= _UNDECIDED]
        if not undecided:
            return Skipped(prompt.id, prompt.class_name, "the model is certain everywhere (try a higher --temp)")
        for text, served in sorted(undecided, key=lambda pair: -entropy(pair[1])):
            if self._proposals(text):
                return self._place(prompt, text, served)
        return Skipped(
            prompt.id, prompt.class_name, f"{self._proposing_model.name} drafts nothing where it is undecided"
        )

    def _place(self, prompt: BenchPrompt, text: tuple[int, ...], served: Distribution) -> SamplingPlace:
        before = b"".join(self._vocab.piece(token) for token in text[-_SHOWN:]).decode(errors="replace")
        return SamplingPlace(prompt.id, prompt.class_name, text, before, entropy(served), len(served.ids))

    def _tokens(self, prompt: BenchPrompt) -> list[int] | None:
        if not prompt.turns:
            return fim_prompt(self._vocab, prompt.prefix, prompt.suffix)
        return Transcript(self._cache.model, may_be_raw=False).prompt([Message("user", prompt.turns[0])])

    def _candidates(self, prompt: Sequence[int]) -> list[tuple[tuple[int, ...], Distribution]]:
        plain = list(self._read_on(prompt, None))
        if not self._proposing_model.copies:
            return plain
        # A prompt with its answer and the prompt again gives a copying drafter a text to copy from.
        answered, _ = plain[-1]
        return list(self._read_on([*answered, *prompt], answered[len(prompt) :]))

    def _read_on(
        self, start: Sequence[int], answer: Sequence[int] | None
    ) -> Iterator[tuple[tuple[int, ...], Distribution]]:
        """Yield each text from `start` on with its next distribution; it follows `answer`, else plain decoding."""
        text = tuple(start)
        for place in range(_LOOKED_AT if answer is None else len(answer) + 1):
            row = self._cache.plain_row(text, len(start))
            yield text, self._sampler.served(row, text)
            if answer is not None and place == len(answer):
                return
            token = self._sampler.pick(row, text) if answer is None else answer[place]
            if self._vocab.is_end(token):
                return
            text = (*text, token)

    def _proposals(self, text: Sequence[int]) -> bool:
        drafter = self._proposing_model.make()
        drafter.begin(text, self._sampler)
        return bool(drafter.propose(text, 1).tokens)


def entropy(distribution: Distribution) -> float:
    """Return the entropy, in nats."""
    probs = distribution.probs[distribution.probs > 0]
    return float(-(probs * np.log(probs)).sum())
