"""Marks of tokens: by origin, or by the target's confidence; confidence has a style of its own in every palette."""

from collections.abc import Iterable
from enum import StrEnum

from rich.style import Style
from rich.text import Text

from app.engine.decoding.origins import Origin
from app.ui.drawing.origin_styles import Palette, origin_style


class Marks(StrEnum):
    """What the tokens of answers are marked by."""

    OFF = "off"
    ORIGINS = "origins"
    CONFIDENCE = "confidence"

    @property
    def next(self) -> "Marks":
        """The marks that the key shows after these."""
        all_marks = list(Marks)
        return all_marks[(all_marks.index(self) + 1) % len(all_marks)]


class Confidence(StrEnum):
    """Band of the target's probability of a token, before temperature and sampling filters."""

    SURE = "90% or more"
    LIKELY = "50 to 90%"
    OPEN = "10 to 50%"
    UNLIKELY = "below 10%"
    UNKNOWN = "not measured"
    """The answer came while these marks were off."""


Mark = Origin | Confidence
_BANDS = ((0.9, Confidence.SURE), (0.5, Confidence.LIKELY), (0.1, Confidence.OPEN), (0.0, Confidence.UNLIKELY))
_TEXT_STYLES = {
    Confidence.SURE: "",
    Confidence.LIKELY: "italic",
    Confidence.OPEN: "underline",
    Confidence.UNLIKELY: "bold underline",
    Confidence.UNKNOWN: "dim",
}
_COLOURS = {
    Palette.DARK: {Confidence.LIKELY: "#79c0ff", Confidence.OPEN: "#f2cc60", Confidence.UNLIKELY: "#ff938a"},
    Palette.LIGHT: {Confidence.LIKELY: "#0550ae", Confidence.OPEN: "#6b4400", Confidence.UNLIKELY: "#a40e26"},
    Palette.ANSI: {Confidence.LIKELY: "blue", Confidence.OPEN: "yellow", Confidence.UNLIKELY: "red"},
    Palette.NONE: {},
}
_HEADING = "probability"


def confidence_of(probability: float | None) -> Confidence:
    """Return the band of a probability from 0 to 1; None: it was not measured."""
    if probability is None:
        return Confidence.UNKNOWN
    return next(band for least, band in _BANDS if probability >= least)


def mark_style(mark: Mark, colours: Palette) -> Style:
    """Return the style of a token with a mark; two bands of confidence differ in text style in every palette."""
    return origin_style(mark, colours) if isinstance(mark, Origin) else _STYLES[colours][mark]


def confidence_legend(colours: Palette, shown: Iterable[Confidence] = tuple(Confidence)) -> Text:
    """Return the names of the bands, each in its style, on one line that may be wrapped between them."""
    samples = [Text(f" {band} ".replace(" ", "\u00a0"), _STYLES[colours][band]) for band in shown]
    return Text(" ").join([Text(_HEADING), *samples])


def _style(band: Confidence, colours: Palette) -> Style:
    return Style.parse(f"{_TEXT_STYLES[band]} {_COLOURS[colours].get(band, '')}".strip() or "none")


_STYLES = {colours: {band: _style(band, colours) for band in Confidence} for colours in Palette}
