"""Store of a project's answers for later runs: token ids in a private file of bounded size.

A project and a tokenizer have a file, and every write makes a new one that takes its place under a lock: a reader sees
the old or the new whole, a writer that is killed leaves the old, and two of them lose nothing. What can't be read or
written costs the memory, and a line in the log; it is never an error.

The oldest text goes first. What was copied from an old text is part of the answer that copied it, so what is of use
stays as long as it is used, with no counting.
"""

import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from drafters.history.file_format import (
    TOKEN_BYTES,
    Header,
    dump,
    dump_header,
    from_tokens,
    parse,
    stored_bytes,
    to_tokens,
)
from models.base import Vocab, common_prefix
from models.system.file_lock import locked
from models.system.sealed import UntrustedError, open_trusted, remove_sealed

MOST_BYTES = 128 << 10
"""Most bytes of a file: 32 thousand tokens, which the suffix index takes in .15 seconds at start."""
MOST_FILES = 64
"""Most files in a folder; the one unchanged for longest goes first."""
_SHORTEST_ANSWER = 8
"""Tokens of an answer from which on it is worth keeping."""
_LEAST_BEFORE, _MOST_BEFORE = 32, 128
"""Tokens kept before an answer: enough to know its place again, and little of a file that was pasted.

On 90 recorded answers a memory of the same question was worth as much with 128 as with all of the prompt (1.87 of plain
decoding), a little less with 32, and 1.77 with none.
"""
_ENDING, _PARTIAL = ".texts", ".partial"
CORRECTIONS = ".online"
"""End of the name of a file with corrections of a draft model, see `drafters.online.store`."""
LOCK = "lock"
"""Name of the file that is locked while another file of a folder changes."""
_log = logging.getLogger("localspec.drafters")


@dataclass(frozen=True, slots=True)
class Place:
    """File of a project's texts."""

    folder: Path
    """Folder of all memories; made when something is kept."""
    project: Path


@dataclass(frozen=True, slots=True)
class Account:
    """Contents of one file, in numbers."""

    path: Path
    header: Header | None
    """None: the file is damaged."""
    texts: int
    tokens: int
    size: int
    """Bytes of the file."""
    changed: float
    """Seconds since 1970."""
    corrections: bool = False
    """Whether it holds corrections of a draft model, and no texts."""


def tokenizer_key(vocab: Vocab) -> str:
    """Return a name for a tokenizer: it is made from a sample of some 4,000 tokens."""
    step = max(1, vocab.size // 4096)
    # Fine-tuned relatives differ at the end, in tokens of their own.
    looked_at = sorted({*range(0, vocab.size, step), *range(max(0, vocab.size - 64), vocab.size)})
    spellings = [vocab.kind, str(vocab.size), str(vocab.bos), *(vocab.text(token) for token in looked_at)]
    return sha256("\0".join(spellings).encode("utf-8", errors="replace")).hexdigest()[:16]


class TextMemory:
    """The texts of one project and one tokenizer. Nothing here raises for a file or a disk."""

    def __init__(self, place: Place, vocab: Vocab, model: str, most_bytes: int = MOST_BYTES) -> None:
        """Take the model's name only to show the user which model's tokens these are."""
        self._header = Header(str(place.project), tokenizer_key(vocab), model)
        self._folder = place.folder
        self._path = place.folder / f"{project_key(place.project)}-{self._header.tokenizer}{_ENDING}"
        self._vocab_size = vocab.size
        self._most_bytes = most_bytes
        self._last: Sequence[int] = ()

    def texts(self) -> list[list[int]]:
        """Return the texts, oldest first; those whose ids the vocabulary lacks are left out."""
        try:
            texts = [to_tokens(text) for text in self._read()]
        except OSError as error:
            _log.warning("Earlier text is not used: %s", error)
            return []
        return [text for text in texts if min(text) >= 0 and max(text) < self._vocab_size]

    def keep(self, tokens: Sequence[int], answer_start: int) -> None:
        """Keep the end of a conversation, its answer beginning at `answer_start`, as far as it is not kept yet."""
        if len(tokens) - answer_start < _SHORTEST_ANSWER:
            return
        known = common_prefix(self._last, tokens)
        start = min(max(known, answer_start - _MOST_BEFORE), max(0, answer_start - _LEAST_BEFORE))
        try:
            self._add(tokens[start:])
            self._last = list(tokens)
        except OSError as error:
            _log.warning("This text is not remembered: %s", error)

    def _add(self, tokens: Sequence[int]) -> None:
        room = self._most_bytes - len(dump_header(self._header))
        text = from_tokens(tokens[-max(1, room // TOKEN_BYTES - 2) :])
        self._folder.mkdir(parents=True, exist_ok=True)
        # Each time: it may have come from a copy that lost its mode.
        self._folder.chmod(0o700)
        with locked(self._folder / LOCK):
            # Said again, a text is young again, and stored once.
            texts = [*(old for old in self._read() if old != text), text]
            if not self._path.exists():
                make_room(self._folder, _ENDING)
            replace_own(self._path, dump(self._header, _latest(texts, room)))

    def _read(self) -> list[bytes]:
        """Return the texts; raises OSError."""
        try:
            header, texts, rest = parse(read_own(self._path, 2 * self._most_bytes))
        except FileNotFoundError:
            return []
        except UntrustedError as error:
            _log.warning("%s is left out, and written anew: %s", self._path, error)
            return []
        if rest:
            _log.warning("%s is damaged: %d bytes are left out", self._path, rest)
        return texts if header and header.tokenizer == self._header.tokenizer else []


def accounts(folder: Path) -> list[Account]:
    """Return what each file of a folder remembers, the latest first; raises OSError when it can't be read."""
    found = [_account(path) for ending in (_ENDING, CORRECTIONS) for path in folder.glob(f"*{ending}")]
    return sorted(found, key=lambda account: -account.changed)


def forget(folder: Path, project: Path | None) -> list[Account]:
    """Remove the files of a project, or of all; return what they held. Raises OSError when one can't be removed."""
    if not folder.is_dir():
        return []
    key = "" if project is None else f"{project_key(project)}-"
    with locked(folder / LOCK):
        gone = [account for account in accounts(folder) if account.path.name.startswith(key)]
        for path in (*(account.path for account in gone), *folder.glob(f"{key}*{_PARTIAL}")):
            remove_sealed(path)
    return gone


def project_key(project: Path) -> str:
    """Return the beginning of the names of a project's files."""
    return sha256(os.fsencode(project)).hexdigest()[:16]


def _account(path: Path) -> Account:
    status = path.lstat()
    try:
        header, texts, _ = parse(read_own(path, 2 * MOST_BYTES))
    except (UntrustedError, OSError):
        header, texts = None, []
    if path.suffix == CORRECTIONS:
        return Account(path, header, 0, 0, status.st_size, status.st_mtime, corrections=True)
    tokens = sum(len(text) for text in texts) // TOKEN_BYTES
    return Account(path, header, len(texts), tokens, status.st_size, status.st_mtime)


def _latest(texts: Sequence[bytes], room: int) -> Iterable[bytes]:
    """Return the latest texts that fit in so many bytes, oldest first."""
    start = len(texts)
    while start and (room := room - stored_bytes(texts[start - 1])) >= 0:
        start -= 1
    return texts[start:]


def make_room(folder: Path, ending: str) -> None:
    """Remove the files with a name's end that are unchanged for longest, so that one more is not too many."""
    files = sorted(folder.glob(f"*{ending}"), key=lambda path: path.lstat().st_mtime)
    for path in files[: max(0, len(files) - MOST_FILES + 1)]:
        remove_sealed(path)


def read_own(path: Path, most: int) -> bytes:
    """Return the first bytes of a plain file of this user; raises UntrustedError and OSError."""
    with os.fdopen(open_trusted(path), "rb") as file:
        return file.read(most)


def replace_own(path: Path, data: bytes) -> None:
    """Replace a file, readable by its owner alone; the caller holds the lock."""
    partial = path.with_suffix(_PARTIAL)
    # One name for all: what a killed process left behind goes with the next. It is not written: it may be a link.
    remove_sealed(partial)
    if path.is_dir() and not path.is_symlink():
        remove_sealed(path)
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
