"""Corrections of a draft model, counted from its disagreements with the target.

Online speculative decoding (Liu et al. 2023, arXiv 2310.07177) trains the draft model while answers are written. This
is its cheap form: a table from the two tokens before and the token that the model drafts to the tokens that the target
said there. An entry begins with a disagreement; from then on it counts agreements too. Counting waits until an answer
is over.
"""

from collections.abc import Iterable, Iterator

Before = tuple[int, int]
"""The two tokens before a place."""
MOST_ENTRIES = 4096
"""Most places that a table knows; the one that was seen last is kept longest. A full table has some 100 KiB."""
_LEAST, _LEAD = 2, 2
"""Least count of the target's token, and its least lead over the drafted one.

On 36 recorded answers of a 1.5B with its 0.5B (4,111 tokens, two answers to each question), corrections after a single
disagreement were right in 35 places and wrong in 20; with one token before in place of two, right in 34 and wrong in
44. With these bounds 2 were right and none was wrong.
"""


class Corrections:
    """Table of corrections. Call order: `note` in an answer, `learn` after it, `better` in the next ones."""

    def __init__(self, entries: Iterable[tuple[int, int, int, int, int]] = ()) -> None:
        """Take what `entries` of an earlier table has returned."""
        self._counts: dict[tuple[Before, int], dict[int, int]] = {}
        for first, second, drafted, said, count in entries:
            self._counts.setdefault(((first, second), drafted), {})[said] = count
        self._better: dict[Before, dict[int, int]] = {}
        for key in self._counts:
            self._decide(key)
        self._noted: list[tuple[Before, int, int]] = []

    def __len__(self) -> int:
        """Return the number of places."""
        return len(self._counts)

    def note(self, before: Before, drafted: int, said: int) -> None:
        """Take that the target said a token where the model drafted one; it is counted by `learn`."""
        self._noted.append((before, drafted, said))

    def better(self, before: Before, drafted: int) -> int | None:
        """Return the token to draft in place of another; None where that one is not corrected."""
        return self._better.get(before, {}).get(drafted)

    def learn(self) -> bool:
        """Count what was noted since the last call; return whether the table changed."""
        changed = False
        for before, drafted, said in self._noted:
            key = before, drafted
            if drafted == said and key not in self._counts:
                continue
            # Put last: it is the youngest now.
            counts = self._counts[key] = self._counts.pop(key, {})
            counts[said] = counts.get(said, 0) + 1
            self._decide(key)
            changed = True
        self._noted.clear()
        while len(self._counts) > MOST_ENTRIES:
            before, drafted = oldest = next(iter(self._counts))
            del self._counts[oldest]
            self._better.get(before, {}).pop(drafted, None)
        return changed

    def entries(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield each count with its place: the two tokens before, the drafted one, the target's, how often."""
        for (before, drafted), counts in self._counts.items():
            for said, count in counts.items():
                yield *before, drafted, said, count

    def _decide(self, key: tuple[Before, int]) -> None:
        """Correct a place, or correct it no longer, by its counts."""
        before, drafted = key
        counts = self._counts[key]
        said, count = max(counts.items(), key=lambda item: item[1])
        if said != drafted and count >= max(_LEAST, counts.get(drafted, 0) + _LEAD):
            self._better.setdefault(before, {})[drafted] = said
        else:
            self._better.get(before, {}).pop(drafted, None)
