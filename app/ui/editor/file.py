r"""A text file in the editor: read, edited, and saved with unchanged parts identical to the byte.

The editor knows lines that end in "\n" alone, and nothing that a terminal would obey: a control character is shown as
a sign, and is itself again in the file.
"""

import codecs
import os
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.complete.place import NAMED
from app.shell.text_encoding import convert_hint, decoded, encoding_of
from app.ui.editor.writing import write_whole
from models.errors import LocalspecError, UsageError
from models.system.bounded_read import read_regular

LARGEST = 32 << 20
"""Bytes of a file that can be edited: a key costs the same in each, but all of it is in memory, and written."""
LONGEST_LINE = 20_000
"""Characters of a line that can still be drawn without waiting after each key."""
_FAR = 1 << 30
"""A column that no line has."""
_JOINERS = "\u200c\u200d"
"""Of no width, but words and emoji fall apart without them; terminals leave them in peace."""


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file, the text in it for the editor, and what that text leaves out."""

    path: Path
    text: str
    r"""With lines that end in "\n", and signs for control characters."""
    line_end: str = "\n"
    bom: bool = False
    signs: Mapping[str, str] = field(default_factory=dict)
    """Display sign of each control character in the file."""
    known: bytes | None = None
    """Bytes last read from or written to the disk; None: the file does not exist."""
    is_protected: bool = False
    """Whether it was read-only when it was read."""

    @property
    def data(self) -> bytes:
        """The text as it is written."""
        text = _exchanged(self.text, {sign: control for control, sign in self.signs.items()})
        return codecs.BOM_UTF8 * self.bom + text.replace("\n", self.line_end).encode()

    def taking_in(self, text: str, lines: Sequence[str]) -> tuple["TextFile", str]:
        """Return a text from elsewhere in signs, to be put among lines of the editor, and the file that knows them.

        A control character stays where its sign is a character of the lines, or of that text. A sign that the file
        uses is that control character: what is copied here, and what the model copies, comes in signs.
        """
        # With a NUL in it the file would be binary, and no more opened.
        new = {one: _sign(one) for one in set(text) - {"\0", *self.signs} if _is_control(one)}
        if not new:
            return self, _exchanged(text, self.signs)
        whole = "\n".join((*lines, text))
        signs = {**self.signs, **{one: sign for one, sign in new.items() if sign not in whole}}
        return replace(self, signs=signs), _exchanged(text, signs)

    def save(self, text: str, *, over_changes: bool = False, over_protection: bool = False) -> "TextFile":
        """Write a text and return the file as it is then; raises LocalspecError if it fails.

        Raises ProtectedError for a read-only file and ChangedOnDiskError for one that another program changed, unless
        `over_protection` or `over_changes` allows it.
        """
        changed = replace(self, text=text)
        data = changed.data
        if not over_protection and _is_protected(self.path):
            raise ProtectedError(self.path)
        if not over_changes:
            _check_unchanged(self.path, (self.known, data))
        write_whole(self.path, data)
        return replace(changed, known=data)


class ChangedOnDiskError(LocalspecError):
    """The file is not what it was when it was read; `save` was not asked to write over that."""

    happened = "was changed by another program since it was read"

    def __init__(self, path: Path) -> None:
        """Take the file."""
        super().__init__(f"{path.name} {self.happened}.")


class VanishedError(ChangedOnDiskError):
    """The file is not there any more; `save` was not asked to make it anew."""

    happened = "is gone: another program moved or deleted it"


class ProtectedError(LocalspecError):
    """The file is read-only; `save` was not asked to write all the same."""

    def __init__(self, path: Path) -> None:
        """Take the file."""
        super().__init__(f"{path.name} is read-only.")


def open_file(path: Path) -> TextFile:
    """Read a file to edit it; one that is not there yet is empty. Raises LocalspecError for what is no text."""
    size = _size(path)
    if size is None:
        if not path.absolute().parent.is_dir():
            raise UsageError(f"{path} can't be created: its folder does not exist.", hint=f"mkdir -p {path.parent}")
        return TextFile(path, "")
    if size > LARGEST:
        raise _refused(path, f"it has {size:,} bytes; the limit is {LARGEST:,}")
    return replace(_read(path, _contents(path)), is_protected=_is_protected(path))


def parse_place(named: str) -> tuple[Path, int, int]:
    """Return a file, a line and a column, both from 0, of FILE, FILE:LINE or FILE:LINE:COLUMN, counted from 1.

    Without a column it is the end of the line: there is more to propose than at its beginning.
    """
    found = NAMED.fullmatch(named)
    if found is None or _is_there(Path(named)):
        return Path(named), 0, 0
    name, line, column = found.groups()
    return Path(name), max(0, int(line) - 1), max(0, int(column) - 1) if column else _FAR


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False  # name too long, or folder not readable: opening the file reports that


def _read(path: Path, data: bytes) -> TextFile:
    bom = data.startswith(codecs.BOM_UTF8)
    text = _decoded(path, data)
    line_end = "\r\n" if 0 < text.count("\n") == text.count("\r\n") else "\n"
    # Where both are used, a carriage return is a character like any other.
    lines = text.replace("\r\n", "\n") if line_end == "\r\n" else text
    if (longest := max(map(len, lines.split("\n")))) > LONGEST_LINE:
        raise _refused(path, f"a line has {longest:,} characters; the limit is {LONGEST_LINE:,}")
    signs = _signs(path, lines)
    return TextFile(path, _exchanged(lines, signs), line_end, bom, signs, data)


def _exchanged(text: str, characters: Mapping[str, str]) -> str:
    """Return a text with other characters in place of some."""
    # An empty table is looked into at each character as well.
    return text.translate({ord(one): other for one, other in characters.items()}) if characters else text


def _decoded(path: Path, data: bytes) -> str:
    # Another encoding would have to be written back: a file must stay in the one that it has.
    if (encoding := encoding_of(data)) != "UTF-8":
        raise _refused(path, f"it is {encoding}", convert_hint(encoding))
    try:
        return decoded(data, "it", strict=True)
    except UsageError as error:
        raise _refused(
            path, f"{error.title[:-1]} ({error.cause[:1].lower()}{error.cause[1:-1]})", error.hint
        ) from error


def _signs(path: Path, text: str) -> Mapping[str, str]:
    used = set(text)
    signs = {one: _sign(one) for one in used if _is_control(one)}
    if taken := used & set(signs.values()):
        raise _refused(path, f"it has both a control character and the sign that displays it, {taken.pop()}")
    return signs


def _is_control(character: str) -> bool:
    kind = unicodedata.category(character)
    return kind in ("Cc", "Cf", "Zl", "Zp") and character not in "\n\t" + _JOINERS


def _sign(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\N{SYMBOL FOR DELETE}"
    # A private character each: a terminal draws it as a box, and it stands for one thing only. In a single private
    # plane the letters of flags, from beyond the first 65,536 characters, would fall on the C1 controls.
    return chr((0xF0000 if code < 0x10000 else 0x100000) + code % 0xFFFE)


def _check_unchanged(path: Path, known: Sequence[bytes | None]) -> None:
    """Raise VanishedError or ChangedOnDiskError where a file has something else than what is known."""
    size = _size(path)
    if size is None and None not in known:
        raise VanishedError(path)
    # The size alone shows a change of a file that is too large to read.
    is_known = size in [None if one is None else len(one) for one in known]
    if not is_known or (size is not None and _contents(path) not in known):
        raise ChangedOnDiskError(path)


def _size(path: Path) -> int | None:
    """Return how many bytes a file has; None where there is none."""
    with _reading(path):
        if not path.exists():
            return None
        if not path.is_file():
            raise _refused(path, "it is a folder" if path.is_dir() else "it is not a file")
        return path.stat().st_size


def _contents(path: Path) -> bytes:
    with _reading(path):
        # What grew beyond the limit while it was edited can still be saved.
        return read_regular(path, 4 * LARGEST)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LocalspecError(f"{path} can't be read.", cause=f"{error.strerror}.", hint="Check the path.") from error


def _is_protected(path: Path) -> bool:
    """Return whether a file has no write permission, or none for this user; root is asked before writing too."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False  # missing, or unreadable, which reading it reports
    return not mode & 0o222 or not os.access(path, os.W_OK)


def _refused(path: Path, reason: str, hint: str = "Use another editor for it.") -> LocalspecError:
    return LocalspecError(f"{path.name} can't be edited here: {reason}.", hint=hint)
