"""How much memory a model will take, before it is loaded: weights, cache, and what passes need besides.

The engine allocates all of it at the start, so a plan is an account and no guess: within a few per cent of what was
measured. It is for weights in main memory; of those on a GPU main memory is spared.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from models.shape import Shape

DEFAULT_CONTEXT = 8192
"""Tokens of context when none are asked for, unless the model was trained on fewer."""
_LONGEST = 1 << 20
_CELLS = 256
"""The engine rounds a context up to a multiple of this."""
_PASS = 70
"""Tokens of a pass on a processor: 64, rounded up to a multiple of the sequences that guesses are laid out in."""
_ROWS = 32
"""Rows of logits of a pass."""
_BYTES_OF = {"f32": 4.0, "f16": 2.0, "q8_0": 34 / 32}
_BLOCK = 32
_A_TOKEN_OF_THE_VOCABULARY = 288
"""Bytes: its spelling in several tables, and the rules by which it is put together."""
_ITSELF = 3 << 20
"""Bytes of the plan of a pass, and of what is around it."""
_FLOAT = 4
_MASK = 2
CacheTypes = tuple[str, str]
"""Types of cached keys and values: "auto", "f32", "f16" or "q8_0"."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes that a model takes at one length of context."""

    context: int
    weights: int
    cache: int
    """Keys and values of the whole context, and states."""
    buffers: int
    """Working space of a pass, rows of logits, and the vocabulary."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.cache + self.buffers


def default_context(shape: Shape) -> int:
    """Return the context a model is loaded with when the user names none."""
    return min(DEFAULT_CONTEXT, shape.trained) if shape.trained else DEFAULT_CONTEXT


def plan_memory(shape: Shape, context: int = 0, cache_types: CacheTypes = ("auto", "auto")) -> MemoryPlan:
    """Return what a model takes with this context, 0 for the default; types of keys and values as the loader's."""
    context = context or default_context(shape)
    cells = context + -context % _CELLS
    keys, values = (_BYTES_OF[_cache_type(shape, kind)] for kind in cache_types)
    cache = cells * (shape.keys * keys + shape.values * values) + shape.states
    return MemoryPlan(context, shape.weights, int(cache), _buffers(shape, cells))


def largest_context(shapes: Sequence[Shape], free: int, cache_types: CacheTypes = ("auto", "auto")) -> int:
    """Return the longest context at which these models fit together in so many bytes; 0 for none.

    It is no longer than the first was trained on.
    """
    fits, most = 0, (shapes[0].trained or _LONGEST) // _CELLS
    while fits < most:
        middle = (fits + most + 1) // 2
        if sum(plan_memory(shape, middle * _CELLS, cache_types).total for shape in shapes) <= free:
            fits = middle
        else:
            most = middle - 1
    return fits * _CELLS


def _cache_type(shape: Shape, chosen: str) -> str:
    """Return what "auto" stands for on a processor, as the loader has it."""
    if chosen != "auto":
        return chosen
    return "q8_0" if shape.head and shape.head % _BLOCK == 0 else "f16"


def _buffers(shape: Shape, cells: int) -> int:
    logits = _ROWS * shape.vocabulary * _FLOAT
    # Working space is used again and again: the widest moment counts, in a layer or at the end.
    within = _PASS * _FLOAT * (2 * shape.widest + 4 * shape.width)
    masks = shape.masks * cells * _PASS * _MASK
    between = 2 * _PASS * shape.width * _FLOAT
    return masks + max(logits, within) + between + logits + shape.vocabulary * _A_TOKEN_OF_THE_VOCABULARY + _ITSELF
