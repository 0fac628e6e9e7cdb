"""Marks of tokens: their bands, and styles that are told apart and read in every palette."""

from itertools import combinations

import pytest

from app.engine.decoding.origins import Origin
from app.ui.drawing.marks import Confidence, Marks, confidence_legend, confidence_of, mark_style
from app.ui.drawing.origin_styles import Palette, fitted, legend

_BACKGROUNDS = {Palette.DARK: "#121212", Palette.LIGHT: "#e0e0e0"}
_READABLE = 4.5
"""Least contrast of text by the WCAG, level AA."""


@pytest.mark.parametrize(
    ("probability", "band"),
    [
        (None, Confidence.UNKNOWN), (1.0, Confidence.SURE), (0.9, Confidence.SURE), (0.899, Confidence.LIKELY),
        (0.5, Confidence.LIKELY), (0.1, Confidence.OPEN), (0.0999, Confidence.UNLIKELY), (0.0, Confidence.UNLIKELY),
    ],
)  # fmt: skip
def test_a_probability_is_in_one_band(probability: float | None, band: Confidence) -> None:
    assert confidence_of(probability) is band


def test_one_key_goes_through_the_marks() -> None:
    assert (Marks.OFF.next, Marks.ORIGINS.next, Marks.CONFIDENCE.next) == (
        Marks.ORIGINS,
        Marks.CONFIDENCE,
        Marks.OFF,
    )


@pytest.mark.parametrize("colours", Palette)
def test_two_bands_differ_without_colour(colours: Palette) -> None:
    for one, other in combinations(Confidence, 2):
        assert mark_style(one, colours).without_color != mark_style(other, colours).without_color


@pytest.mark.parametrize("colours", _BACKGROUNDS)
@pytest.mark.parametrize("mark", [*Confidence, *Origin])
def test_a_marked_token_can_be_read(mark: Confidence | Origin, colours: Palette) -> None:
    colour = mark_style(mark, colours).color
    if colour is not None:
        assert _contrast(colour.get_truecolor().hex, _BACKGROUNDS[colours]) >= _READABLE


@pytest.mark.parametrize("colours", Palette)
def test_the_legend_names_every_band_in_its_style(colours: Palette) -> None:
    legend = confidence_legend(colours)
    assert all(band.replace(" ", "\u00a0") in legend.plain for band in Confidence)
    styles = [span.style for span in legend.spans]
    assert all(mark_style(band, colours) in styles for band in Confidence if mark_style(band, colours))


def _contrast(one: str, other: str) -> float:
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("width", [30, 44, 58, 78, 103])
def test_a_legend_is_broken_between_names_alone(width: int) -> None:
    for whole in (confidence_legend(Palette.DARK), legend(Palette.DARK)):
        lines = fitted(whole, width).plain.split("\n")
        assert " ".join(lines).split(" ") == whole.plain.split(" ")
        assert all(len(line) <= width or " " not in line for line in lines)
