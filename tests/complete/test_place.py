"""A cursor in a text, and what of the text is shown: lines as editors count them, a beginning that stays."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.complete.place import CursorPosition, Windows, window
from models.errors import UsageError

TEXT = st.text(alphabet="ab\t é\U0001f600\r\n\x0b\x0c\u2028", max_size=60)


def numbered(lines: int) -> str:
    return "".join(f"line {number}\n" for number in range(lines))


def test_a_place_divides_the_text_at_line_and_column() -> None:
    place = CursorPosition("a.py", "def f(x):\n    return x\n", 1, 8)
    assert (place.prefix, place.suffix) == ("def f(x):\n    retu", "rn x\n")
    assert (place.behind, place.ahead, place.offset) == ("    retu", "rn x", 18)


@pytest.mark.parametrize(
    ("text", "line", "column", "behind", "ahead"),
    [
        ("", 0, 0, "", ""),
        ("a", 0, 1, "a", ""),
        ("a\n", 1, 0, "", ""),
        ("no end\nof the last", 1, 6, "of the", " last"),
        ("a\r\nbc\r\n", 1, 1, "b", "c"),
        ("a\r\nbc\r\n", 0, 1, "a", ""),
        ("\r\n", 0, 0, "", ""),
        ("\tif x:", 0, 1, "\t", "if x:"),
        ("\U0001f600é = 1", 0, 2, "\U0001f600é", " = 1"),
        ("a\x0cb\u2028c", 0, 4, "a\x0cb\u2028", "c"),
    ],
)
def test_lines_and_columns_are_those_of_editors(text: str, line: int, column: int, behind: str, ahead: str) -> None:
    place = CursorPosition("", text, line, column)
    assert (place.behind, place.ahead) == (behind, ahead)
    assert place.prefix + place.suffix == text


@pytest.mark.parametrize(
    ("line", "column", "title", "cause"),
    [
        (3, 0, "a.py has no line 4.", "It has 3 lines."),
        (-1, 0, "a.py has no line 0.", "It has 3 lines."),
        (0, 4, "Line 1 of a.py has no column 5.", "The line ends at column 4."),
        (0, -1, "Line 1 of a.py has no column 0.", "The line ends at column 4."),
        (1, 2, "Line 2 of a.py has no column 3.", "The line ends at column 2."),
    ],
)
def test_a_cursor_that_is_not_in_the_text_is_refused(line: int, column: int, title: str, cause: str) -> None:
    with pytest.raises(UsageError) as refused:
        CursorPosition("a.py", "abc\r\nd\r\n", line, column)
    assert (refused.value.title, refused.value.cause) == (title, cause)


def test_a_text_without_a_name_is_refused_in_words() -> None:
    with pytest.raises(UsageError, match="The text has no line 2"):
        CursorPosition("", "a", 1, 0)


@given(TEXT, TEXT)
def test_a_place_between_two_texts_is_theirs(prefix: str, suffix: str) -> None:
    if prefix.endswith("\r") and suffix.startswith("\n"):
        with pytest.raises(UsageError):
            CursorPosition.between("", prefix, suffix)
        return
    place = CursorPosition.between("x", prefix, suffix)
    assert (place.prefix, place.suffix) == (prefix, suffix)


def test_what_is_inserted_moves_the_place_behind_it() -> None:
    place = CursorPosition("a", "one\ntwo\n", 0, 3).after(" more\nand")
    assert (place.line, place.column, place.prefix, place.suffix) == (1, 3, "one more\nand", "\ntwo\n")


@pytest.mark.parametrize(
    ("text", "ends"), [("a\r\nb", "\r\n"), ("a\nb\r\n", "\n"), ("a", "\n"), ("", "\n"), ("\n", "\n")]
)
def test_the_first_line_tells_how_lines_end(text: str, ends: str) -> None:
    assert CursorPosition("", text, 0, 0).newline == ends


def test_a_window_shows_no_more_than_its_lines() -> None:
    shown = window(CursorPosition("a", numbered(2000), 1000, 3), Windows())
    assert shown.prefix == "".join(f"line {number}\n" for number in range(768, 1000))
    assert (shown.behind, shown.first, shown.last) == ("lin", 768, 1064)
    assert shown.suffix.split("\n") == ["e 1000", *(f"line {number}" for number in range(1001, 1065))]


def test_the_beginning_of_a_window_stays_while_one_goes_down() -> None:
    text = numbered(2000)
    firsts = [window(CursorPosition("a", text, line, 0), Windows()).first for line in range(1000)]
    assert all(256 >= line - first >= min(line, 129) for line, first in enumerate(firsts))
    assert sum(before != after for before, after in pairwise(firsts)) <= 6


@pytest.mark.parametrize("lines", [0, 1, 3, 10])
def test_a_small_window_still_ends_at_the_cursor(lines: int) -> None:
    for line in range(40):
        shown = window(CursorPosition("a", numbered(50), line, 2), Windows(prefix=lines, suffix=lines))
        assert shown.behind == "li"
        assert shown.prefix.count("\n") <= lines
        assert shown.suffix.count("\n") == lines


def test_windows_end_lines_by_a_bare_newline() -> None:
    shown = window(CursorPosition("a", "a\r\nb\r\nc\r\n", 1, 1), Windows())
    assert (shown.prefix, shown.behind, shown.suffix) == ("a\n", "b", "\nc\n")


def test_a_file_in_one_line_is_not_shown_as_a_whole() -> None:
    windows = Windows(prefix=4, suffix=2, width=10)
    text = "x" * 500
    shown = [window(CursorPosition("a", text, 0, column), windows) for column in range(100, 400)]
    assert all(20 <= len(one.behind) <= 40 and len(one.suffix) <= 20 for one in shown)
    starts = [100 + number - len(one.behind) for number, one in enumerate(shown)]
    assert len(set(starts)) == 300 // 20 + 1, "each move of the beginning has all of it read anew"


def test_long_lines_before_the_cursor_lose_their_beginning() -> None:
    windows = Windows(prefix=4, suffix=2, width=10)
    shown = window(CursorPosition("a", "y" * 100 + "\nabc", 1, 3), windows)
    assert shown.behind == "abc"
    assert shown.prefix.endswith("y\n")
    assert len(shown.prefix) <= 40
