"""Weights of a draft head: part of its target's file, or a file of their own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from models.base import Vocab
from models.heads.head_context import HeadContextOptions
from models.llama.screen import Screen


class LoadedHead:
    """A head in memory, shared by the answers that draft with it; freed when the last of them leaves."""

    def __init__(
        self,
        name: str,
        path: Path,
        weights: Any,
        vocab: Vocab,
        options: HeadContextOptions,
        *,
        description: str = "",
        layers: tuple[int, ...] = (),
        screen: Screen | None = None,
        free: Callable[[], None] | None = None,
    ) -> None:
        """Take loaded weights; `layers` are those of the target whose inputs it reads, none: its last hidden row.

        `screen` is closed with the head.
        """
        self.name = name
        self.path = path
        self.weights = weights
        self.vocab = vocab
        self.options = options
        self.description = description
        self.layers = layers
        self.screen = screen or Screen(None)
        self.users = 0
        self._free = free

    @property
    def starts_at_second(self) -> bool:
        """Whether the first token of a text, which has no row before it, is left out."""
        return not (self.options.is_mtp or self.options.shares_cache)

    def leave(self) -> None:
        """Take note that one user fewer is left; free the weights with the last."""
        self.users -= 1
        if self.users == 0:
            self.close()

    def close(self) -> None:
        """Free weights that are not the target's, and the screen; calling it twice is fine."""
        self.screen.close()
        if self._free is not None:
            self._free()
            self._free = None
