"""Editing of the prompt in the user's own editor."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from app.shell.text_encoding import encoding_of, without_returns
from app.ui.terminal.terminal_guard import meant_for_others
from models.errors import LocalspecError
from models.system.bounded_read import LARGEST_TEXT, UnfitFile, read_regular

_FALLBACKS = ("nano", "vi")


class EditorFailedError(LocalspecError):
    """An editor ended with an error code."""

    def __init__(self, name: str, code: int, written: str) -> None:
        """Take the text that the editor left; "": unchanged."""
        hint = "Up brings back the text from the editor." if written else "Try it again."
        super().__init__(f"{name} failed, so the prompt stays as it was.", cause=f"Its exit code is {code}.", hint=hint)
        self.written = written


def edit_text(text: str) -> str:
    """Return a text as the user left it in $VISUAL, $EDITOR, nano or vi; the terminal must be free.

    Raises LocalspecError where there is no editor, or it fails: EditorFailedError where it leaves a text all the same.
    """
    command = _command()
    # A folder of its own is private too: editors put copies and swap files beside a file.
    with tempfile.TemporaryDirectory(prefix="localspec-") as folder:
        file = Path(folder) / "prompt.md"
        file.write_text(text, encoding="utf-8", errors="replace", newline="")
        code = _run([*command, str(file)])
        after = _read(file).removesuffix("\n")
    if code:
        raise EditorFailedError(command[0], code, after if after.strip() and after != text else "")
    return after


def edited_outside(app: App[Any], text: str) -> str | LocalspecError:
    """Return a text as the user left it in an editor while the app is away, or why there is none."""
    try:
        with app.suspend():
            # An error that left this block would pass by what gives the terminal back to the app.
            return edited(text)
    except SuspendNotSupported:
        return LocalspecError("An editor can't be opened from this terminal.")


def edited(text: str) -> str | LocalspecError:
    """Return the result of `edit_text`, or its error as a value for blocks that no exception may leave."""
    try:
        return edit_text(text)
    except LocalspecError as error:
        return error


def _command() -> list[str]:
    for variable in ("VISUAL", "EDITOR"):
        if wanted := os.environ.get(variable, "").strip():
            try:
                return shlex.split(wanted)
            except ValueError as error:
                raise LocalspecError(
                    f"${variable} is not a command.", cause=f"It is: {wanted}", hint="Fix its quotes."
                ) from error
    for name in _FALLBACKS:
        if found := shutil.which(name):
            return [found]
    raise LocalspecError("No text editor was found.", hint='Name one: export EDITOR="code --wait"')


def _run(command: list[str]) -> int:
    """Return the exit code."""
    name = command[0]
    try:
        with _signals_are_its():
            # While a screen is open, descriptors 1 and 2 lead to the log; these two are the terminal.
            return subprocess.run(command, stdout=sys.__stdout__, stderr=sys.__stderr__, check=False).returncode
    except OSError as error:
        cause = error.strerror or type(error).__name__
        raise LocalspecError(
            f"{name} can't be started.", cause=f"{cause}.", hint="Set $EDITOR to another editor."
        ) from error


@contextmanager
def _signals_are_its() -> Iterator[None]:
    """Leave the keys of signals to the editor; with SIG_IGN in place of a handler it would ignore them too."""
    own = [getattr(signal, name) for name in ("SIGINT", "SIGQUIT") if hasattr(signal, name)]
    meanwhile: dict[int, Any] = {number: lambda number, _: meant_for_others.add(number) for number in own}
    if hasattr(signal, "SIGTSTP"):
        # Ctrl-Z stops the terminal's foreground group: a parent that kept waiting would keep the shell from it.
        meanwhile[signal.SIGTSTP] = signal.SIG_DFL
    before = {number: signal.signal(number, handler) for number, handler in meanwhile.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _read(file: Path) -> str:
    """Return a saved text with the line ends of a prompt; some editors of Windows save UTF-16."""
    try:
        data = read_regular(file, LARGEST_TEXT)
    except UnfitFile as error:
        raise LocalspecError(
            "The edited text can't be used, so the prompt stays as it was.",
            cause=f"{error.strerror}.",
            hint="Save a shorter text.",
        ) from error
    except OSError as error:
        raise LocalspecError(
            "The edited text is gone, so the prompt stays as it was.", cause=str(error), hint="Save to the same file."
        ) from error
    return without_returns(data.decode(encoding_of(data), errors="replace").removeprefix("\ufeff"))
