"""Places in plain answers where the target is undecided: a token that is certain shows nothing about chance."""

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
"""Tokens of a plain answer that are looked at."""
_UNDECIDED = 0.05
"""Entropy, in nats, that a place must have."""
_SHOWN = 8
"""Tokens before a place that are shown."""


@dataclass(frozen=True, slots=True)
class Place:
    """A text, and what is known about the token after it."""

    prompt: str
    """Id of the prompt that it began with."""
    class_name: str
    text: tuple[int, ...]
    before: str
    """The end of the text, as it reads."""
    entropy: float
    """Of the token after it, in nats."""
    possible: int
    """Tokens that can come."""


@dataclass(frozen=True, slots=True)
class ProposingModel:
    """Who guesses in every sample."""

    name: str
    make: Callable[[], Drafter]
    """Returns a drafter that has not seen any other text, or begins anew with each."""
    copies: bool
    """Whether it copies from the text, and has nothing to say where nothing repeats."""


class PlaceFinder:
    """Answers prompts without drafting, and finds in each answer the place that leaves most to chance."""

    def __init__(self, cache: KnownCache, proposing_model: ProposingModel, sampler: Sampler, room: int) -> None:
        """Take the target, who will have to guess there, how to answer, and the tokens to leave free in the context."""
        self._cache = cache
        self._proposing_model = proposing_model
        self._sampler = sampler
        self._room = room
        self._vocab = cache.model.vocab

    def find(self, prompt: BenchPrompt) -> Place | Skipped:
        """Return the place, or why there is none."""
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

    def _place(self, prompt: BenchPrompt, text: tuple[int, ...], served: Distribution) -> Place:
        before = b"".join(self._vocab.piece(token) for token in text[-_SHOWN:]).decode(errors="replace")
        return Place(prompt.id, prompt.class_name, text, before, entropy(served), len(served.ids))

    def _tokens(self, prompt: BenchPrompt) -> list[int] | None:
        if not prompt.turns:
            return fim_prompt(self._vocab, prompt.prefix, prompt.suffix)
        return Transcript(self._cache.model, may_be_raw=False).prompt([Message("user", prompt.turns[0])])

    def _candidates(self, prompt: Sequence[int]) -> list[tuple[tuple[int, ...], Distribution]]:
        plain = list(self._read_on(prompt, None))
        if not self._proposing_model.copies:
            return plain
        # Asked the same once more, one who copies has the first answer to copy from.
        answered, _ = plain[-1]
        return list(self._read_on([*answered, *prompt], answered[len(prompt) :]))

    def _read_on(
        self, start: Sequence[int], said: Sequence[int] | None
    ) -> Iterator[tuple[tuple[int, ...], Distribution]]:
        """Yield each text from `start` on, with what follows it; it goes on as `said`, else as plain decoding does."""
        text = tuple(start)
        for place in range(_LOOKED_AT if said is None else len(said) + 1):
            row = self._cache.plain_row(text, len(start))
            yield text, self._sampler.served(row, text)
            if said is not None and place == len(said):
                return
            token = self._sampler.pick(row, text) if said is None else said[place]
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
