"""The JSON line of a failure, for the commands whose `--json` has one."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from app.shell.terminal import Terminal
from models.errors import LocalspecError, UsageError

_COMMANDS = ("run", "complete")


def asks_for_lines(arguments: Sequence[str]) -> bool:
    """Return whether an unparsed command line asks for JSON from a command with error lines."""
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in before and before[0] in _COMMANDS


def error_record(error: LocalspecError) -> dict[str, Any]:
    """Return the JSON line of a failure."""
    return {
        "type": "error",
        "title": error.title,
        "cause": error.cause,
        "hint": error.hint,
        "exit_code": error.exit_code,
    }


@contextmanager
def reported_errors(*, as_json: bool) -> Iterator[None]:
    """Write the JSON line of a failure and raise it again."""
    try:
        yield
    except LocalspecError as error:
        if as_json:
            Terminal().say_record(error_record(error))
        raise


@contextmanager
def reported_misuse(*, as_json: bool) -> Iterator[None]:
    """Write the JSON line of an error of click, such as an unknown flag, and raise it again."""
    try:
        yield
    except click.UsageError as error:
        if as_json:
            hint = f"{error.ctx.command_path} --help lists the commands and flags." if error.ctx else ""
            Terminal().say_record(error_record(UsageError(error.format_message(), hint=hint)))
        raise
