"""The exit code of a command, and the error message on its way out."""

import sys
from collections.abc import Sequence
from contextlib import suppress

import click

from app.shell.error_lines import asks_for_lines, reported_misuse
from app.shell.exit_codes import INTERRUPTED
from app.shell.killed_screen import tell_killed_screen
from app.shell.streams import is_without_room, let_go, mend_streams
from app.shell.terminal import Terminal
from models.errors import LocalspecError

_BROKEN_PIPE = 141


def exit_code(commands: click.Group) -> int:
    """Run the command line and return its exit code; print foreseen errors as sentences, raise unexpected ones."""
    mend_streams()
    tell_killed_screen()
    try:
        return code_of(commands)
    finally:
        let_go()


def code_of(commands: click.Group, arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code, as `exit_code` does on streams that are in order.

    `arguments` are without the program's name; None: those of the process.
    """
    try:
        return _run(commands, arguments)
    except click.ClickException as error:
        with suppress(OSError):
            # Without an explicit stream, click writes to a Windows console past localspec's own stream.
            error.show(file=sys.stderr)
        return error.exit_code
    except LocalspecError as error:
        Terminal().fail(error)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED


def _run(commands: click.Group, arguments: Sequence[str] | None) -> int:
    stdout = sys.stdout
    try:
        with reported_misuse(as_json=asks_for_lines(sys.argv[1:])):
            code = commands(arguments, prog_name="localspec", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except OSError as error:
        if not is_without_room(error):
            raise
        hint = "Free some space there, or redirect stdout elsewhere."
        raise LocalspecError("The output can't be written.", cause=str(error.strerror), hint=hint) from error
    except SystemExit:
        # When the reader of a pipe closes it, click exits as after an error and silences its streams.
        if sys.stdout is stdout:
            raise
        return _BROKEN_PIPE
