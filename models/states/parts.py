"""Parts of a text whose states are kept one by one, named by what they depend on.

A part's name has its place, its length and a digest of the cache's identity and of all tokens up to its end. So a name
alone tells whether a file belongs to a text, and a text that goes on another way leaves the files before the fork in
use.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

_DIGITS = 24
_NAME = re.compile(r"(\d{8})-(\d{8})-([0-9a-f]{24})\.state")


@dataclass(frozen=True, slots=True)
class Part:
    """Tokens `start` to before `end` of a text."""

    start: int
    end: int
    digest: str

    @property
    def name(self) -> str:
        """Name of its file."""
        return f"{self.start:08d}-{self.end:08d}-{self.digest}.state"


def part_of(identity: bytes, tokens: Sequence[int], start: int, end: int) -> Part:
    """Return a part of a text under a cache's identity."""
    digest = hashlib.sha256(identity)
    digest.update(np.asarray([start, *tokens[:end]], np.int32).tobytes())
    return Part(start, end, digest.hexdigest()[:_DIGITS])


def divided(identity: bytes, tokens: Sequence[int], block: int) -> list[Part]:
    """Return the parts of a text, `block` tokens each, the last one shorter; one part where `block` is 0."""
    block = block or max(1, len(tokens))
    places = range(0, len(tokens), block)
    return [part_of(identity, tokens, start, min(start + block, len(tokens))) for start in places]


def usable(identity: bytes, tokens: Sequence[int], names: Iterable[str]) -> list[Part]:
    """Return those of the named parts that are the beginning of a text, one after the other; longer ones first."""
    offered = [(int(found[1]), int(found[2]), name) for name in names if (found := _NAME.fullmatch(name))]
    known = {name for _, _, name in offered}
    chain: list[Part] = []
    place = 0
    while True:
        ends = sorted((end for start, end, _ in offered if start == place < end <= len(tokens)), reverse=True)
        parts = (part_of(identity, tokens, place, end) for end in ends)
        part = next((one for one in parts if one.name in known), None)
        if part is None:
            return chain
        chain.append(part)
        place = part.end
