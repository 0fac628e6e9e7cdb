"""Trust in a project's settings file before a command runs: the question to the user, and the notes."""

import shlex
import sys
from collections.abc import Callable
from contextlib import suppress
from textwrap import shorten

import click

from app.config.files import Inspected, inspect
from app.config.places import Source, project_source, sources_there, user_file
from app.config.trust import Trust, decide
from app.config.words import setting_text
from app.shell.safe_text import one_line
from app.shell.terminal import Terminal
from models.errors import LocalspecError, UsageError
from models.system.home import at_home

_WITHOUT_QUESTION = "lsp"
"""The command whose standard input carries a protocol."""
_LONGEST = 300
"""Maximum characters of the settings in a note."""
_AGAIN = "If the file changes, localspec asks again."


def consider_project(group: click.Group, command: str | None) -> tuple[list[str], Callable[[], None]]:
    """Return the notes about a project's settings for a command, and a function to call after they were printed.

    On a terminal, first asks whether to trust a file with settings that need trust, and stores the answer. Raises
    UsageError for a file with a mistake.
    """
    found = next((inspect(source, group) for source in sources_there() if source.origin == "project"), None)
    if found is None or found.content is None or not found.settings():
        return [], lambda: None
    if found.waiting(command) and found.trust in (Trust.NEW, Trust.SEEN) and _can_ask(command):
        found = _confirmed(found, group)
    notes = [*_first(found), *_users_own(found, command), *_waiting(found, command)]
    return notes, lambda: _seen(found)


def trust_project(group: click.Group, folder: str | None) -> None:
    """Trust the project's file and print its settings; raises UsageError for a missing file, LocalspecError."""
    found, terminal = _project(group, folder), Terminal()
    if found.content is None:
        raise UsageError(f"There is no {found.source.path}.", hint="Name the folder of a project that has this file.")
    _keep(found, Trust.TRUSTED)
    for line in _lines(found):
        terminal.say(f"{line}\n")
    terminal.say(f"Trusted: {one_line(str(found.source.path))}. {_AGAIN}\n")


def untrust_project(group: click.Group, folder: str | None) -> None:
    """Withdraw the trust in the project's file, which may be missing; raises UsageError, LocalspecError."""
    found = _project(group, folder)
    _keep(found, Trust.REFUSED)
    Terminal().say(f"Not trusted: {one_line(str(found.source.path))}.\n")


def _project(group: click.Group, folder: str | None) -> Inspected:
    return inspect(_source(folder), group)


def _source(folder: str | None) -> Source:
    try:
        return project_source(at_home(folder) if folder else None)
    except OSError as error:
        raise UsageError("There is no project here.", cause=str(error), hint="Name a folder that exists.") from error


def _keep(found: Inspected, trust: Trust) -> None:
    try:
        decide(found.source.path, found.content or b"", trust)
    except OSError as error:
        raise LocalspecError(
            "The decision can't be saved.", cause=str(error), hint="Check the permissions of the folder."
        ) from error


def _can_ask(command: str | None) -> bool:
    return command != _WITHOUT_QUESTION and sys.stdin.isatty() and sys.stderr.isatty()


def _confirmed(found: Inspected, group: click.Group) -> Inspected:
    """Show the file's settings, ask, and store the answer; return the file with that trust."""
    terminal = Terminal()
    terminal.show(f"{one_line(str(found.source.path))} has settings for this project:")
    for line in _lines(found):
        terminal.show(f"  {line}")
    terminal.show("Lines with * choose files to load or read, instruct the model, or loosen a limit.")
    trusted = click.confirm("Do you trust this file?", default=False, err=True)
    with suppress(LocalspecError):
        _keep(found, Trust.TRUSTED if trusted else Trust.REFUSED)
        return inspect(found.source, group)
    terminal.warn("the answer can't be saved, so the file is not trusted.")
    return found


def _lines(found: Inspected) -> list[str]:
    """Return one line per setting, with a mark on those that need trust."""
    guarded = {*found.guarded()}
    return [f"{'*' if key in guarded else ' '} {setting_text(key, value)}" for key, value in found.settings()]


def _first(found: Inspected) -> list[str]:
    """Return the note about a file's settings when these bytes are seen for the first time."""
    ignored = {*found.waiting(), *found.users_own()}
    counts = [setting_text(key, value) for key, value in found.settings() if key not in ignored]
    if found.trust is not Trust.NEW or not counts:
        return []
    listed = shorten(", ".join(counts), _LONGEST, placeholder=" ...")
    return [f"{one_line(str(found.source.path))} sets for this project: {listed}."]


def _users_own(found: Inspected, command: str | None) -> list[str]:
    keys = found.users_own(command)
    where = f"only the user's settings file may set this. Set it on the command line or in {user_file()}."
    return [f"{', '.join(keys)} of {found.source.path} is ignored: {where}"] if keys else []


def _waiting(found: Inspected, command: str | None) -> list[str]:
    keys = found.waiting(command)
    if not keys:
        return []
    way = f"localspec config trust {shlex.quote(str(found.source.path.parent))}"
    return [f"{', '.join(keys)} of {found.source.path} is ignored: the file is not trusted. To trust it: {way}"]


def _seen(found: Inspected) -> None:
    """Store that the notes were shown; if that fails, they are shown again."""
    if found.trust is Trust.NEW:
        with suppress(OSError):
            decide(found.source.path, found.content or b"", Trust.SEEN)
