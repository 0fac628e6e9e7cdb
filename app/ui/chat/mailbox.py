"""What the engine's thread leaves for the screen: taken all at once, and as often as drawing can be afforded."""

import threading
import time
from collections.abc import Callable

from app.ui.chat.messages import LoadProgress, Mail

_SHARE = 0.02
"""Share of a processor that the screen may take from the model, keys aside."""
_SHORTEST, _LONGEST = 0.06, 0.5
"""Seconds between two looks into the mailbox."""


class Mailbox:
    """Mail in order, none lost; who reads is woken once and then looks again by itself until nothing is left.

    A wake-up for each round would cost the model more of the processor than the text is worth: two threads of llama.cpp
    wait for each other at every step, so one that is interrupted stops both.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        """Take who wakes the reader, from any thread."""
        self._wake = wake
        self._mail: list[Mail] = []
        self._is_read = False
        self._lock = threading.Lock()

    def put(self, mail: Mail) -> None:
        """Leave something, from any thread; how far a load is takes the place of how far it was."""
        with self._lock:
            if isinstance(mail, LoadProgress) and self._mail and isinstance(self._mail[-1], LoadProgress):
                self._mail.pop()
            self._mail.append(mail)
            wakes, self._is_read = not self._is_read, True
        if wakes:
            self._wake()

    def take(self) -> list[Mail]:
        """Return all there is; who gets something looks again, who gets nothing is woken for the next."""
        with self._lock:
            mail, self._mail = self._mail, []
            self._is_read = bool(mail)
        return mail


class Pace:
    """How long to wait between two drawings, from what the last one cost."""

    def __init__(self, work: Callable[[], float] = time.thread_time) -> None:
        """Take who tells the processor's seconds that this thread has used."""
        self._work = work
        self._before = work()

    def rest(self, *, decoding: bool) -> float:
        """Return seconds to wait now; while no model decodes, there is nobody to be spared."""
        before, self._before = self._before, self._work()
        return min(_LONGEST if decoding else _SHORTEST, max(_SHORTEST, (self._before - before) / _SHARE))
