"""Text in columns: widths on a terminal, tables, and tokens with every character visible."""

import unicodedata
from collections.abc import Collection, Sequence

WIDTH = 100
"""Columns that a line may take."""
_GAP = "  "
_DOTS = "..."
_HELD = "\xa0"
"""Stands for a space of a token until a page is whole: lines must not be broken there."""
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", " ": _HELD}


def visible(piece: bytes, encoding: str) -> str:
    """Return the text of a token, and in ASCII what a terminal of this encoding would not show as it is.

    Its spaces are held together until `released`.
    """
    text = piece.decode("utf-8", errors="surrogateescape")
    shown = [_shown(character, encoding) for character in text]
    # A mark that combines with what is before it would sit on the table's own signs.
    if text and unicodedata.category(text[0]).startswith("M"):
        shown[0] = _escaped(text[0])
    return "".join(shown)


def released(line: str) -> str:
    """Return a line with the spaces of its tokens as they are."""
    return line.replace(_HELD, " ")


def columns(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(map(_columns, text))


def beginning(text: str, most: int) -> str:
    """Return as much of the beginning of a text as fits, with dots where something is left out."""
    if columns(text) <= most:
        return text
    if most <= len(_DOTS):
        return _DOTS[: max(0, most)]
    while columns(text) > most - len(_DOTS):
        text = text[:-1]
    return text + _DOTS


def end(text: str, most: int) -> str:
    """Return as much of the end of a text as fits, with dots where something is left out."""
    if columns(text) <= most:
        return text
    if most <= len(_DOTS):
        return _DOTS[: max(0, most)]
    while columns(text) > most - len(_DOTS):
        text = text[1:]
    return _DOTS + text


def wrapped(text: str, indent: int, deeper: int = 0, width: int = WIDTH) -> list[str]:
    """Return a text as lines, broken at spaces, all but the first indented by `deeper` more."""
    room = max(1, width - indent - deeper)
    lines = [" " * indent]
    for place, word in enumerate(beginning(word, room) for word in text.split(" ")):
        if columns(lines[-1]) + columns(word) + (place > 0) > width:
            # Of several spaces at a break none begins the next line.
            lines += [" " * (indent + deeper) + word] if word else []
        else:
            lines[-1] += " " * (place > 0) + word
    return lines


def facts(rows: Sequence[tuple[str, str]], indent: int, width: int = WIDTH) -> list[str]:
    """Return names with their values beside them, in a column that is broken at spaces.

    Where less than half of the width is left for the values, each stands below its name.
    """
    column = max((columns(name) for name, _ in rows), default=0) + len(_GAP)
    lines: list[str] = []
    for name, value in rows:
        if indent + column > width // 2:
            lines += [*wrapped(name, indent, 0, width), *wrapped(value, indent + len(_GAP), 0, width)]
            continue
        first, *rest = wrapped(value, indent + column, 0, width)
        lines += [" " * indent + _set(name, column, left=True) + first[indent + column :], *rest]
    return lines


def fitting_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], indent: int, left: Collection[int], width: int = WIDTH
) -> list[str]:
    """Return a table as lines; where it is wider than `width`, each row as a line of words for itself."""
    lines = table(head, rows, indent, left)
    if all(columns(line) <= width for line in lines):
        return lines
    return [line for row in rows for line in wrapped(_in_words(head, row), indent, len(_GAP), width)]


def _in_words(head: Sequence[str], row: Sequence[str]) -> str:
    """Return the cells of a row, each behind the head of its column."""
    parts = (f"{name} {cell}".strip() for name, cell in zip(head, row, strict=True) if cell)
    return ", ".join(parts)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], indent: int, left: Collection[int]) -> list[str]:
    """Return a table as lines; columns are set flush right but for those in `left`."""
    cells = [head, *rows]
    widths = [max(columns(row[i]) for row in cells) for i in range(len(head))]
    lines = (_GAP.join(_set(row[i], widths[i], i in left) for i in range(len(head))) for row in cells)
    return [(" " * indent + line).rstrip() for line in lines]


def _set(cell: str, width: int, left: bool) -> str:
    room = " " * (width - columns(cell))
    return cell + room if left else room + cell


def _shown(character: str, encoding: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    return character if character.isprintable() and _can_write(character, encoding) else _escaped(character)


def _escaped(character: str) -> str:
    """Return a character in ASCII: a byte that is no character as two digits, others as four or eight."""
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    if character < "\x80":
        return character.encode("unicode_escape").decode()
    return f"\\u{ord(character):04x}" if character <= "\uffff" else f"\\U{ord(character):08x}"


def _can_write(character: str, encoding: str) -> bool:
    try:
        character.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
