"""Tokens made visible, and lines that stand in columns on any terminal."""

import pytest
from checking import FIXED
from hypothesis import given
from hypothesis import strategies as st

from app.shell.columns import WIDTH, beginning, columns, end, released, table, visible, wrapped


@pytest.mark.parametrize(
    ("piece", "shown"),
    [
        (b" the", " the"),
        (b"\n\n", "\\n\\n"),
        (b"\t\r", "\\t\\r"),
        (b"\\n", "\\\\n"),
        (b"\x1b[2J\x00\x7f", "\\x1b[2J\\x00\\x7f"),
        ("café".encode(), "café"),
        (b"\xc3", "\\xc3"),
        (b"a\xe2\x80", "a\\xe2\\x80"),
        ("\xa0".encode(), "\\u00a0"),
        ("\u202e".encode(), "\\u202e"),
        ("\u200d".encode(), "\\u200d"),
        ("日本".encode(), "日本"),
        ("🙂".encode(), "🙂"),
        ("\u0301".encode(), "\\u0301"),
        ("e\u0301".encode(), "e\u0301"),
        ("\U000e0001".encode(), "\\U000e0001"),
        (b"", ""),
    ],
)
def test_what_a_terminal_would_not_show_is_spelled_out(piece: bytes, shown: str) -> None:
    assert released(visible(piece, "utf-8")) == shown


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("ascii", "caf\\u00e9 \\U0001f642"), ("latin-1", "café \\U0001f642"), ("no such thing", None)],
)
def test_what_a_terminal_can_not_write_is_spelled_out(encoding: str, shown: str | None) -> None:
    got = released(visible("café 🙂".encode(), encoding))
    assert got == shown or (shown is None and got.isascii())


@given(st.binary(max_size=20), st.sampled_from(["ascii", "utf-8", "cp437"]))
@FIXED
def test_no_bytes_reach_the_terminal_that_could_move_its_cursor(piece: bytes, encoding: str) -> None:
    shown = released(visible(piece, encoding))
    assert shown.isprintable()
    assert shown.encode(encoding).decode(encoding) == shown


def test_wide_characters_take_two_columns_and_marks_none() -> None:
    assert [columns(text) for text in ("ab", "日本", "e\u0301", "🙂", "")] == [2, 4, 1, 2, 0]


def test_the_beginning_and_the_end_of_a_text_keep_to_their_columns() -> None:
    assert (beginning("abcdef", 6), beginning("abcdefg", 6)) == ("abcdef", "abc...")
    assert (end("abcdef", 6), end("abcdefg", 6)) == ("abcdef", "...efg")
    assert (beginning("日本日本", 7), end("日本日本", 6)) == ("日本...", "...本")


def test_a_table_stands_in_columns_whatever_is_in_it() -> None:
    lines = table(["a", "long head", ""], [["日本", "1", "x"], ["b", "22", "yy"]], 2, [0, 2])
    assert lines == [
        "  a     long head",
        "  日本          1  x",
        "  b            22  yy",
    ]


@given(
    st.lists(st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), min_size=1, max_size=30), max_size=60)
)
@FIXED
def test_wrapped_lines_keep_to_the_width_and_lose_nothing(words: list[str]) -> None:
    lines = wrapped(" ".join(words), 2, 4)
    assert all(columns(line) <= WIDTH for line in lines)
    assert " ".join(line.strip(" ") for line in lines).split(" ") == " ".join(words).strip(" ").split(" ")
    assert lines[0].startswith("  ")
    assert all(line.startswith(" " * 6) for line in lines[1:])


def test_a_token_with_spaces_is_never_broken() -> None:
    token = '"' + visible(b" two words ", "utf-8") + '"'
    lines = wrapped(" ".join([token] * 20), 0)
    assert len(lines) > 1
    assert all(released(line).count('" two words "') * 14 - 1 == columns(line) for line in lines)


def test_a_word_longer_than_a_line_is_cut() -> None:
    (first, second) = wrapped(f"{'a' * 20} {'b' * 200}", 0, 8)
    assert (first, columns(second)) == ("a" * 20, WIDTH)
    assert second.endswith("...")
