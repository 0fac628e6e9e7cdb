"""Choice of the drafter's next token: the likeliest, or with the target's own noise where that decides its text.

Under the rule `coupled` the target emits argmax(score + noise), with noise by seed, position and token. A token of the
drafter that the target spells with one token of its own gets the noise of that one, and the drafter then chooses as the
target would with the drafter's scores. Spellings that only one vocabulary has are left out, as in Timor et al. 2025,
arXiv 2502.05202, algorithm TLI.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from drafters.text.spelling import Spelling
from models.sampling.accept import Accept
from models.sampling.noise import gumbel
from models.sampling.sampler import Sampler, serve
from models.sampling.truncation import check_numbers

_ALONE = -1
"""In place of a target's token, for a spelling that the target has no token for."""


class SharedSpellings:
    """The target's token for each token of a drafter with the same bytes, found when asked for."""

    def __init__(self, own: Spelling, theirs: Spelling) -> None:
        """Take the spelling of the drafter and that of the target."""
        self._own = own
        self._theirs = theirs
        self._known: dict[int, int] = {}

    def of(self, tokens: Sequence[int]) -> NDArray[np.int64]:
        """Return the target's token for each of the drafter's, shape (tokens,); -1 for none."""
        return np.array([self._of(token) for token in tokens], np.int64)

    def _of(self, token: int) -> int:
        if token not in self._known:
            spelled = self._theirs.tokens(self._own.bytes_of(token)) or ()
            self._known[token] = spelled[0] if len(spelled) == 1 else _ALONE
        return self._known[token]


class Picking:
    """Choice of the drafter's tokens in one answer."""

    def __init__(self, sampler: Sampler, shared: SharedSpellings) -> None:
        """Take the target's sampler, and the spellings that both vocabularies have."""
        self._params = sampler.params
        self._shared = shared
        self._has_noise = not sampler.params.greedy and sampler.accept is Accept.COUPLED

    def pick(self, row: NDArray[np.float32], position: int) -> int:
        """Return the drafter's token for a place of the target's text; raises LocalspecError for a row of no numbers.

        `row` has shape (vocabulary of the drafter,); `position` counts the target's tokens before it.
        """
        likeliest = int(row.argmax())
        check_numbers(row[likeliest])
        if not self._has_noise:
            return likeliest
        served = serve(row, self._params)
        theirs = self._shared.of(served.ids.tolist())
        if (theirs == _ALONE).all():
            return likeliest
        noise = np.where(theirs == _ALONE, -np.inf, gumbel(self._params.seed, position, np.maximum(theirs, 0)))
        return int(served.ids[np.argmax(served.scores + noise)])
