r"""Files named in a message: "@src/main.py" sends what is in the file along with the question.

A mention begins a word: `@path`, `@"path with spaces"`, `@path:10-40` for some of its lines; `\@` is the sign itself.
Text in code blocks, in `code` and in verbatim parts has no mentions: decorators use the same sign.
"""

import os.path
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.chat_input.mentioned_file import Excerpt, mention, read_excerpt
from app.shell.safe_text import one_line
from models.errors import UsageError

__all__ = ["BEFORE", "Excerpt", "Expanded", "expand", "explicit", "mention"]

_LIMIT = 512 * 1024
"""Characters of all files of a message together; some 130,000 tokens, more than most contexts hold."""
BEFORE = r"""\s([{<"'\u2018\u201c\u201e\u00ab\uff08\u3010\u300a\u300c\u300e"""
"""Characters allowed before a mention, for a regular expression's class; typographic and East Asian signs too."""
_MENTION = re.compile(rf"""(?<![^{BEFORE}])(\\?)@(?:"([^"\n\0]{{1,4096}})"(:\d+(?:-\d+)?)?|([^\s\0]+))""")
_CODE = re.compile(r"^ {0,3}(`{3,}|~{3,})[^\n]*\n.*?(?:^ {0,3}\1|\Z)|(`+)[^`\n]+\2", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"(?P<path>.+):(?P<first>\d+)(?:-(?P<last>\d+))?")
_AFTER_A_PATH = (
    ".,;:!?)]}>'\"\u2026\u2019\u201d\u00bb\u3002\u3001\uff0c\uff1b\uff1a\uff01\uff1f\uff09\u3011\u300b\u300d\u300f"
)
_POSSESSIVE = re.compile("['\u2019]s$")
_MOST_AFTER = 3
_LONGEST_PATH = 4096
_NO_PATH = re.compile(r"[()<>=\"'`]")
"""In a word that is no file's name, they show that no path was meant: @app.get("/x")."""
_LOOKS_LIKE_PATH = re.compile(r"[/\\]|\w\.[A-Za-z]\w*$|^\.\w")


@dataclass(frozen=True, slots=True)
class Expanded:
    """A message with the files that it mentions."""

    text: str
    """Text to send: the message, then each file in a code block."""
    typed: str
    """Text to expand again with the same result, without verbatim parts."""
    files: tuple[Excerpt, ...] = ()
    """Files taken, in the order of the text."""


@dataclass(frozen=True, slots=True)
class _Mention:
    path: Path
    first: int | None = None
    last: int | None = None


def expand(text: str, folder: Path, verbatim: Sequence[str] = ()) -> Expanded:
    """Return a message with the content of every file it mentions; paths are seen from `folder`.

    Mentions inside one of the `verbatim` texts, such as pasted ones, are left alone. Raises UsageError for what looks
    like a path and is no file, and for a file that is binary, unreadable, or more than fits.
    """
    found = list(_MENTION.finditer(_without_code(text, verbatim)))
    wanted = [one for match in found if not match[1] and (one := _resolve(match, folder))]
    files = tuple(_read(wanted, folder))
    blocks = [_unescaped(text, found), *(_block(file) for file in files)]
    return Expanded("\n\n".join(blocks), explicit(text, folder, verbatim), files)


def explicit(text: str, folder: Path, verbatim: Sequence[str]) -> str:
    """Return a text with a backslash before what is a mention in it only while nothing is verbatim."""
    if not any(verbatim):
        return text
    meant = {match.start() for match in _MENTION.finditer(_without_code(text, verbatim))}
    others = (match for match in _MENTION.finditer(_without_code(text, ())) if match.start() not in meant)
    places = [match.start() for match in others if not match[1] and _is_meant(match, folder)]
    return "\\".join(text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True))


def _is_meant(match: re.Match[str], folder: Path) -> bool:
    try:
        return _resolve(match, folder) is not None
    except UsageError:
        return True


def _without_code(text: str, verbatim: Sequence[str]) -> str:
    """Return a text of the same length in which what is no prose is zeros."""
    for part in filter(None, verbatim):
        text = text.replace(part, "\0" * len(part))
    return _CODE.sub(lambda code: "\0" * len(code[0]), text)


def _unescaped(text: str, found: Sequence[re.Match[str]]) -> str:
    escapes = [match.start() for match in found if match[1]]
    starts = [0, *(place + 1 for place in escapes)]
    return "".join(text[start:end] for start, end in zip(starts, [*escapes, len(text)], strict=True))


def _resolve(match: re.Match[str], folder: Path) -> _Mention | None:
    """Return the file that a mention means, None for a word that only begins with the sign. Raises UsageError."""
    _, quoted, span, word = match.groups()
    if quoted is not None:
        return _file(quoted + (span or ""), folder) or _missing(quoted, folder)
    if len(word) > _LONGEST_PATH:
        return None
    for name in _names(word):
        if known := _file(name, folder):
            return known
    word = _POSSESSIVE.sub("", word.rstrip(_AFTER_A_PATH))
    if not _LOOKS_LIKE_PATH.search(_path_of(word)) or _NO_PATH.search(word):
        return None
    return _missing(_path_of(word), folder)


def _names(word: str) -> Iterator[str]:
    """Yield what may be a path of a word: all of it, then less and less of what a sentence puts after a name."""
    for cut in range(_MOST_AFTER + 1):
        name = word[: len(word) - cut]
        yield name
        yield from [name[:-2]] * bool(_POSSESSIVE.search(name))
        if name[-1:] not in _AFTER_A_PATH:
            return


def _path_of(word: str) -> str:
    span = _SPAN.fullmatch(word)
    return span["path"] if span else word


def _file(word: str, folder: Path) -> _Mention | None:
    """Return what is there under a path, or under the path before a range of lines."""
    if (path := _place(word, folder)) is not None:
        return _Mention(path)
    span = _SPAN.fullmatch(word)
    if span is None or (path := _place(span["path"], folder)) is None:
        return None
    first = int(span["first"])
    return _Mention(path, first, int(span["last"] or first))


def _place(word: str, folder: Path) -> Path | None:
    try:
        path = folder / _from_home(Path(word))
        path.lstat()
        # A bare word such as @tests is more often a user name than a folder.
        return None if path.is_dir() and not _LOOKS_LIKE_PATH.search(word) else path
    except PermissionError:
        return path
    except (OSError, ValueError):  # a word too long for a name, a NUL in it
        return None


def _from_home(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:
        # No user's home: names of backups and of locks begin so, too.
        return path


def _missing(name: str, folder: Path) -> _Mention:
    raise UsageError(
        f"There is no file {one_line(name)}.",
        cause=f"Looked for it in {one_line(str(folder))}.",
        hint=r"Fix the path after @, or write \@ for a literal @.",
    )


def _read(wanted: Sequence[_Mention], folder: Path) -> Iterator[Excerpt]:
    whole = {os.path.realpath(one.path) for one in wanted if one.first is None}
    taken: set[tuple[str, int | None, int | None]] = set()
    left = _LIMIT
    for one in wanted:
        key = (os.path.realpath(one.path), one.first, one.last)
        if key in taken or (one.first is not None and key[0] in whole):
            continue
        taken.add(key)
        file = read_excerpt(one.path, _name(one.path, folder), one.first, one.last, left)
        left -= file.characters
        yield file


def _name(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.as_posix()


def _block(file: Excerpt) -> str:
    """Return a file as a code block under its path; its fence is longer than any in the file."""
    longest = max((len(run) for run in re.findall("`{3,}", file.text)), default=2)
    fence = "`" * (longest + 1)
    language = Path(file.name).suffix.removeprefix(".")
    opening = fence + (language if language.isalnum() else "")
    return f"{file.title}:\n{opening}\n{file.text}{'' if file.text.endswith(chr(10)) else chr(10)}{fence}"
