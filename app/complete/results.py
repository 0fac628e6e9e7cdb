"""Known completions: requested earlier, or typed along."""

from collections import OrderedDict, deque
from dataclasses import dataclass

from app.complete.asking import CompletionRequest
from app.complete.place import CursorPosition
from app.complete.settings import Limits

_BASES = 3
"""Latest completions that can be typed along: the shown one, the one after it, and one in reserve."""


@dataclass(frozen=True, slots=True)
class _Base:
    place: CursorPosition
    text: str
    size: tuple[int, int | None, float | None]
    """Requested tokens, lines and seconds."""


class Results:
    """The latest completions by request; a few of them with their documents."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._texts: OrderedDict[bytes, str] = OrderedDict()
        self._bases: deque[_Base] = deque(maxlen=_BASES)

    def __len__(self) -> int:
        return len(self._texts)

    def keep(self, request: CompletionRequest, text: str, *, cut: bool) -> None:
        """Remember a completion in place of the least recently used one.

        One `cut` at its time limit is only typed along: a repeated request may yield more.
        """
        if not cut:
            self._texts[request.key] = text
            self._texts.move_to_end(request.key)
        while len(self._texts) > self._most:
            self._texts.popitem(last=False)
        if text:
            self._bases.appendleft(_Base(request.place, text, _size(request.limits)))

    def find(self, request: CompletionRequest) -> str | None:
        """Return the completion for a request; None for an unknown one."""
        if (text := self._texts.get(request.key)) is None:
            return self._along(request)
        self._texts.move_to_end(request.key)
        return text

    def forget(self, path: str) -> None:
        """Drop all text of a document."""
        kept = [base for base in self._bases if base.place.path != path]
        self._bases = deque(kept, maxlen=_BASES)

    def _along(self, request: CompletionRequest) -> str | None:
        """Return the rest of a completion whose beginning was typed."""
        for base in self._bases:
            if base.size == _size(request.limits) and (rest := _rest(base, request.place)).strip():
                return rest
        return None


def _size(limits: Limits) -> tuple[int, int | None, float | None]:
    return limits.tokens, limits.lines, limits.seconds


def _rest(base: _Base, place: CursorPosition) -> str:
    """Return the rest of a completion at a position; "" if the position does not continue it."""
    typed = place.offset - base.place.offset
    whole = base.place.text[: base.place.offset] + base.text[: max(0, typed)]
    same = place.path == base.place.path and typed >= 0 and place.suffix == base.place.suffix
    return base.text[typed:] if same and place.prefix == whole else ""
