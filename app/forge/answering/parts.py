"""Answers of a target on disk, in parts: each is whole or not there, whenever the program ends."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.forge.answering.answers import Answer

HELD = 32
"""Every so-manieth answer is never learnt from: how often a trained drafter is right is measured on them."""
_ROWS, _REST = "rows", "answers"
_HEADER = 128
"""Bytes of a file of rows that holds no number."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An answer of a stored part; its rows are read from disk when they are used."""

    part: int
    start: int
    """Place of its first token in the part."""
    length: int
    asked: int


class Parts:
    """The parts in one folder. One process writes at a time."""

    def __init__(self, folder: Path) -> None:
        """Take the folder, which may be missing; raises OSError for one that can't be read."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob("*.partial"):
            left.unlink(missing_ok=True)
        self._rest: list[dict[str, NDArray[Any]]] = []
        self._rows: list[NDArray[np.float16]] = []
        self.answers: list[Stored] = []
        while self._path(len(self._rest), _REST).exists():
            self._open(len(self._rest))

    @property
    def tokens(self) -> int:
        """Tokens of all parts, of prompts too."""
        return sum(answer.length for answer in self.answers)

    @property
    def asked(self) -> int:
        """Prompts that were asked so far."""
        return len(self.answers)

    def add(self, answers: Sequence[Answer]) -> None:
        """Write answers as one part; raises OSError, and then nothing of it is left."""
        number = len(self._rest)
        lengths = np.array([len(answer.tokens) for answer in answers], np.int32)
        _write(self._path(number, _ROWS), np.concatenate([answer.rows for answer in answers]))
        # The part counts once this file is there.
        _write(
            self._path(number, _REST),
            {
                "lengths": lengths,
                "asked": np.array([answer.asked for answer in answers], np.int32),
                "tokens": np.concatenate([answer.tokens for answer in answers]),
                "likely": np.concatenate([answer.likely for answer in answers]),
                "logits": np.concatenate([answer.logits for answer in answers]),
            },
        )
        self._open(number)

    def read(self, answer: Stored) -> Answer:
        """Return an answer with its rows."""
        rest, place = self._rest[answer.part], slice(answer.start, answer.start + answer.length)
        rows = np.asarray(self._rows[answer.part][place])
        return Answer(rest["tokens"][place], answer.asked, rows, rest["likely"][place], rest["logits"][place])

    def drawn(self) -> Iterator[NDArray[np.int32]]:
        """Yield the likeliest token of each place of the answers, by part."""
        for rest in self._rest:
            likely = rest["likely"][:, 0]
            yield likely[likely >= 0]

    def _open(self, number: int) -> None:
        with np.load(self._path(number, _REST)) as file:
            rest = {name: file[name] for name in file.files}
        self._rest.append(rest)
        rows = self._path(number, _ROWS)
        # Rows of no numbers can't be mapped.
        self._rows.append(np.load(rows, mmap_mode="r" if rows.stat().st_size > _HEADER else None))
        starts = np.concatenate(([0], np.cumsum(rest["lengths"])[:-1]))
        for start, length, asked in zip(starts, rest["lengths"], rest["asked"], strict=True):
            self.answers.append(Stored(number, int(start), int(length), int(asked)))

    def _path(self, number: int, what: str) -> Path:
        return self.folder / f"{what}-{number:05}.{'npy' if what == _ROWS else 'npz'}"


def _write(path: Path, content: NDArray[Any] | dict[str, NDArray[Any]]) -> None:
    """Write arrays in place of a file, or leave it as it was; raises OSError."""
    partial = path.with_suffix(".partial")
    try:
        with partial.open("wb") as file:
            if isinstance(content, dict):
                np.savez(file, allow_pickle=False, **content)
            else:
                np.save(file, content, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
