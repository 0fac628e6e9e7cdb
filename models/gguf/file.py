"""Checks of a model file before llama.cpp opens it: whether it exists, and whether it is a GGUF."""

import errno
import re
import shlex
from pathlib import Path

from models.errors import FormatError, ModelFileError
from models.system.bounded_read import UnfitFile, open_regular

MAGIC = b"GGUF"
"""First bytes of every such file."""
_SHORTEST = 24
"""Bytes of the fixed header: magic, version, tensor count, metadata count."""
_PART = re.compile(r"(?P<stem>.+)-(?P<part>\d{5})-of-(?P<parts>\d{5})\.gguf")
_IN_HUB = re.compile(r"/models--(?P<owner>[^/]+?)--(?P<name>[^/]+)/snapshots/[^/]+/(?P<file>.+)")
"""The path of a file in the hub's cache."""
_MOST_PARTS = 1000
_COUNT_KEY = b"\x0b\0\0\0\0\0\0\0split.count"
"""The key of the number of parts, as a header has it after its length."""
_ARCHITECTURE_KEY = b"general.architecture"
_SEARCHED = 32 << 20
"""Bytes in which it is looked for; the longest vocabularies before it take half of that."""
_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})


def check_file(path: Path) -> None:
    """Raise ModelFileError unless the file exists, can be read and starts like a GGUF, and no part of it is missing."""
    head = _head(path)
    if not head:
        raise ModelFileError(f"{path.name} is empty.", hint="Fetch it again.")
    if head[:4] != MAGIC:
        raise FormatError(
            f"{path.name} is not a GGUF file: it starts with {head[:4]!r}, not {MAGIC!r}.",
            hint="localspec runs GGUF models; other formats have to be converted first.",
        )
    if len(head) < _SHORTEST:
        raise ModelFileError(f"{path.name} is cut short: {len(head)} bytes.", hint="Fetch it again.")
    # Only a part has others: a whole file may be named like one.
    missing = next((part for part in parts_of(path) if not is_there(part)), None)
    if missing is not None:
        raise ModelFileError(f"{missing.name} is missing: {path.name} is only one part.", hint=_way_to_part(path))


def _way_to_part(path: Path) -> str:
    """Return how a part of a model comes to the others: files in the hub's cache are never placed by hand."""
    match = _IN_HUB.search(path.as_posix())
    if match is None:
        return f"Put it beside {path}."
    name = f"hf://{match['owner']}/{match['name']}/{match['file']}"
    return f"`localspec models pull {shlex.quote(name)}` fetches it."


def _head(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise ModelFileError(f"{path} is a folder, not a model.", hint="Name the .gguf file inside it.")
        with open_regular(path) as file:
            return file.read(_SHORTEST)
    except UnfitFile as error:
        raise ModelFileError(f"{path} is no model.", cause=f"{error.strerror}.", hint="Name a .gguf file.") from error
    except OSError as error:
        if error.errno in _NOT_THERE:
            hint = "Check the path; `localspec models ls` shows the models that are here, and how to name them."
            if len(path.parts) == 2 and not path.is_absolute() and path.suffix != ".gguf":
                hint += f" If it is a model of the hub, `localspec models pull {path.as_posix()}` fetches it."
            raise ModelFileError(f"There is no file {path}.", hint=hint) from None
        raise ModelFileError(f"{path} can't be read.", cause=str(error), hint="Check its permissions.") from error


def is_there(path: Path) -> bool:
    """Return whether a file can be seen; a name that is too long, or a folder that is closed, is no error here."""
    try:
        return path.exists()
    except OSError:
        return False


def first_part(path: Path) -> Path:
    """Return the first file of a split model when another part of it is named, and any other path as it is."""
    match = _PART.fullmatch(path.name)
    if match is None or int(match["part"]) == 1:
        return path
    first = path.with_name(f"{match['stem']}-00001-of-{match['parts']}.gguf")
    return path if not is_there(first) and is_whole(path) else first


def is_later_part(path: Path) -> bool:
    """Return, by its name, whether a file is a part of a split model, and not the first."""
    return first_part(path) != path


def is_whole(path: Path) -> bool:
    """Return whether a model's file is none of several parts, by its header; False for what can't be read."""
    try:
        with open_regular(path) as file:
            head = file.read(_SEARCHED)
    except OSError:
        return False
    place = head.find(_COUNT_KEY)
    if not head.startswith(MAGIC) or place < 0:
        # A part that lost the key names no architecture either.
        return head.startswith(MAGIC) and _ARCHITECTURE_KEY in head
    # A type, then a number whose low bytes come first.
    value = head[place + len(_COUNT_KEY) + 4 :][:2]
    return int.from_bytes(value, "little") <= 1


def parts_of(path: Path) -> list[Path]:
    """Return all files of the model that a file is a part of; of an unsplit one itself, whatever its name."""
    names = part_names(path)
    return [path] if len(names) > 1 and is_whole(path) else names


def part_names(path: Path) -> list[Path]:
    """Return the names of all files of the model that a file is a part of, as its own name says."""
    match = _PART.fullmatch(path.name)
    count = int(match["parts"]) if match else 1
    if match is None or not 1 < count <= _MOST_PARTS:
        return [path]
    return [path.with_name(f"{match['stem']}-{part:05}-of-{match['parts']}.gguf") for part in range(1, count + 1)]
