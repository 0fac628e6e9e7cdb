"""`localspec doctor`: runs every check, even after an error in another."""

import json
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import click

from app.doctor.engine import engine_findings, unusable
from app.doctor.files import file_findings
from app.doctor.findings import Finding, Mark
from app.doctor.machine import machine_findings
from app.doctor.private import Private
from app.doctor.report import lines, record
from app.doctor.settings import setting_findings
from app.doctor.terminals import terminal_findings
from app.doctor.versions import version_findings
from app.shell.paths import machine_memory
from app.shell.terminal import Terminal
from models.errors import LocalspecError
from models.llama.devices import ask_child

_log = logging.getLogger("localspec.doctor")


def run_doctor(group: click.Group, model: str, *, as_json: bool) -> int:
    """Print the findings; return 1 if there is a problem."""
    terminal, private = Terminal(), Private()
    terminal.progress("Checking the engine")
    findings = look(group, model)
    code = int(any(finding.mark is Mark.PROBLEM for finding in findings))
    if as_json:
        terminal.say(json.dumps(record(findings, private, code)) + "\n")
    else:
        terminal.say("\n".join(lines(findings, private)) + "\n")
    return code


def look(group: click.Group, model: str) -> list[Finding]:
    """Return all findings, the engine's first; the other checks run while a child process loads the engine."""
    with ThreadPoolExecutor(1) as beside:
        engine = beside.submit(_whole, "engine", lambda: _engine(model))
        rest = [
            *_whole("machine", machine_findings),
            *_whole("files", file_findings),
            *_whole("terminal", terminal_findings),
            *_whole("settings", lambda: setting_findings(group)),
            *_whole("versions", version_findings),
        ]
        return [*engine.result(), *rest]


def _whole(section: str, findings: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """Return the findings of a section: an error in one section must not hide the others."""
    found: list[Finding] = []
    try:
        # Findings before the error stay in the list.
        found.extend(findings())
    except LocalspecError as error:
        fact = f"further checks failed: {error.title} {error.cause}"
        found.append(Finding(section, "rest", fact, Mark.PROBLEM, error.hint, public=type(error).__name__))
    except Exception as error:
        _log.exception("%s can't be looked at", section)
        fact, remedy = f"further checks failed: {type(error).__name__}: {error}", "See the log, and report this error."
        found.append(Finding(section, "rest", fact, Mark.PROBLEM, remedy, public=type(error).__name__))
    return found


def _engine(model: str) -> Iterator[Finding]:
    try:
        build = ask_child()
    except LocalspecError as error:
        yield unusable(error)
        return
    yield from engine_findings(build, model, machine_memory())
