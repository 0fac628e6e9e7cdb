"""Writer of states on a thread of its own, so that neither the engine nor a chat waits for the disk."""

import logging
import threading
from collections import deque
from collections.abc import Collection

from models.llama.cache import State
from models.states.folder import StateFolder

_MOST_WAITING = 256 << 20
"""Bytes that wait for the disk at once."""
_LEAVING_SECONDS = 8.0
"""Seconds that leaving waits for the disk; what is not written then is read again later."""
_IDLE_SECONDS = 1.0
"""Seconds without work after which the thread ends."""
_log = logging.getLogger("localspec.states")


class StateWriter:
    """Takes states from one thread, and never raises. Its own thread starts with the first state."""

    def __init__(self, folder: StateFolder) -> None:
        self.folder = folder
        self._changed = threading.Condition()
        self._waiting: deque[tuple[str, str, State | None, Collection[str]]] = deque()
        self._bytes = 0
        self._busy = False
        self._thread: threading.Thread | None = None

    @property
    def has_room(self) -> bool:
        """Whether another state may be put; else too many wait for the disk."""
        with self._changed:
            return self._bytes < _MOST_WAITING

    def put(self, key: str, name: str, state: State) -> None:
        """Write one state of a conversation."""
        self._add((key, name, state, ()))

    def finish(self, key: str, names: Collection[str]) -> None:
        """Remove a conversation's other files after all that was put, and what is beyond the limits."""
        self._add((key, "", None, names))

    def settle(self, seconds: float = _LEAVING_SECONDS) -> bool:
        """Wait until all is written; False: not within this time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._busy, seconds)

    def _add(self, work: tuple[str, str, State | None, Collection[str]]) -> None:
        with self._changed:
            self._waiting.append(work)
            self._bytes += 0 if work[2] is None else work[2].nbytes
            if self._thread is None:
                # A daemon: a hanging disk must not keep the program from ending.
                self._thread = threading.Thread(target=self._run, name="states", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: self._waiting, _IDLE_SECONDS):
                    self._thread = None
                    return
                key, name, state, names = self._waiting.popleft()
                self._busy = True
            self._do(key, name, state, names)
            with self._changed:
                self._busy = False
                self._bytes -= 0 if state is None else state.nbytes
                self._changed.notify_all()

    def _do(self, key: str, name: str, state: State | None, names: Collection[str]) -> None:
        try:
            if state is None:
                self.folder.keep_only(key, names)
                self.folder.trim(key)
            elif not self.folder.write(key, name, state):
                _log.warning("not kept: %s of conversation %s has no room", name, key)
        except OSError as error:
            _log.warning("not kept: %s of conversation %s: %s", name, key, error)
