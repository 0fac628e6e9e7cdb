"""Drafter that copies from answers of earlier runs, where the text repeats a part of them.

It has its own index, which the texts of this run do not enter. In one index with them, a stretch of old text that goes
on in another way lowers the confidence of a good copy of the prompt, and lower acceptance of old texts is not
learnt. On 90 recorded answers, with those to other questions remembered, one index was worth .2 % and two .9 %;
with the same question remembered too, from a run at another temperature, both were worth a third.
"""

from collections.abc import Callable, Sequence

from drafters.automaton import ROOT
from drafters.base import Draft
from drafters.suffix import Copier
from models.sampling.sampler import Sampler

_SHORTEST = 3
"""Tokens of the shortest match that is worth a draft: in another text, shorter ones are mostly chance."""
_LOOKED_BACK = 128
"""Tokens at a prompt's end that are looked for, so that a long prompt does not make the first token wait."""


class Recall:
    """Drafts by copying from texts of earlier runs; a token takes about a microsecond to follow, four to learn."""

    name = "memory"

    def __init__(self, is_end: Callable[[int], bool]) -> None:
        """Take the target's end-of-generation test."""
        self._is_end = is_end
        self._forget()

    def learn(self, tokens: Sequence[int]) -> None:
        """Add a text; of equally long matches the one in the text added last is copied."""
        self._index.extend(tokens)
        self._index.end_text()

    def begin(self, prompt: Sequence[int], sampler: Sampler) -> None:  # noqa: ARG002
        """Find the end of a prompt in the index."""
        self._state, self._length = ROOT, 0
        for token in prompt[-_LOOKED_BACK:]:
            self._follow(token)
        # What a prompt copies and changes, an answer need not.
        self._copier.pointer.forget()

    def propose(self, context: Sequence[int], limit: int) -> Draft:  # noqa: ARG002
        """Return up to `limit` tokens that followed the longest match, or those after a change if likelier."""
        state, length = self._match()
        return self._copier.draft(state if length >= _SHORTEST else ROOT, length, limit)

    def accept(self, emitted: Sequence[int], accepted: int) -> None:  # noqa: ARG002
        """Follow the emitted tokens."""
        for token in emitted:
            self._follow(token)

    def close(self) -> None:
        """Forget everything."""
        self._forget()

    def _forget(self) -> None:
        self._copier = Copier(self.name, self._is_end)
        self._index = self._copier.index
        self._state, self._length = ROOT, 0

    def _follow(self, token: int) -> None:
        """Go from the longest end of the text that is in the index to that of one token more."""
        index, state = self._index, self._state
        while not (after := index.step(state, token)) and state:
            state = index.link[state]
            self._length = index.length[state]
        self._state, self._length = after, self._length + 1 if after else 0
        match, length = self._match()
        self._copier.pointer.follow(token, length, index.latest[match])

    def _match(self) -> tuple[int, int]:
        """Return the longest end of the text that goes on in the index, and its length."""
        match = self._index.continued(self._state)
        return match, min(self._length, self._index.length[match])
