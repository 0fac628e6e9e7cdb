"""Unexpected exceptions of the screens: logged with their traceback and shown, while the program goes on."""

import functools
import logging
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from app.shell.paths import log_file
from models.errors import LocalspecError

_log = logging.getLogger("localspec.ui")


def survived(
    handler: Callable[..., Awaitable[None] | None],
) -> Callable[..., Awaitable[None]]:
    """Wrap a handler so that its exceptions are shown; Textual would otherwise end the app."""

    @functools.wraps(handler)
    async def guarded(self: Any, *arguments: Any) -> None:
        try:
            result = handler(self, *arguments)
            if result is not None:
                await result
        except Exception as error:
            self.fail(localspec_error(error))

    return guarded


def localspec_error(error: Exception) -> LocalspecError:
    """Return an error to show; an unexpected exception is logged with its traceback."""
    if isinstance(error, LocalspecError):
        return error
    _log.error("%s", "".join(traceback.format_exception(error)))
    return unexpected(error)


def unexpected(error: BaseException) -> LocalspecError:
    """Return a failure of this program as an error to be shown."""
    return LocalspecError(
        "Internal error in localspec. You can continue.",
        cause=f"{type(error).__name__}: {error}",
        hint=f"See {log_file()} for details, and please report it.",
    )
