"""Infill prompts for cursor positions. Typing along a completion leaves the prompt unchanged.

The model reads prefix, suffix, and then the middle. If each key moved the end of the prefix, the suffix would be read
again for each. So the prefix ends where the cursor's line began at the first request, and text written since becomes
the beginning of the middle.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b

from app.complete.enough import is_enough
from app.complete.place import CursorPosition, Window, window
from app.complete.ring import Ring
from app.complete.settings import CompletionSettings, Limits
from app.complete.tidy import Around
from app.engine.decoding.request import Question
from models.text.fim import Chunk, Infill

_MOST_WRITTEN = 4_000
"""Maximum characters written before the prefix moves on."""
_BEYOND = 512
"""Lines on each side of the shown text from which drafts are copied."""


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A request for a completion at a position."""

    place: CursorPosition
    limits: Limits
    question: Question
    around: Around
    key: bytes
    """Key of the request; equal requests have equal keys."""


@dataclass(frozen=True, slots=True)
class _Anchor:
    """The current end of the prefix, which several prompts share."""

    path: str
    before: str
    """The text before it."""
    after: str
    """The text after the cursor."""
    begun: int
    """Characters between it and the cursor at the first request."""
    infill: Infill


class Asking:
    """Builds the requests for successive positions in documents."""

    def __init__(self, settings: CompletionSettings, ring: Ring) -> None:
        self._settings = settings
        self._ring = ring
        self._anchor: _Anchor | None = None
        self._beyond: tuple[tuple[str, int, int], str] = (("", 0, 0), "")

    def at(self, place: CursorPosition, limits: Limits) -> CompletionRequest:
        """Return the completion request for a position."""
        shown = window(place, self._settings.windows)
        if self._anchor is None or not _holds(self._anchor, place):
            chunks = self._ring.around(place.path, shown.first, shown.last)
            self._anchor = _anchor(place, shown, chunks)
        infill = replace(self._anchor.infill, begun=_begun(self._anchor, place))
        around = Around.of(shown)
        key = _key(place, shown, self._anchor.infill.chunks, limits)
        return CompletionRequest(place, limits, self._question(infill, around, limits, place, shown), around, key)

    def forget(self, path: str) -> None:
        """Drop everything about a document."""
        if self._anchor is not None and self._anchor.path == path:
            self._anchor = None
        if self._beyond[0][0] == path:
            self._beyond = (("", 0, 0), "")

    def _question(
        self, infill: Infill, around: Around, limits: Limits, place: CursorPosition, shown: Window
    ) -> Question:
        settings = self._settings
        return Question(
            turns=(),
            sampling=settings.sampling,
            max_tokens=limits.tokens,
            infill=infill,
            lines=1 if settings.tidies and around.in_a_line else limits.lines,
            enough=partial(is_enough, around=around) if settings.tidies else None,
            seconds=limits.seconds,
            draft_length=settings.draft_length,
            adapt=settings.adapt,
            prediction=self._prediction(place, shown),
            accept=settings.accept,
            allow_rounding=settings.allow_rounding,
        )

    def _prediction(self, place: CursorPosition, shown: Window) -> str:
        """Return the text of a document beyond the shown part, identical for near positions.

        The drafter indexes it after each change, so it must not change with each key.
        """
        block = max(1, self._settings.windows.suffix)
        where = (place.path, shown.first, place.line // block)
        if self._beyond[0] != where:
            lines = place.text.split("\n")
            first, end = shown.first - place.above, shown.last - place.above + 1 + block
            parts = (lines[max(0, first - _BEYOND) : first], lines[end : end + _BEYOND])
            most = self._settings.windows.width * _BEYOND
            self._beyond = (where, "\n".join("\n".join(part).replace("\r\n", "\n")[:most] for part in parts).strip())
        return self._beyond[1]


def infill_at(
    place: CursorPosition, settings: CompletionSettings, chunks: Sequence[Chunk] = ()
) -> tuple[Infill, Around]:
    """Return the infill request for a single position, and the text around it."""
    shown = window(place, settings.windows)
    anchor = _anchor(place, shown, tuple(chunks))
    return replace(anchor.infill, begun=_begun(anchor, place)), Around.of(shown)


def _anchor(place: CursorPosition, shown: Window, chunks: tuple[Chunk, ...]) -> _Anchor:
    begun = len(shown.behind)
    before = place.text[: place.offset - begun]
    return _Anchor(place.path, before, place.suffix, begun, Infill(shown.prefix, shown.suffix, place.path, chunks))


def _holds(anchor: _Anchor, place: CursorPosition) -> bool:
    """Tell whether a position differs from the anchor's only by newly written text."""
    if anchor.path != place.path or place.offset < len(anchor.before):
        return False
    written = place.offset - len(anchor.before) - anchor.begun
    near = written <= _MOST_WRITTEN
    return near and place.text.startswith(anchor.before) and place.suffix == anchor.after


def _begun(anchor: _Anchor, place: CursorPosition) -> str:
    """Return the newly written text without its trailing blanks: see `tidy.beyond_written`."""
    return place.text[len(anchor.before) : place.offset].replace("\r\n", "\n").rstrip(" \t")


def _key(place: CursorPosition, shown: Window, chunks: tuple[Chunk, ...], limits: Limits) -> bytes:
    around = (place.path, place.newline, shown.prefix, shown.behind, shown.suffix)
    parts = (*around, chunks, limits.tokens, limits.lines)
    return blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=16).digest()
