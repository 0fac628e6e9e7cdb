"""Numbers as text, to the character."""

import pytest
from checking import FIXED
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from app.ui.panel.bars import bar, bucket_of, buckets, fit, meter, percent, probability, rate, size, sparkline

SHARES = st.floats(0, 1)


@pytest.mark.parametrize(
    ("share", "blocks", "in_ascii"),
    [
        (0.0, "    ", "    "),
        (1.0, "████", "####"),
        (0.5, "██  ", "##  "),
        (0.25 + 1 / 32, "█▏  ", "#   "),
        (0.875, "███▌", "###-"),
        (0.001, "▏   ", "-   "),
        (0.999, "███▉", "###-"),
        (1.7, "████", "####"),
        (-0.3, "    ", "    "),
    ],
)
def test_a_bar_is_drawn_in_eighths_and_in_ascii_in_halves(share: float, blocks: str, in_ascii: str) -> None:
    assert (bar(share, 4), bar(share, 4, ascii_only=True)) == (blocks, in_ascii)


@given(SHARES, SHARES, st.integers(1, 40), st.booleans())
@FIXED
def test_a_longer_bar_is_more_and_only_all_is_full(share: float, other: float, width: int, ascii_only: bool) -> None:
    order = " -#" if ascii_only else " ▏▎▍▌▋▊▉█"
    first, second = (
        [order.index(sign) for sign in bar(one, width, ascii_only=ascii_only)] for one in sorted((share, other))
    )
    assert len(first) == len(second) == width
    assert sum(first) <= sum(second)
    assert (sum(second) == width * (len(order) - 1)) == (max(share, other) == 1)
    assert (sum(first) == 0) == (min(share, other) == 0)


def test_a_bar_without_room_is_nothing() -> None:
    assert (bar(0.5, 0), bar(1.0, 0), bar(0.0, 0)) == ("", "", "")


@pytest.mark.parametrize(
    ("share", "width", "drawn"), [(0.5, 6, "[██  ]"), (None, 7, "[  -  ]"), (1.0, 2, "[]"), (0.0, 5, "[   ]")]
)
def test_a_meter_shows_where_it_ends(share: float | None, width: int, drawn: str) -> None:
    assert meter(share, width) == drawn


def test_a_sparkline_rises_with_its_numbers_and_tells_its_scale() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == ("▁▂▃▄▅▆▇█", 7)
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], ascii_only=True) == ("_.-:=+*#", 7)
    assert sparkline([1, 4, 2]) == ("▃█▅", 4)
    assert sparkline([0.5, 1], top=1.0) == ("▅█", 1.0)


def test_only_nothing_is_drawn_as_nothing() -> None:
    assert sparkline([0.001, 0.0, 100.0], top=100.0)[0] == "▂▁█"


def test_what_is_not_known_is_a_gap_and_not_a_zero() -> None:
    assert sparkline([None, 0.0, 1.0, None]) == ("·▁█·", 1.0)
    assert sparkline([None, 0.0, 1.0, None], ascii_only=True) == (" _# ", 1.0)
    assert sparkline([None]) == ("·", 0.0)


def test_without_numbers_there_is_no_line_and_where_all_are_zero_it_is_flat() -> None:
    assert sparkline([]) == ("", 0.0)
    assert sparkline([0.0, 0.0]) == ("▁▁", 0.0)


def test_a_value_over_the_scale_is_cut() -> None:
    assert sparkline([3.0], top=2.0) == ("█", 2.0)


def test_stretches_are_told_by_their_means_and_gaps_do_not_count() -> None:
    assert buckets([1, 3, 5, 7], 2) == [2, 6]
    assert buckets([1, None, None, None], 2) == [1, None]
    assert buckets([1, 2, 3], 5) == [1, 2, 3]
    assert (buckets([], 4), buckets([1, 2], 0)) == ([], [])


@given(st.integers(1, 300), st.integers(1, 80))
@FIXED
def test_each_value_is_in_the_stretch_that_says_so(count: int, width: int) -> None:
    for index in range(0, count, 7):
        alone = buckets([float(place == index) for place in range(count)], width)
        assert [place for place, mean in enumerate(alone) if mean] == [bucket_of(index, count, width)]


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (None, "-"),
        (0, "0%"),
        (1, "100%"),
        (0.714, "71%"),
        (0.0001, "<1%"),
        (0.9999, "99%"),
        (0.995, "99%"),
        (0.009, "<1%"),
        (0.01, "1%"),
    ],
)
def test_a_percentage_never_claims_all_or_nothing_wrongly(share: float | None, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (1.0, "1"), (0.0001, "<0.001"), (0.9999, ">0.999"), (0.0214, "0.021")]
)
def test_a_probability_has_three_digits(value: float, text: str) -> None:
    assert probability(value) == text


def test_rates_and_sizes_are_told_in_few_digits() -> None:
    assert [rate(value) for value in (None, 3.14159, 99.94, 99.96, 12345.0)] == ["-", "3.1", "99.9", "100", "12,345"]
    assert [size(count) for count in (None, 5 << 20, (1 << 30) - 1, 5 << 29)] == ["-", "5 MiB", "1024 MiB", "2.5 GiB"]


def test_a_text_that_does_not_fit_ends_in_dots() -> None:
    assert [fit("abcdef", width) for width in (7, 6, 5, 4, 3, 1, 0, -1)] == [
        "abcdef",
        "abcdef",
        "ab...",
        "a...",
        "...",
        ".",
        "",
        "",
    ]
    assert fit("日本日本", 7) == "日本..."


@given(st.text(max_size=30), st.integers(0, 20))
@FIXED
def test_what_fits_is_what_a_screen_has_room_for(text: str, width: int) -> None:
    assert cell_len(fit(text, width)) <= width
    assert cell_len(text) > width or fit(text, width) == text
