"""`localspec` alone on a terminal: its start screen opens before the commands are imported."""

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from app.config.places import theme_in_files
from app.shell.exit_codes import INTERRUPTED
from app.shell.killed_screen import tell_killed_screen
from app.shell.streams import let_go, mend_streams
from app.shell.terminal import Terminal
from models.errors import LocalspecError
from models.system.home import check_home

if TYPE_CHECKING:
    import click

Commands = Callable[[], "click.Group"]
_COMPLETES = "_LOCALSPEC_COMPLETE"
"""Variable by which a shell asks for completions."""


def can_show_screen() -> bool:
    """Tell whether this terminal can show a full screen."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    # The shell may have closed one: Python then has None for it.
    all_terminals = all(stream is not None and stream.isatty() for stream in streams)
    return all_terminals and os.environ.get("TERM", "dumb") != "dumb"


def opens_start_screen(arguments: Sequence[str]) -> bool:
    """Tell whether a command line without the program's name opens the start screen."""
    return not arguments and _COMPLETES not in os.environ and can_show_screen()


def run_start_screen(commands: Commands) -> int:
    """Show the start screen as the whole program; return the exit code, after an error in words.

    `commands` imports the commands, and returns them.
    """
    mend_streams()
    tell_killed_screen()
    try:
        check_home()
        return open_start_screen(commands)
    except LocalspecError as error:
        Terminal().fail(error)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        let_go()


def open_start_screen(commands: Commands) -> int:
    """Show the start screen, then run the one of the commands that was chosen there; return its exit code.

    Raises UsageError for a settings file with a mistake, LocalspecError if the screen failed.
    """
    from app.ui.start.app import run_start

    chosen = run_start(theme_in_files(), partial(_check_settings, commands))
    if isinstance(chosen, int):
        return chosen
    from app.command_line.run_exit import code_of

    return code_of(commands(), chosen)


def _check_settings(commands: Commands) -> None:
    """Read the settings files as the commands will; raises UsageError."""
    from app.config.files import read_all

    read_all(commands())
