"""Entries of a list: names in a column, details beside them or below, and nothing cut inside a word."""

import pytest
from rich.cells import cell_len

from app.ui.drawing.named_lines import BOLD, DIM, NamedLines

TITLE = "Name three rivers of France and say one thing about each of them"


def text_of(entry: NamedLines, width: int) -> list[str]:
    return ["".join(part.text for part in line) for line in entry.lines(width)]


@pytest.mark.parametrize("width", [20, 40, 56, 100, 200])
def test_a_title_is_broken_between_its_words(width: int) -> None:
    entry = NamedLines(TITLE, BOLD, (("2026-11-27 21:39 · 2 messages", DIM),), (7, cell_len(TITLE)))
    lines = text_of(entry, width)
    assert all(cell_len(line) <= width for line in lines)
    assert " ".join(" ".join(lines).split()) == f"{TITLE} 2026-11-27 21:39 · 2 messages"


def test_a_file_name_that_is_too_long_goes_on_below() -> None:
    lines = text_of(NamedLines("a" * 30, BOLD, (("1.1 GiB", DIM),), (7, 30)), 20)
    assert [line.strip() for line in lines] == ["a" * 18, "a" * 12, "1.1 GiB"]


def test_details_stand_beside_a_name_that_fits_the_column() -> None:
    assert text_of(NamedLines("starter", BOLD, (("135M", DIM), ("fits", DIM)), (7, 5)), 60) == [
        "starter  135M",
        "         fits",
    ]
