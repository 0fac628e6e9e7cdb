"""Times to save a growing answer: at the end of a sentence, and at intervals within long ones."""

import re
import time
from collections.abc import Callable

_MOST_CHARACTERS = 200
_MOST_SECONDS = 2.0
# The token after a full stop is unknown, so one at the very end counts: "3." costs an extra write.
_SENTENCE_END = re.compile(r"[.!?:;\u2026][\"')\]*\u2019\u201d]*(\s|$)|[\u3002\uff01\uff1f\n]")


class Pace:
    """Decides for one answer, piece by piece."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._unwritten = ""
        self._written = clock()

    def due(self, text: str) -> bool:
        """Take the next piece; tell whether to save the answer now."""
        self._unwritten += text
        if not self._is_due():
            return False
        self._unwritten, self._written = "", self._clock()
        return True

    def _is_due(self) -> bool:
        if len(self._unwritten) >= _MOST_CHARACTERS or self._clock() - self._written >= _MOST_SECONDS:
            return bool(self._unwritten)
        # A line of dots does not consist of sentences.
        return _SENTENCE_END.search(self._unwritten) is not None and any(map(str.isalnum, self._unwritten))
