"""The front of a run: editor, single answer, screen or line chat; and the start screen."""

import os
import sys
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any

from app.shell.error_lines import reported_errors
from app.shell.terminal import Terminal
from models.errors import UsageError

if TYPE_CHECKING:
    from app.flags.request import Request


def start(
    model: str | None, words: tuple[str, ...], flags: dict[str, Any], *, named: bool, given: Container[str]
) -> int:
    """Run the front that the flags select; return the exit code. Raises LocalspecError, printed as JSON with --json.

    `named` and `given` as of `app.flags.request.read_request`.
    """
    # The start screen imports this file without the engine.
    from app.flags.request import read_request

    with reported_errors(as_json=flags["as_json"]):
        return _start(read_request(model, words, flags, named=named, given=given))


def _start(request: "Request") -> int:
    # Imports wait for the choice: the screen library is heavy.
    if request.edit is not None:
        if not can_show_screen():
            raise UsageError(
                "The editor needs a full-screen terminal.",
                hint="localspec complete FILE:LINE:COL prints a completion without one.",
            )
        from app.ui.editor.app import run_editor

        return run_editor(request, request.edit)
    if request.prompt is not None:
        from app.line_chat.oneshot import run_once

        return run_once(request)
    if request.settings.explain:
        Terminal(quiet=request.quiet).warn("--explain is for a single answer; in a chat, use /explain.")
    if request.plain or not can_show_screen():
        from app.line_chat.chat_loop import run_chat

        return run_chat(request)
    from app.ui.chat.app import run_screen

    return run_screen(request)


def choose(theme: str) -> Sequence[str] | int:
    """Show the start screen; return the arguments of localspec that open what was chosen, or an exit code."""
    from app.ui.start.app import run_start

    return run_start(theme)


def can_show_screen() -> bool:
    """Tell whether this terminal can show a full screen."""
    all_terminals = sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()
    return all_terminals and os.environ.get("TERM", "dumb") != "dumb"
