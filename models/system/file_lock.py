"""Advisory file lock among processes, which the system frees when its holder dies."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_PAUSE = 0.003

if sys.platform == "win32":
    import msvcrt

    def _try_lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _try_lock(handle: int) -> None:
        # Not lockf: a process loses all its locks of that kind on a file when it closes any handle of it.
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def locked(path: Path, patience: float = 2.0, check: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Hold the lock of a file, made where it is missing; raises OSError, TimeoutError after `patience` seconds.

    `check` is called again and again while another process holds it; what it raises ends the wait. The file must stay
    where it is: a second one of its name would be a second lock.
    """
    if path.is_dir():
        # A folder of that name can't be locked as a file is, now or ever.
        path.rmdir()
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _wait(handle, path, time.monotonic() + patience, check)
        yield
    finally:
        os.close(handle)


def _wait(handle: int, path: Path, deadline: float, check: Callable[[], object]) -> None:
    # Not a blocking call: a holder that was suspended, and not killed, would stop this process too.
    while True:
        try:
            return _try_lock(handle)
        except OSError as error:
            if not isinstance(error, BlockingIOError | PermissionError):
                raise
            if time.monotonic() > deadline:
                raise TimeoutError(f"{path} is locked by another process") from error
        check()
        time.sleep(_PAUSE)
