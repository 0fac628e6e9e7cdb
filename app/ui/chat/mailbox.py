"""Messages from the engine's thread to the screen, collected at a rate that drawing can afford."""

import threading
import time
from collections.abc import Callable

from app.ui.chat.messages import LoadProgress, Mail

_SHARE = 0.02
"""Share of a processor that the screen may take from the model, keys aside."""
_SHORTEST, _LONGEST = 0.06, 0.5
"""Seconds between two looks into the mailbox."""


class Mailbox:
    """A queue of messages. The reader is woken by the first and then polls until the queue is empty.

    Waking the reader at every round would slow decoding: llama.cpp's threads wait for each other at every step, so
    interrupting one stops all.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        """Make an empty queue. `wake` wakes the reader and is called on any thread."""
        self._wake = wake
        self._mail: list[Mail] = []
        self._is_read = False
        self._lock = threading.Lock()

    def put(self, mail: Mail) -> None:
        """Add a message, from any thread; a load's progress replaces the progress before it."""
        with self._lock:
            if isinstance(mail, LoadProgress) and self._mail and isinstance(self._mail[-1], LoadProgress):
                self._mail.pop()
            self._mail.append(mail)
            wakes, self._is_read = not self._is_read, True
        if wakes:
            self._wake()

    def take(self) -> list[Mail]:
        """Return all messages. After an empty result the reader is woken again; until then it must poll."""
        with self._lock:
            mail, self._mail = self._mail, []
            self._is_read = bool(mail)
        return mail


class Pace:
    """Pause between two drawings, from the processor time of the last one."""

    def __init__(self, work: Callable[[], float] = time.thread_time) -> None:
        """Begin. `work` returns the processor seconds used by the calling thread."""
        self._work = work
        self._before = work()

    def rest(self, *, decoding: bool) -> float:
        """Return seconds to wait before the next drawing: the shortest pause while no model decodes."""
        before, self._before = self._before, self._work()
        return min(_LONGEST if decoding else _SHORTEST, max(_SHORTEST, (self._before - before) / _SHARE))
