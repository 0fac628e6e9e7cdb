"""Facts and tables at every width: no line is longer, no word or number is broken, nothing is left out."""

import pytest

from app.shell.columns import columns, facts, fitting_table, wrapped

ROWS = [
    ("prompt", "1,024 tokens, 512 reused from the cache"),
    ("日本", "日本語 の 値 1.23 s"),
    ("by position", "1: 64%"),
]
HEAD = ["", "token", "target", "target picks", ""]
CELLS = [["1", '"the"', "0.734", '"the"', "accepted"], ["2", '"quick 🙂"', ">0.999", '"slow"', "rejected"]]


def words_of(text: str) -> list[str]:
    return [word.strip(",") for word in text.split()]


@pytest.mark.parametrize("width", range(20, 130, 3))
def test_facts_keep_to_the_width_and_lose_no_word(width: int) -> None:
    lines = facts(ROWS, 2, width)
    assert all(columns(line) <= width for line in lines)
    assert words_of("\n".join(lines)) == words_of(" ".join(f"{name} {value}" for name, value in ROWS))


@pytest.mark.parametrize("width", range(20, 130, 3))
def test_a_table_becomes_words_where_it_is_too_wide_and_loses_no_cell(width: int) -> None:
    lines = fitting_table(HEAD, CELLS, 2, {1, 3, 4}, width)
    assert all(columns(line) <= width for line in lines)
    text = words_of("\n".join(lines))
    assert all(word in text for row in CELLS for cell in row for word in cell.split())


def test_a_table_that_fits_stays_a_table() -> None:
    assert fitting_table(HEAD, CELLS, 2, {1, 3, 4}, 100)[0].split() == ["token", "target", "target", "picks"]


def test_wrapped_text_breaks_at_spaces_for_every_width() -> None:
    text = "a draft token is accepted while the target picks the same token 0.123456789"
    for width in range(20, 90):
        assert " ".join(" ".join(wrapped(text, 2, 2, width)).split()) == text
