"""Texts of earlier runs, as tests of the drafter's memory write and read them."""

from collections.abc import Sequence
from pathlib import Path

from drafters.history.store import MOST_BYTES, Place, TextMemory
from models.toy import ToyVocab


class Vocab(ToyVocab):
    """A vocabulary large enough for long texts of ids that differ."""

    def __init__(self, size: int = 50_000, kind: str = "bpe", spell: str = "token") -> None:
        super().__init__()
        self.size, self.kind, self._spell = size, kind, spell

    def text(self, token: int) -> str:
        return f"{self._spell} {token}"


VOCAB = Vocab()


def memory(place: Place, vocab: Vocab = VOCAB, most_bytes: int = MOST_BYTES) -> TextMemory:
    return TextMemory(place, vocab, "big", most_bytes)


def text(start: int, length: int = 20) -> list[int]:
    return list(range(start, start + length))


def file(place: Place) -> Path:
    (path,) = place.folder.glob("*.texts")
    return path


def kept(place: Place, *texts: Sequence[int]) -> list[list[int]]:
    """Keep texts, each by a process of its own, and return what another one finds."""
    for tokens in texts:
        memory(place).keep(tokens, 0)
    return memory(place).texts()
