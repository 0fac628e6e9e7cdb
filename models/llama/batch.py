"""Batch of one llama.cpp pass: tokens, their positions, and the sequences of the cache that they belong to.

A cache of several texts has a sequence for each. In that of one, sequence 0, there can be guests, for one pass each:
the branches of a draft, which share the text's cells, and padding, which no token attends to. A token attends to the
cells of the first sequence it is in.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.errors import LocalspecError
from models.llama.bindings import llama_cpp
from models.tree import Tree

TEXT, _PADDING, _FIRST_BRANCH = 0, 1, 2
GUEST = _PADDING
"""Sequence that is free between two passes."""
MAX_BRANCHES = 8
"""Branches in one pass: each makes a copy of what the cache knows about every token of the text."""
SEQUENCES = _FIRST_BRANCH + MAX_BRANCHES


def padding(tokens: int, rows: int, multiple: int) -> tuple[int, int]:
    """Return (pads, pads with a row) after which tokens and rows are both multiples: the last layer sees rows alone."""
    pads, wanted = -tokens % multiple, -rows % multiple
    return (pads if pads >= wanted else pads + multiple), wanted


class Batch:
    """llama.cpp's batch of at most `size` tokens, over arrays that are filled anew for each pass."""

    def __init__(self, size: int, width: int = 0, *, has_tokens: bool = True, sections: int = 1) -> None:
        """Make room for `size` tokens, with hidden rows of `width` numbers for a draft head; 0: without.

        Without tokens a pass consists of hidden rows alone; each then has a position for each of `sections`.
        """
        self._tokens = np.zeros(size, np.int32)
        self._positions = np.zeros(sections * size, np.int32)
        self._wanted = np.zeros(size, np.int8)
        self._counts = np.ones(size, np.int32)
        self._sequences = np.full((size, SEQUENCES), TEXT, np.int32)
        # llama.cpp wants one pointer a token.
        self._lists = self._sequences.ctypes.data + np.arange(size, dtype=np.uintp) * self._sequences.strides[0]
        self.hidden = np.zeros((size, width), np.float32)
        """Hidden row of each token, which a head reads beside it; shape (size, width)."""
        self.struct: Any = llama_cpp().llama_batch()
        if width:
            self.struct.embd = self.hidden.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        if has_tokens:
            self.struct.token = self._tokens.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
        self.struct.pos = self._positions.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
        self.struct.logits = self._wanted.ctypes.data_as(ctypes.POINTER(ctypes.c_int8))
        self.struct.n_seq_id = self._counts.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
        self.struct.seq_id = self._lists.ctypes.data_as(ctypes.POINTER(ctypes.POINTER(ctypes.c_int32)))

    @property
    def wanted(self) -> NDArray[np.int8]:
        """For each token of the pass, 1 if it gets a row of logits, else 0; shape (tokens,)."""
        return self._wanted[: self.struct.n_tokens]

    def clear(self) -> None:
        """Begin a pass."""
        self.struct.n_tokens = 0

    def add(self, tokens: Sequence[int], start: int, rows: int, sequence: int) -> None:
        """Take the next tokens of a text, from position `start` on; the last `rows` of them get a row."""
        first, count = self.struct.n_tokens, len(tokens)
        end = first + count
        self._tokens[first:end] = tokens
        self._positions[first:end] = np.arange(start, start + count)
        self._wanted[first:end] = 0
        self._wanted[end - rows : end] = 1
        self._counts[first:end] = 1
        self._sequences[first:end, 0] = sequence
        self.struct.n_tokens = end

    def repeat_positions(self) -> None:
        """Give all sections of hidden rows the positions of the first, but 0 to the last, as text has them."""
        count = self.struct.n_tokens
        sections = len(self._positions) // len(self._tokens)
        for section in range(1, sections):
            last = section == sections - 1
            self._positions[section * count : (section + 1) * count] = 0 if last else self._positions[:count]

    def grow(self, tree: Tree) -> None:
        """Make the last tokens a tree: positions by depth, and each branch a sequence of its own."""
        count = self.struct.n_tokens
        first = count - len(tree.parents)
        self._positions[first:count] = self._positions[first - 1] + 1 + np.array(tree.depths)
        every = [TEXT, *range(_FIRST_BRANCH, _FIRST_BRANCH + len(tree.leaves))]
        for place in range(first):
            self._belongs(place, every)
        for node, branches in enumerate(tree.branches_through()):
            own = [TEXT] if node < tree.chain else []
            self._belongs(first + node, own + [_FIRST_BRANCH + branch for branch in branches])

    def pad(self, pads: int, wanted: int) -> None:
        """Append tokens that no other token attends to, the last `wanted` of them with a row."""
        self.add([0] * pads, 0, wanted, _PADDING)

    def _belongs(self, place: int, sequences: Sequence[int]) -> None:
        self._counts[place] = len(sequences)
        self._sequences[place, : len(sequences)] = sequences


class Guests:
    """Sequences in the cache of a context beside the text; its memory must be one that can share cells."""

    def __init__(self, context: Any) -> None:
        self._api = llama_cpp()
        self._context = context
        self._memory = self._api.llama_get_memory(context)

    def let_in(self, branches: int) -> None:
        """Let each branch see the whole text."""
        for branch in range(branches):
            self._api.llama_memory_seq_cp(self._memory, TEXT, _FIRST_BRANCH + branch, -1, -1)

    def turn_out(self, branches: int) -> None:
        """Take padding and so many branches out of the cache; cells of the text stay."""
        for guest in range(_PADDING, _FIRST_BRANCH + branches):
            self._api.llama_memory_seq_rm(self._memory, guest, -1, -1)

    def copy_text(self, length: int, cells: int) -> None:
        """Put copies of the text's first tokens beside it, at the same positions, until they take so many cells."""
        size = self._api.llama_state_seq_get_size(self._context, TEXT)
        state = (ctypes.c_uint8 * size)()
        self._api.llama_state_seq_get_data(self._context, state, size, TEXT)
        while cells > 0:
            if not self._api.llama_state_seq_set_data(self._context, state, size, _PADDING):
                raise LocalspecError("llama.cpp refused to copy what its cache holds.")
            # The part of a copy comes first: for a moment it is a whole one, and in the end there is no room for that.
            taken = cells % length or length
            self._api.llama_memory_seq_cp(self._memory, _PADDING, TEXT, 0, taken)
            self.turn_out(0)
            cells -= taken
