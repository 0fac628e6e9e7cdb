"""Costs of a head that drafts blocks, as a table like that of a draft model: a block is one pass for all its tokens."""

from collections.abc import Mapping

BLOCK_WIDTHS = (1, 2, 4, 8, 15)
"""Draft tokens of the blocks that are timed."""
_LEAST_SHARE = 1e-3
"""Least time of a further token, over that of a block of one: a GPU computes some at no cost that can be measured."""


def block_table(reading: Mapping[int, float], blocks: Mapping[int, float]) -> dict[int, float]:
    """Return the seconds of such a head by width, in which width 1 is one more token of a block.

    `reading` are the seconds of a block of one token after so many unread ones, the pending token among them; `blocks`
    those of blocks by their draft tokens. Width n + 1 of the result is `reading[n]`.
    """
    widest = max(blocks)
    further = (blocks[widest] - blocks[1]) / (widest - 1) if widest > 1 else 0.0
    return {1: max(further, _LEAST_SHARE * blocks[1]), **{width + 1: taken for width, taken in reading.items()}}
