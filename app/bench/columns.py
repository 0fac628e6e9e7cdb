"""Columns of the tables of a benchmark: numbers as short text, and rows in fixed widths."""

from collections.abc import Iterable, Sequence

WIDTH = 100
"""Most columns of a report."""


def table(columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a line for the headings, and one for each row; `columns` are headings with alignment and width."""
    return [
        " ".join(f"{cut(cell, form):{form}}" for cell, (_, form) in zip(row, columns, strict=True)).rstrip()
        for row in ([name for name, _ in columns], *rows)
    ]


def cut(cell: str, form: str) -> str:
    """Shorten a name that would move the columns after it; numbers are never cut."""
    return cell[: int(form[1:])] if form.startswith("<") else cell


def interval(bounds: tuple[float, float] | None) -> str:
    """Return an interval as two numbers; "-" for none."""
    return "-" if bounds is None else "-".join(map(short, bounds))


def short(value: float) -> str:
    """Return a number with two decimals, or fewer where it is large: an interval of two prompts can reach 100."""
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}"


def percent(share: float | None) -> str:
    """Return a share in percent; "-" for none."""
    return "-" if share is None else f"{share:.0%}"


def number(value: float | None, digits: int) -> str:
    """Return a number with so many decimals; "-" for none."""
    return "-" if value is None else f"{value:.{digits}f}"
