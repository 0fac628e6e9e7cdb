"""Decoding of files and pipes into text, with errors that name the encoding and the byte.

Owns which encodings are read: UTF-8, and UTF-16 and UTF-32 with a byte order mark. How many bytes are read is decided
elsewhere. Line ends stay as they are.
"""

import codecs

from models.errors import UsageError

# UTF-32 first: its mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "UTF-8", "utf-8"),
    (codecs.BOM_UTF32_LE, "UTF-32LE", "utf-32-le"),
    (codecs.BOM_UTF32_BE, "UTF-32BE", "utf-32-be"),
    (codecs.BOM_UTF16_LE, "UTF-16LE", "utf-16-le"),
    (codecs.BOM_UTF16_BE, "UTF-16BE", "utf-16-be"),
)
_LOOKED_AT = 4096
"""Bytes read to detect UTF-16 and UTF-32 without a byte order mark."""
_MOSTLY = 0.7
"""Share of NULs at one place of a unit that tells so: letters of most languages of Europe have them there."""


def decoded(data: bytes, name: str, *, strict: bool = False) -> str:
    """Return the text of some bytes without a byte order mark; raises UsageError with the `name` for what is none.

    Bytes that are no UTF-8 are replaced or, if `strict`, refused. Bytes with NULs are refused in any case.
    """
    encoding, codec, body = _marked(data)
    if codec == "utf-8" and b"\0" in body:
        raise _with_nul(body, name)
    try:
        return body.decode(codec, errors="strict" if strict or codec != "utf-8" else "replace")
    except UnicodeDecodeError as error:
        raise _not_in(encoding, error, len(data) - len(body), name) from error


def without_returns(text: str) -> str:
    r"""Return a text whose lines all end with \n, as models write them; old files end them with \r alone."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def encoding_of(data: bytes) -> str:
    """Return the encoding that a byte order mark names; UTF-8 where there is none."""
    return _marked(data)[0]


def convert_hint(encoding: str = "ISO-8859-1") -> str:
    """Return how to make UTF-8 of a file."""
    return f"Save it as UTF-8 in an editor, or: iconv -f {encoding} -t UTF-8 FILE > NEW"


def _marked(data: bytes) -> tuple[str, str, bytes]:
    for mark, encoding, codec in _MARKS:
        if data.startswith(mark):
            return encoding, codec, data[len(mark) :]
    return "UTF-8", "utf-8", data


def _with_nul(data: bytes, name: str) -> UsageError:
    found = _unmarked(data)
    if found is not None:
        cause = f"It looks like {found} without a byte order mark."
        return UsageError(f"{name} is not UTF-8.", cause=cause, hint=convert_hint(found))
    cause = f"It is binary: byte {data.index(0):,} is NUL."
    return UsageError(f"{name} is not text.", cause=cause, hint="Name a text file.")


def _unmarked(data: bytes) -> str | None:
    """Return which encoding without a mark some bytes may have, judged by where the first NULs stand."""
    start = data[:_LOOKED_AT]
    if len(data) % 2:
        return None
    for encoding, places in (("UTF-32LE", (2, 3)), ("UTF-32BE", (0, 1))):
        if all(_is_nul(start[place::4]) for place in places):
            return encoding
    if _is_nul(start[1::2]):
        return "UTF-16LE"
    return "UTF-16BE" if _is_nul(start[0::2]) else None


def _is_nul(some: bytes) -> bool:
    return bool(some) and some.count(0) >= _MOSTLY * len(some)


def _not_in(encoding: str, error: UnicodeDecodeError, before: int, name: str) -> UsageError:
    where = f"Byte {error.start + before:,} is {error.object[error.start]:#04x}."
    if encoding != "UTF-8":
        return UsageError(f"{name} is not valid {encoding}.", cause=where, hint="Save it as UTF-8 in an editor.")
    return UsageError(f"{name} is not UTF-8.", cause=where, hint=convert_hint())
