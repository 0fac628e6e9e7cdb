"""Rows after a text, computed anew without a drafter in passes of any width, to measure the effect of rounding."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from models.base import LanguageModel, common_prefix

_NEVER = -1e9


def spoken_places(
    prompt_tokens: Sequence[int], earlier: Sequence[tuple[Sequence[int], Sequence[int]]]
) -> list[tuple[int, int]]:
    """Return the places in a prompt of answers to earlier turns, each given as its prompt and its answer.

    Rounds left them in the cache from the prompt's last token on, and without their own last token.
    """
    places = []
    for prompt, answer in earlier:
        text = [*prompt, *answer]
        first = min(len(prompt), len(prompt_tokens)) - 1
        behind = min(common_prefix(text, prompt_tokens), len(text) - 1, len(prompt_tokens) - 1)
        places.append((first, max(first, behind)))
    return places


class Rescorer:
    """Reader of a prompt and the beginning of its answer, each time into an empty cache.

    The cache is never rewound, only emptied: a faulty rewind would be mistaken for rounding.
    """

    def __init__(
        self,
        target: LanguageModel,
        prompt_tokens: Sequence[int],
        answer: Sequence[int],
        after: Sequence[int],
        spoken: Sequence[tuple[int, int]] = (),
        may: NDArray[np.bool_] | None = None,
    ) -> None:
        """Take the tokens of prompt and answer, and possible next ones; only the prompt must not be empty.

        `spoken` are the ranges of the prompt, (first, behind the last), that are answers to earlier turns; `may` is a
        mask by token id of the tokens that a grammar allows after the text.
        """
        self._target = target
        self._prompt = list(prompt_tokens[:-1])
        self._answer = [prompt_tokens[-1], *answer]
        self._after = list(after)
        self._spoken = spoken
        self._may = may
        self._room = target.context_size - len(prompt_tokens) - len(answer)

    def row(self, width: int, place: int) -> NDArray[np.float32]:
        """Return the logits after the text, shape (vocabulary,), with all answers read in passes over `width` tokens.

        The text's last token is at `place` in its pass, from 0 to width - 1, with possible next tokens after it:
        kernels do not compute all rows of a pass alike. Width and place are limited by text, context and target.
        """
        width = min(width, self._target.max_rows, self._target.batch_size)
        place = min(place, width - 1, len(self._answer) - 1)
        before = len(self._answer) - 1 - place
        self._read_prompt(width)
        self._read_wide(self._answer[:before], width)
        behind = (self._after * width)[: min(width - 1 - place, self._room)]
        row: NDArray[np.float32] = self._read(self._answer[before:] + behind)[place]
        return self._vetoed(row)

    def branch_row(self, width: int) -> NDArray[np.float32] | None:
        """Return that row from a pass in which the text's last token is a sibling.

        The tokens before are read in passes over `width` tokens. None where there is no room for such a pass.
        """
        width = min(width, self._target.max_rows, self._target.batch_size)
        chain = (self._after * width)[: max(0, min(width - 2, self._room))]
        if len(self._answer) < 2 or not chain or self._target.max_branches == 0:
            return None
        self._read_prompt(width)
        self._read_wide(self._answer[:-2], width)
        tokens, parents = [self._answer[-2], *chain, self._answer[-1]], [*range(-1, len(chain) - 1), -1]
        row: NDArray[np.float32] = self._target.decode(tokens, len(tokens), parents)[-1]
        return self._vetoed(row)

    def _vetoed(self, row: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return a copy of a row, which the next pass overwrites, with excluded tokens at a finite low score."""
        return row.copy() if self._may is None else np.where(self._may, row, np.float32(_NEVER))

    def _read_wide(self, tokens: Sequence[int], width: int) -> None:
        """Read tokens in passes of `width`; the narrower one comes first, so that the last ones are full."""
        for start in range(len(tokens) % width - width, len(tokens), width):
            self._read(tokens[max(0, start) : start + width])

    def _read_prompt(self, width: int) -> None:
        """Read all but the last token of the prompt: earlier answers in passes of `width`, the rest as sessions do."""
        self._target.rewind(0)
        done = 0
        for first, behind in (*self._spoken, (len(self._prompt), len(self._prompt))):
            self._read_batches(self._prompt[done:first])
            self._read_wide(self._prompt[first:behind], width)
            done = behind

    def _read_batches(self, tokens: Sequence[int]) -> None:
        size = self._target.batch_size
        for start in range(0, len(tokens), size):
            self._target.decode(tokens[start : start + size], rows=0)

    def _read(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Read tokens as a round does, with a row for each; none is fine."""
        if not tokens:
            return np.empty((0, self._target.vocab.size), np.float32)
        return self._target.decode(tokens, rows=len(tokens))
