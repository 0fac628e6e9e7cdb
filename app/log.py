"""The log: a file and nothing but a file, since the terminal belongs to the conversation."""

import logging
import os
from logging.handlers import RotatingFileHandler

from app.paths import log_file

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class _LogFile(RotatingFileHandler):
    """A log that can't be written, as on a full disk or in a folder of another user, is left out."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - named by the library
        """Say nothing: the library would print a traceback on the terminal for each line."""


def open_log() -> None:
    """Send the log to its file, at the level that LOCALSPEC_LOG names (warning without it)."""
    logger = logging.getLogger("localspec")
    logger.setLevel(_LEVELS.get(os.environ.get("LOCALSPEC_LOG", "").lower(), logging.WARNING))
    logger.propagate = False
    try:
        log_file().parent.mkdir(parents=True, exist_ok=True)
        handler = _LogFile(log_file(), maxBytes=1_000_000, backupCount=1, encoding="utf-8", delay=True)
    except OSError:
        # No place to write is no reason not to run. Without any handler a warning would go to the terminal.
        logger.addHandler(logging.NullHandler())
        return
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logger.addHandler(handler)
