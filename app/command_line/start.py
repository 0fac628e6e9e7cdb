"""The front of a run: editor, single answer, screen or line chat."""

from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.command_line.first_screen import can_show_screen
from app.shell.error_lines import reported_errors
from app.shell.terminal import Terminal
from models.errors import UsageError
from models.gguf.file import is_there
from models.library.catalog import STARTER

if TYPE_CHECKING:
    from app.flags.request import Request

_NO_CHAT = ("file", "edit", "as_json", "plain", "explain", "resume", "go_on")
"""Flags that ask for another front, for a note before the screen, or for a model that is not known yet."""


def start(
    model: str | None, words: tuple[str, ...], flags: dict[str, Any], *, named: bool, given: Container[str]
) -> int:
    """Run the front that the flags select; return the exit code. Raises LocalspecError, printed as JSON with --json.

    `named` and `given` as of `app.flags.request.read_request`.
    """

    def read() -> "Request":
        # The engine is imported only now: `--help` needs none, and a chat has its first picture before.
        from app.flags.request import read_request

        return read_request(model, words, flags, named=named, given=given)

    with reported_errors(as_json=flags["as_json"]):
        if not _opens_chat(model, words, flags):
            return _start(read())
        from app.ui.chat.opening import run_opening

        opened = run_opening(flags["model_option"] or model or STARTER, flags["theme"], read, quiet=flags["quiet"])
        return opened if isinstance(opened, int) else _start(opened)


def _opens_chat(model: str | None, words: tuple[str, ...], flags: dict[str, Any]) -> bool:
    """Tell whether a chat opens on the screen whatever else the flags say, as far as can be told without the engine."""
    name = flags["model_option"] or model
    asks = words or any(flags[one] for one in _NO_CHAT) or flags["prompt_option"] is not None
    # Beside -m, a word is a prompt.
    is_model = name in (None, STARTER) or (str(name).endswith(".gguf") and is_there(Path(str(name))))
    return not asks and not (model and flags["model_option"]) and is_model and can_show_screen()


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
