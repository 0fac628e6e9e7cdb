"""The log, written to a file only: the terminal belongs to the conversation."""

import errno
import logging
import os
import stat
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler

from app.shell.paths import log_file

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_PRIVATE = 0o600


class _LogFile(RotatingFileHandler):
    """A log that can't be written, as on a full disk or in a folder of another user, is left out.

    It is for this user alone, whatever the umask: a path or the name of a model says what is worked on.
    """

    def _open(self) -> TextIOWrapper:
        # Not blocking: a pipe of that name would be waited for.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NONBLOCK", 0)
        handle = os.open(self.baseFilename, flags, _PRIVATE)
        try:
            state = os.fstat(handle)
            if not stat.S_ISREG(state.st_mode):
                raise OSError(errno.EINVAL, "It is no plain file", self.baseFilename)
            if stat.S_IMODE(state.st_mode) != _PRIVATE and hasattr(os, "fchmod"):
                os.fchmod(handle, _PRIVATE)
            return open(handle, "a", encoding="utf-8", errors="backslashreplace")  # noqa: PTH123 - a descriptor
        except BaseException:
            os.close(handle)
            raise

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - named by the library
        """Say nothing: the library would print a traceback on the terminal for each line."""


def open_log() -> None:
    """Send the log to its file, at the level that LOCALSPEC_LOG names (warning without it)."""
    logger = logging.getLogger("localspec")
    logger.setLevel(_LEVELS.get(os.environ.get("LOCALSPEC_LOG", "").lower(), logging.WARNING))
    logger.propagate = False
    try:
        log_file().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handler = _LogFile(log_file(), maxBytes=1_000_000, backupCount=1, encoding="utf-8", delay=True)
    except OSError:
        # No place to write is no reason not to run. Without any handler a warning would go to the terminal.
        logger.addHandler(logging.NullHandler())
        return
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logger.addHandler(handler)
