"""Where vim's motions lead, checked against places marked by hand."""

import pytest

from app.ui.prompt.vim_motions import find, move, word_range_end

LINES = ["one two.x  end", "", "  in 日本 last"]


@pytest.mark.parametrize(
    ("motion", "count", "start", "end"),
    [
        ("w", 1, (0, 0), (0, 4)),
        ("w", 1, (0, 1), (0, 4)),
        ("w", 2, (0, 4), (0, 8)),
        ("w", 1, (0, 11), (1, 0)),
        ("w", 1, (1, 0), (2, 2)),
        ("w", 9, (0, 0), (2, 12)),
        ("b", 1, (0, 4), (0, 0)),
        ("b", 1, (0, 5), (0, 4)),
        ("b", 1, (2, 2), (1, 0)),
        ("b", 2, (2, 2), (0, 11)),
        ("b", 99, (2, 2), (0, 0)),
        ("e", 1, (0, 0), (0, 2)),
        ("e", 1, (0, 2), (0, 6)),
        ("e", 2, (0, 6), (0, 8)),
        ("e", 1, (0, 13), (2, 3)),
        ("e", 99, (0, 0), (2, 11)),
        ("h", 3, (0, 2), (0, 0)),
        ("l", 99, (0, 2), (0, 14)),
        ("0", 1, (2, 5), (2, 0)),
        ("^", 1, (2, 5), (2, 2)),
        ("$", 1, (2, 5), (2, 12)),
        ("^", 1, (1, 0), (1, 0)),
    ],
)
def test_motions(motion: str, count: int, start: tuple[int, int], end: tuple[int, int]) -> None:
    assert move(LINES, start, motion, count) == end


@pytest.mark.parametrize(
    ("motion", "character", "count", "end"),
    [
        ("f", "e", 1, (0, 2)),
        ("f", "e", 2, (0, 11)),
        ("t", "e", 1, (0, 1)),
        ("f", "o", 1, (0, 6)),
        ("f", "z", 1, None),
        ("f", "e", 3, None),
    ],
)
def test_finding_a_character_stays_in_the_line(
    motion: str, character: str, count: int, end: tuple[int, int] | None
) -> None:
    assert find(LINES, (0, 0), motion, character, count) == end


@pytest.mark.parametrize(
    ("start", "count", "change", "end"),
    [
        ((0, 0), 1, False, (0, 4)),
        ((0, 0), 1, True, (0, 3)),
        ((0, 2), 1, True, (0, 3)),
        ((0, 3), 1, True, (0, 4)),
        ((0, 11), 1, False, (0, 14)),
        ((0, 0), 2, True, (0, 7)),
        ((1, 0), 1, True, (1, 0)),
        ((2, 8), 1, False, (2, 12)),
    ],
)
def test_an_edit_of_words_ends_within_the_line(
    start: tuple[int, int], count: int, change: bool, end: tuple[int, int]
) -> None:
    assert word_range_end(LINES, start, count, change=change) == end
