"""Unexpected errors: logged without their message, and raised for the job in which they occurred."""

import logging
import traceback
from collections.abc import Callable
from typing import TypeVar

from models.errors import LocalspecError

M = TypeVar("M")
_log = logging.getLogger("localspec.engine")


def log_unexpected(error: BaseException) -> None:
    """Log the place of an error, without its message, which may contain a prompt."""
    _log.error("%s%s", "".join(traceback.format_tb(error.__traceback__)), type(error).__name__)


def unexpected(error: BaseException) -> LocalspecError:
    """Return the LocalspecError for an unexpected error."""
    return LocalspecError(
        "Internal error in localspec.",
        cause=f"{type(error).__name__}: {error}",
        hint="See the log file for details (localspec --version prints its path), and please report it.",
    )


def is_heard(listener: Callable[[M], None], message: M) -> bool:
    """Pass a message to a listener; return False, and log the error, where the listener fails."""
    try:
        listener(message)
    except BaseException as error:
        log_unexpected(error)
        return False
    return True
