"""`localspec lsp`: reads flags and serves an editor."""

import logging
from collections.abc import Mapping
from typing import Any

from app.flags.load_plan import read_plan
from app.lsp.settings import Settings
from app.shell.extras import install_command
from models.errors import LocalspecError
from models.library.catalog import STARTER

_LIBRARIES = ("pygls", "asyncio")
"""Libraries' loggers that write to the log file: without a handler they would write to the editor as errors."""


def start_lsp(model: str | None, flags: dict[str, Any]) -> int:
    """Serve one editor until it shuts the server down or disappears; return the exit code."""
    plan = read_plan(flags["model_option"] or model or STARTER, flags)
    try:
        from app.lsp.conversation import converse
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise LocalspecError(
            f"The language server needs {error.name.split('.')[0]}, which is not installed.",
            hint=f"Install it: {install_command('lsp')}",
        ) from error
    _keep_quiet()
    return converse(plan, _settings(flags), flags["draft_max"], flags["client"])


def _settings(flags: Mapping[str, Any]) -> Settings:
    return Settings(
        debounce_ms=flags["debounce"],
        max_lines=flags["max_lines"],
        max_tokens=flags["predict"],
        time_limit_ms=round(1000 * flags["time_limit"]),
    )


def _keep_quiet() -> None:
    """Send libraries' log lines to the log file, if they hold none of the user's text."""
    own = logging.getLogger("localspec")
    for name in _LIBRARIES:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [*own.handlers], False
    # These lines quote whole messages.
    logging.getLogger("pygls").setLevel(logging.CRITICAL)
