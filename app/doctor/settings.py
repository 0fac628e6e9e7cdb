"""Findings about settings files: all mistakes, not only the first."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import click

from app.config.files import inspect, parsed, read
from app.config.places import Source, sources
from app.config.schema import checked
from app.doctor.findings import Finding, Mark
from models.errors import UsageError

_settings = partial(Finding, "settings")


def setting_findings(group: click.Group) -> Iterator[Finding]:
    """Yield one finding per settings file, and one per mistake."""
    try:
        found = sources()
    except OSError:
        fact, remedy = "the working directory was deleted", "Change to a folder that exists."
        yield _settings("project", fact, Mark.PROBLEM, remedy)
        return
    for source in found:
        mistakes = list(_mistakes(source, group))
        yield from (_mistake(source, error) for error in mistakes)
        if not mistakes:
            yield _fine(source, inspect(source, group).waiting())


def _mistake(source: Source, error: UsageError) -> Finding:
    fact = " ".join(part for part in (error.title, error.cause) if part)
    public = f"a mistake in the {source.origin}'s settings"
    return _settings(source.origin, fact, Mark.PROBLEM, error.hint, public=public)


def _fine(source: Source, waiting: Sequence[str]) -> Finding:
    there = source.path.exists()
    if waiting:
        fact = f"{source.path} is not trusted, so these settings are ignored: {', '.join(waiting)}"
        remedy = f"Read the file. To trust it: localspec config trust {shlex.quote(str(source.path.parent))}"
        return _settings(source.origin, fact, Mark.NOTE, remedy, public="not trusted")
    fact = f"{source.path} has no mistakes" if there else f"none; the place for it is {source.path}"
    return _settings(source.origin, fact, values={"there": there}, public="fine" if there else "none")


def _mistakes(source: Source, group: click.Group) -> Iterator[UsageError]:
    try:
        read(source, group)
    except UsageError as error:
        yield from _each(source, group) or [error]


def _each(source: Source, group: click.Group) -> list[UsageError]:
    """Return the mistakes in a file's settings, one by one; none for an unreadable file."""
    try:
        alone = [_refusal(values, group, str(source.path)) for values in _one_by_one(parsed(source))]
    except (UsageError, RecursionError):
        return []
    return [error for error in alone if error is not None]


def _one_by_one(values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from ({key: {name: each}} for name, each in value.items())
        else:
            yield {key: value}


def _refusal(values: Mapping[str, Any], group: click.Group, where: str) -> UsageError | None:
    try:
        checked(values, group, where)
    except UsageError as error:
        return error
    return None
