"""The log: a file and nothing but a file, since the terminal belongs to the conversation."""

import logging
import os
from logging.handlers import RotatingFileHandler

from app.paths import log_file

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def open_log() -> None:
    """Send the log to its file, at the level that LOCALSPEC_LOG names (warning without it)."""
    logger = logging.getLogger("localspec")
    logger.setLevel(_LEVELS.get(os.environ.get("LOCALSPEC_LOG", "").lower(), logging.WARNING))
    logger.propagate = False
    try:
        log_file().parent.mkdir(parents=True, exist_ok=True)
        handler = RotatingFileHandler(log_file(), maxBytes=1_000_000, backupCount=1, encoding="utf-8", delay=True)
    except OSError:
        # No place to write is no reason not to run. Without any handler a warning would go to the terminal.
        logger.addHandler(logging.NullHandler())
        return
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logger.addHandler(handler)
