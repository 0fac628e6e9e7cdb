"""Store of corrections for later runs: for a project and a pair of models, in a private file of bounded size.

The file lies beside the project's texts, is written under their lock, and goes with them. What can't be read or written
costs the corrections, and a line in the log; it is never an error.
"""

import logging
from hashlib import sha256
from pathlib import Path

from drafters.history.file_format import Header, dump, from_tokens, parse, to_tokens
from drafters.history.store import (
    CORRECTIONS,
    LOCK,
    MOST_BYTES,
    Place,
    make_room,
    project_key,
    read_own,
    replace_own,
    tokenizer_key,
)
from drafters.online.corrections import Corrections
from models.base import Vocab
from models.system.file_lock import locked
from models.system.sealed import UntrustedError

_ENTRY = 5
"""Ids and counts of an entry."""
_log = logging.getLogger("localspec.drafters")


class CorrectionStore:
    """Corrections of one project and one pair of models. Nothing here raises for a file or a disk."""

    def __init__(self, place: Place | None, vocab: Vocab, pair: tuple[str, str]) -> None:
        """Take the names of target and draft model; without a place nothing is read and nothing kept."""
        self._place = place
        self._header = Header("" if place is None else str(place.project), tokenizer_key(vocab), " with ".join(pair))
        self.corrections = Corrections() if place is None else self._read(place)

    def keep(self) -> None:
        """Count what the answer has taught, and write the table if it changed: between answers, in milliseconds."""
        if not self.corrections.learn() or self._place is None:
            return
        try:
            self._write(self._place)
        except OSError as error:
            _log.warning("The corrections of the draft model are not kept: %s", error)

    def _write(self, place: Place) -> None:
        entries = [number for entry in self.corrections.entries() for number in entry]
        place.folder.mkdir(parents=True, exist_ok=True)
        # Each time: it may have come from a copy that lost its mode.
        place.folder.chmod(0o700)
        # The youngest entries are last.
        room = (MOST_BYTES - 4096) // 4 // _ENTRY * _ENTRY
        with locked(place.folder / LOCK):
            if not (path := self._path(place)).exists():
                make_room(place.folder, CORRECTIONS)
            replace_own(path, dump(self._header, [from_tokens(entries[-room:])]))

    def _path(self, place: Place) -> Path:
        pair = sha256(f"{self._header.tokenizer}\0{self._header.model}".encode(errors="replace")).hexdigest()[:16]
        return place.folder / f"{project_key(place.project)}-{pair}{CORRECTIONS}"

    def _read(self, place: Place) -> Corrections:
        try:
            header, texts, _ = parse(read_own(self._path(place), 2 * MOST_BYTES))
        except FileNotFoundError:
            return Corrections()
        except (UntrustedError, OSError) as error:
            _log.warning("Earlier corrections are not used: %s", error)
            return Corrections()
        if header is None or header.tokenizer != self._header.tokenizer or not texts:
            return Corrections()
        numbers = to_tokens(texts[0])
        whole = len(numbers) // _ENTRY * _ENTRY
        rows = [numbers[start : start + _ENTRY] for start in range(0, whole, _ENTRY)]
        return Corrections((row[0], row[1], row[2], row[3], row[4]) for row in rows if min(row) >= 0)
