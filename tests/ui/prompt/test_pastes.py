"""What is pasted: as it was but for what a terminal would obey, or what would be read in another order than it is."""

import sys
import unicodedata

import pytest

from app.ui.prompt.pastes import harmless, plain_ends

ALL = "".join(map(chr, range(sys.maxunicode + 1)))
OBEYED = ("Cc", "Cs", "Zl", "Zp")
TURNING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def test_no_character_that_is_obeyed_is_left() -> None:
    left = set(harmless(ALL)) - set("\t\n")
    assert not left & set(TURNING)
    assert not {one for one in left if unicodedata.category(one) in OBEYED}


def test_every_other_character_stays() -> None:
    others = "".join(one for one in ALL if unicodedata.category(one) not in OBEYED and one not in TURNING)
    assert harmless(others) == others


@pytest.mark.parametrize(
    "text",
    [
        "\ue0b0 \uf121 \U000f0295",  # icons of fonts
        "\U0001fae8 \U0001fae9",  # newer than the tables of most Pythons
        "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
        "hy\u00adphen zero\u200bwidth \u200fשל",
        "\ufeffa",
    ],
)
def test_icons_new_emoji_flags_and_marks_without_a_width_stay(text: str) -> None:
    assert harmless(text) == text


def test_lines_end_in_one_way_and_the_rest_is_as_it_was() -> None:
    assert plain_ends("a\r\nb\rc\u2028d\u2029\x85\n") == "a\nb\nc\nd\n\x85\n"
