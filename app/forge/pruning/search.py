"""Search for sets of blocks: each block alone, then larger and larger sets of those that are missed least."""

from collections.abc import Callable
from dataclasses import dataclass

from app.forge.pruning.agreement import Agreement

Blocks = frozenset[int]
Measure = Callable[[Blocks], Agreement]
LEAST_RIGHT = 0.25
"""Share of right tokens below which no larger set is tried: no step is so cheap that it would pay."""
_MOST = 0.75
"""Share of all blocks that are left out at most."""
_SINGLES = 0.45
"""Share of the time after which the blocks that were not tried alone are kept."""
_WIDE, _NARROW = 3, 1
"""Blocks that are tried for each larger set: at first, and once most of the time is over."""
_LATE = 0.8


@dataclass(frozen=True, slots=True)
class Candidate:
    """A set of blocks that can be left out."""

    left_out: Blocks
    agreement: Agreement


def search(blocks: int, measure: Measure, share: Callable[[], float]) -> tuple[Candidate, ...]:
    """Return the best set found of each size, ascending; at least one.

    `share` is how much of the time is over; from 1 on nothing more is measured. First, last and far blocks are tried
    last: those of the middle are missed least.
    """
    alone: dict[int, Agreement] = {}
    for block in sorted(range(blocks), key=lambda block: abs(block - (blocks - 1) * 0.55)):
        if alone and share() >= _SINGLES:
            break
        alone[block] = measure(frozenset({block}))
    ranked = sorted(alone, key=lambda block: -alone[block].right)
    found = [Candidate(frozenset(ranked[:1]), alone[ranked[0]])]
    while len(found) < min(int(blocks * _MOST), len(ranked)) and share() < 1:
        best = found[-1].left_out
        if found[-1].agreement.right < LEAST_RIGHT:
            break
        tried = [block for block in ranked if block not in best][: _WIDE if share() < _LATE else _NARROW]
        larger = [Candidate(best | {block}, measure(best | {block})) for block in tried]
        found.append(max(larger, key=lambda each: sum(each.agreement.lengths)))
    return tuple(found)
