"""Lookahead decoding: n-grams that the target generates ahead of the text, in rows of the same pass (Fu et al. 2024).

    window    columns of two tokens that stand for the text to come; each pass replaces them by what the target says
              after them (Jacobi iteration): (a, b) becomes (b, c), where c is the likeliest token after b
    pool      the n-grams (a, b, c) that came up, by their first token
    draft     the n-grams after the pending token, to be verified, and the window beside them

arXiv 2402.02057, with n-grams of three tokens. The paper's windows have tens of tokens, for cards on which these cost
nothing; here a pass has as much of the window as the controller finds nearly free.
"""

from collections.abc import Callable, Iterator, Sequence

from drafters.base import NO_DRAFT, Draft, Offer, Offers
from models.base import Logits
from models.sampling.sampler import Sampler

_COLUMNS = 6
"""Most columns of the window."""
_KEPT = 4
"""N-grams kept for a first token, the latest ones."""
_MOST = 8192
"""First tokens in the pool; the ones that were longest without a new n-gram go first. About 4 MB when full."""
_POOLED, _AHEAD = (0.5, 0.35, 0.25, 0.2), 0.02
"""Confidence of an n-gram's tokens by its rank, and of a token of the window; what comes true is learnt by these."""

_Path = tuple[int, ...]


class Lookahead:
    """Drafts n-grams of its pool, and carries a window along from which the pool grows; the pool outlives answers."""

    name = "lookahead"

    def __init__(self, is_end: Callable[[int], bool]) -> None:
        """Take the target's end-of-generation test."""
        self._is_end = is_end
        self._pool: dict[int, list[tuple[int, int]]] = {}
        self._first: list[int] = []
        """First token of each column; that of column 0 is the pending token, whatever stands here."""
        self._second: list[int] = []

    def begin(self, prompt: Sequence[int], sampler: Sampler) -> None:  # noqa: ARG002
        """Start an answer with a window from the end of the prompt."""
        window = [*prompt[-2 * _COLUMNS :]]
        window = (window * (2 * _COLUMNS))[: 2 * _COLUMNS]
        self._first, self._second = window[:_COLUMNS], window[_COLUMNS:]

    def propose(self, context: Sequence[int], limit: int) -> Draft:
        """Return an n-gram of the pool as the chain, else the window's; beside it the other n-grams and the window."""
        if limit <= 0 or self._is_end(context[-1]):
            return NO_DRAFT
        paths = [*self._pooled(context[-1]), *self._window()]
        (chain, sure), others = paths[0], paths[1:]
        chain = chain[: 1 if self._is_end(chain[0]) else min(limit, 2)]
        offers = tuple(self._offers(chain, others, limit))
        confidence = (sure,) * len(chain)
        return Draft(chain, confidence=confidence, source=self.name, offers=Offers(offers, wants_rows=True))

    def read_rows(self, pending: int, draft: Draft, rows: Logits) -> None:
        """Move the window by what the target says after its tokens, and keep the n-grams that come up."""
        row: int | None = 0
        for column in range(len(self._second)):
            first = self._first[column] if column else pending
            row = _row_after(draft, row, first) if column and row is not None else row
            if row is None:
                return
            if (after := _row_after(draft, row, self._second[column])) is not None:
                third = int(rows[after].argmax())
                self._keep(first, (self._second[column], third))
                self._first[column], self._second[column] = self._second[column], third

    def accept(self, emitted: Sequence[int], accepted: int) -> None:
        """Do nothing: what it learns is in the rows."""

    def close(self) -> None:
        """Forget everything."""
        self._pool.clear()

    def _pooled(self, pending: int) -> Iterator[tuple[_Path, float]]:
        """Yield the n-grams after the pending token, with the confidence of each of their tokens."""
        yield from zip(self._pool.get(pending, ()), _POOLED, strict=False)

    def _window(self) -> Iterator[tuple[_Path, float]]:
        """Yield the paths of the window's tokens; the first tokens of the columns follow one another."""
        first = tuple(self._first[1:])
        order = [(*first[:column], self._second[column]) for column in range(len(self._second))]
        for path in (order[1], order[0], *order[2:]):
            yield path, _AHEAD

    def _offers(self, chain: _Path, others: Sequence[tuple[_Path, float]], limit: int) -> Iterator[Offer]:
        """Yield the tokens of paths that the chain does not have, each once, at most `limit` of them."""
        places: dict[_Path, int] = {chain[:length]: length for length in range(len(chain) + 1)}
        count = 0
        for path, sure in others:
            for length in range(1, len(path) + 1):
                before, token = path[: length - 1], path[length - 1]
                if path[:length] in places:
                    continue
                if count == limit or (before and self._is_end(before[-1])):
                    break
                yield Offer(places[before], token, sure)
                places[path[:length]] = ~count
                count += 1

    def _keep(self, first: int, gram: tuple[int, int]) -> None:
        """Put an n-gram before the others of its first token."""
        others = self._pool.pop(first, [])
        self._pool[first] = [gram, *(other for other in others if other != gram)][:_KEPT]
        if len(self._pool) > _MOST:
            del self._pool[next(iter(self._pool))]


def _row_after(draft: Draft, row: int, token: int) -> int | None:
    """Return the row of a token that follows that of a row in a draft; None where the draft does not have it."""
    if row < len(draft.tokens) and draft.tokens[row] == token:
        return row + 1
    return next((after for after, proposal in draft.beside(row) if proposal == token), None)
