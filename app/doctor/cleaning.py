"""`localspec doctor --clean`: removes files that localspec makes again when it needs them."""

import shutil
import sys
from collections.abc import Sequence
from math import inf
from pathlib import Path

import click

from app.doctor.findings import size
from app.doctor.own_files import OwnFiles, own_files
from app.doctor.sizes import is_there, measure
from app.shell.terminal import Terminal
from models.errors import LocalspecError

_KEPT = 1


def clean(*, ask: bool) -> int:
    """Remove the files and print the freed space and what is kept; return the exit code. Raises LocalspecError."""
    terminal, files = Terminal(), own_files()
    found = [(one, places) for one in files if one.is_cleaned and (places := _existing(one))]
    what = ", ".join(f"{one.name} ({size(_bytes(places))})" for one, places in found)
    question = f"Remove {what}? localspec makes them again when it needs them; `tune` has to be run again."
    if found and ask and sys.stdin.isatty() and not click.confirm(question, err=True):
        terminal.say("Nothing was removed.\n")
        return _KEPT
    freed = sum(_bytes(places) for _, places in found)
    for _, places in found:
        _remove(places)
    terminal.say(f"Removed {what}: {size(freed)} are free again.\n" if found else "There is nothing to remove.\n")
    for one in files:
        if not one.is_cleaned and (places := _existing(one)):
            terminal.say(f"Kept {one.name} ({size(_bytes(places))}): {one.remedy}\n")
    terminal.say("Kept models: `localspec models ls` lists them, `localspec models rm NAME` removes one.\n")
    return 0


def _existing(files: OwnFiles) -> list[Path]:
    return [place for place in files.places if place.is_symlink() or is_there(place)]


def _bytes(places: Sequence[Path]) -> int:
    # A link to a file elsewhere frees nothing.
    return measure((place for place in places if not place.is_symlink()), entries=sys.maxsize, seconds=inf).size


def _remove(places: Sequence[Path]) -> None:
    for place in places:
        try:
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
            else:
                place.unlink(missing_ok=True)
        except OSError as error:
            hint = "End other localspec processes, or change the permissions of the folder."
            raise LocalspecError(f"{place} can't be removed.", cause=str(error), hint=hint) from error
