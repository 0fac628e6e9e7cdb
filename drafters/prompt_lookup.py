"""Prompt lookup: the tokens that followed the last occurrence of the text's end are proposed again (Saxena 2023).

    ... the cat sat on the mat . and then the cat sat
            ^^^^^^^ ^^ ^^^ ^^^                ^^^^^^^
The longest stretch that ends the text and also occurs earlier is found; what came after it there is the draft.
"""

from collections.abc import Callable, Sequence

from drafters.base import NO_DRAFT, Draft
from models.sampling.sampler import Sampler

_RECENT = 64
"""Earlier occurrences that are compared: in a long run of blank lines there would be thousands."""
_LONGEST = 32
"""Match length beyond which a longer one says nothing new."""


class PromptLookup:
    """Drafts by copying after the longest, then latest, earlier match of the end of prompt and answer.

    Every token costs one entry: occurrences of a key of `shortest` tokens form a chain, newest first, and only the
    chain of the text's own end is walked.
    """

    name = "lookup"

    def __init__(self, is_end: Callable[[int], bool], shortest: int = 3) -> None:
        """Take the target's end-of-generation test, and the shortest match worth drafting from."""
        self._is_end = is_end
        self._shortest = shortest
        self._forget()

    def begin(self, prompt: Sequence[int], sampler: Sampler) -> None:  # noqa: ARG002
        """Index a prompt, or only its new end when it continues what is indexed."""
        known = len(self._tokens)
        if list(prompt[:known]) != self._tokens:
            self._forget()
            known = 0
        self._add(prompt[known:])

    def propose(self, context: Sequence[int], limit: int) -> Draft:  # noqa: ARG002
        """Return up to `limit` tokens that followed the longest match; none without a match."""
        after = self._after_longest_match()
        if after is None:
            return NO_DRAFT
        # Not the context: at a cursor that has another order than the prompt that was indexed.
        text, tokens = self._tokens, list[int]()
        for place in range(after, after + limit):
            # A match that overlaps its own copy is a period: past the end of the text it goes on inside the draft.
            token = text[place] if place < len(text) else tokens[place - len(text)]
            tokens.append(token)
            if self._is_end(token):
                break
        return Draft(tuple(tokens), source=self.name)

    def accept(self, emitted: Sequence[int], accepted: int) -> None:  # noqa: ARG002
        """Index the emitted tokens."""
        self._add(emitted)

    def close(self) -> None:
        """Forget everything."""
        self._forget()

    def _forget(self) -> None:
        self._tokens: list[int] = []
        self._latest: dict[tuple[int, ...], int] = {}
        self._earlier: list[int] = []

    def _add(self, tokens: Sequence[int]) -> None:
        """Append tokens; `_earlier[i]` is the previous place whose key equals that of place i, or -1."""
        for token in tokens:
            self._tokens.append(token)
            key = self._key()
            self._earlier.append(self._latest.get(key, -1))
            self._latest[key] = len(self._tokens) - 1

    def _key(self) -> tuple[int, ...]:
        return tuple(self._tokens[-self._shortest :])

    def _after_longest_match(self) -> int | None:
        """Return the place after the longest match, the latest among equals; None without one."""
        best, best_length = None, self._shortest - 1
        place = self._earlier[-1] if self._tokens else -1
        for _ in range(_RECENT):
            if place < self._shortest - 1 or best_length >= _LONGEST:
                break
            length = self._common_suffix(place)
            if length > best_length:
                best, best_length = place + 1, length
            place = self._earlier[place]
        return best

    def _common_suffix(self, place: int) -> int:
        """Return how many tokens up to `place` equal those at the end of the text, at most `_LONGEST`."""
        end = len(self._tokens) - 1
        length = self._shortest
        while length < _LONGEST and length <= place and self._tokens[place - length] == self._tokens[end - length]:
            length += 1
        return length
