"""Measurement of the widest pass, in tokens, that this machine rounds like one token at a time.

llama.cpp chooses its kernels by the number of rows: past some width the same row comes out a little different, and a
near-tie between two tokens can fall the other way. Up to the width found here the logits are equal to the last bit, so
drafting that stays within it can't change the text. It depends on processor, build, weights and cache types: measured,
never assumed.
"""

from collections.abc import Callable

import numpy as np

from models.base import LanguageModel, Logits
from models.llama.cache_types import summed_in_parts
from models.llama.load import threads_of
from models.llama.model import LlamaModel
from models.llama.remote.remote_model import RemoteModel

WIDEST = 32
"""Wider passes are not looked at: the check has to be over in a second or two."""
_STAGES = (range(2, 10), (12, 16, 17, 24, WIDEST))
"""Widths looked at, the wide ones only where the others agree.

A kernel takes over at some width and stays, so those between two that agree are taken to agree.
"""
_PREFIX = 4
_DEEP, _BLOCK = 511, 256
"""Tokens before a pass that shows what attention does deep in a text: from `_BLOCK` on it may sum in another way."""
_TREE, _SEVERAL = 3, 9
_TEXT = "The quick brown fox jumps over the lazy dog; 3 of 7 dogs don't mind (much)."


def exact_width(model: LanguageModel) -> int:
    """Return the widest pass, from 1 on, whose rows equal those of one-token passes to the last bit.

    Measured at the start of a text, and deep in one with cache types whose sums depend on that. Leaves the cache empty,
    also when it is stopped.
    """
    prefix = _text(model, min(_PREFIX, model.batch_size))

    def read_anew() -> None:
        model.rewind(0)
        model.decode(prefix, rows=0)

    try:
        widest = _widest_exact(model, _text(model, _widest(model, _PREFIX) + _PREFIX)[_PREFIX:], read_anew)
        read_anew()
        return min(widest, exact_width_here(model)) if _go_deep(model) else widest
    finally:
        model.rewind(0)


def _go_deep(model: LanguageModel) -> bool:
    """Let passes attend to a deep text, where the start of one promises nothing for it; tell whether they do now."""
    return isinstance(model, LlamaModel | RemoteModel) and summed_in_parts(model.cache_types) and _stretch(model)


def _stretch(model: LlamaModel | RemoteModel) -> bool:
    """Let passes attend to a deep text, where the memory allows that; tell whether they do now."""
    if not model.max_branches:
        return False
    if (cells := min(_DEEP, model.context_size - WIDEST)) >= _BLOCK:
        model.stretch(cells)
    return cells >= _BLOCK


def exact_threads(model: LlamaModel) -> bool:
    """Return whether rows are equal to the last bit with every smaller number of threads, deep in a text too.

    Attention may be summed in as many parts as there are threads. Leaves the cache empty.
    """
    kept, (threads, batch_threads) = model.options, threads_of(model.options)
    text = _text(model, _PREFIX + min(_SEVERAL, _widest(model, _PREFIX)))

    def rows() -> list[Logits]:
        read = []
        for width in (1, len(text) - _PREFIX):
            model.rewind(0)
            model.decode(text[:_PREFIX], rows=0)
            _stretch(model)
            read.append(model.decode(text[_PREFIX : _PREFIX + width], rows=width).copy())
        return read

    try:
        expected = rows()
        for fewer in range(1, max(threads, batch_threads)):
            model.use_threads(min(fewer, threads), min(fewer, batch_threads))
            if not all(map(np.array_equal, rows(), expected)):
                return False
        return True
    finally:
        model.use_threads(threads, batch_threads)
        model.options = kept
        model.rewind(0)


def exact_width_here(model: LanguageModel) -> int:
    """Return the same, measured after what the cache holds, which stays; for a memory that goes back any number.

    Attention has its own kernels, and some change with the depth: agreement at the start promises nothing there.
    """
    depth = model.length
    try:
        return _widest_exact(model, _text(model, _widest(model, depth)), lambda: model.rewind(depth))
    finally:
        model.rewind(depth)


def exact_branches(model: LanguageModel) -> bool:
    """Return whether a small tree has the rows that its paths have one token at a time. Leaves the cache empty."""
    if min(model.batch_size, model.max_rows) < _TREE:
        return False
    try:
        model.rewind(0)
        model.decode(_text(model, min(_PREFIX, model.batch_size)), rows=0)
        return exact_branches_here(model, _TREE)
    finally:
        model.rewind(0)


def exact_branches_here(model: LanguageModel, width: int) -> bool:
    """Return whether a tree of a pass this wide, at least 3, has the rows that its paths have one token at a time.

    Measured after what the cache holds, which stays. A branch lies behind the chain in the cache, not next to what it
    follows: where attention sums over places, and not only over what a token sees, its rows come out otherwise.
    """
    depth, text = model.length, _text(model, width)
    chain, branch = text[1 : 1 + width // 2], text[1 + width // 2 :][::-1]
    parents = [*range(-1, len(chain) - 1), -1, *range(len(chain), width - 2)]
    try:
        rows = [model.decode([token], rows=1)[0].copy() for token in text[: 1 + len(chain)]]
        model.rewind(depth + 1)
        rows += [model.decode([token], rows=1)[0].copy() for token in branch]
        model.rewind(depth)
        return np.array_equal(model.decode([text[0], *chain, *branch], rows=width, parents=parents), rows)
    finally:
        model.rewind(depth)


def _widest(model: LanguageModel, depth: int) -> int:
    return min(WIDEST, model.max_rows, model.batch_size, model.context_size - depth)


def _text(model: LanguageModel, length: int) -> list[int]:
    return (model.vocab.tokenize(_TEXT, special=False) * WIDEST)[:length]


def _widest_exact(model: LanguageModel, text: list[int], restore: Callable[[], None]) -> int:
    widest = 1
    for stage in _STAGES:
        widths = [width for width in stage if width <= len(text)]
        restore()
        narrow = [model.decode([token], rows=1)[0].copy() for token in text[: max(widths, default=0)]]
        for width in widths:
            restore()
            if not np.array_equal(model.decode(text[:width], rows=width), narrow[:width]):
                return widest
            widest = width
    return widest
