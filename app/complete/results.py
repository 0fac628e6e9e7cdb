"""Completions that are known already: asked for before, or typed along."""

from collections import OrderedDict, deque
from dataclasses import dataclass

from app.complete.asking import Asked
from app.complete.place import Place
from app.complete.settings import Limits

_BASES = 3
"""Latest completions that may be typed along: the one that is shown, the one after it, and one for luck."""


@dataclass(frozen=True, slots=True)
class _Base:
    place: Place
    text: str
    size: tuple[int, int | None, float | None]
    """Tokens, lines and seconds that were asked for."""


class Results:
    """The latest completions by what was asked, and the few of them whose documents are still at hand."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._texts: OrderedDict[bytes, str] = OrderedDict()
        self._bases: deque[_Base] = deque(maxlen=_BASES)

    def __len__(self) -> int:
        return len(self._texts)

    def keep(self, asked: Asked, text: str, *, cut: bool) -> None:
        """Remember a completion, in place of the one that was used longest ago.

        One that was `cut` when its time was over is only typed along: who comes back later may get more.
        """
        if not cut:
            self._texts[asked.key] = text
            self._texts.move_to_end(asked.key)
        while len(self._texts) > self._most:
            self._texts.popitem(last=False)
        if text:
            self._bases.appendleft(_Base(asked.place, text, _size(asked.limits)))

    def find(self, asked: Asked) -> str | None:
        """Return what is known for a question; None for nothing."""
        if (text := self._texts.get(asked.key)) is None:
            return self._along(asked)
        self._texts.move_to_end(asked.key)
        return text

    def forget(self, path: str) -> None:
        """Keep no text of a document."""
        kept = [base for base in self._bases if base.place.path != path]
        self._bases = deque(kept, maxlen=_BASES)

    def _along(self, asked: Asked) -> str | None:
        """Return the rest of a completion of which the person has typed the beginning."""
        for base in self._bases:
            if base.size == _size(asked.limits) and (rest := _rest(base, asked.place)).strip():
                return rest
        return None


def _size(limits: Limits) -> tuple[int, int | None, float | None]:
    return limits.tokens, limits.lines, limits.seconds


def _rest(base: _Base, place: Place) -> str:
    """Return what is left of a completion at a place; "" where the place does not come after it."""
    typed = place.offset - base.place.offset
    whole = base.place.text[: base.place.offset] + base.text[: max(0, typed)]
    same = place.path == base.place.path and typed >= 0 and place.suffix == base.place.suffix
    return base.text[typed:] if same and place.prefix == whole else ""
