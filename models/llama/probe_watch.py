"""Supervision of a probe's child: a time limit by the size of the model, and the child's last output when it died."""

import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

import models.errors
from models.abort import AbortFlag
from models.errors import Cancelled, LocalspecError
from models.llama.bindings import NO_BACKTRACE
from models.llama.probe_child import REPORT
from models.system.children import end, start

if TYPE_CHECKING:
    import subprocess

_STARTING = 60.0
"""Seconds for the engine to start, before it opens the file: they depend on the machine alone."""
_LONGEST_WAIT = 6
"""Times its seconds that a child may take where other programs hold the cores, or the disk is slow."""
_POLL = 0.05
_MOST_SAID = 1 << 16
TIMED_OUT = 1 << 40
"""Stands for an exit code where a child was ended because it took too long; no system has it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """End of a child process."""

    code: int
    """Its exit code; negative for a signal, TIMED_OUT where it was ended here."""
    error: LocalspecError | None = None
    """Error that the child reported; None for none."""
    output: str = ""
    """The last line of what libraries wrote, an assertion that failed for the most part."""
    began: bool = False
    """True if the engine had started: the failure then comes from the file."""


def watch(command: Sequence[str], seconds: float, variables: Mapping[str, str], abort: AbortFlag) -> Outcome:
    """Run a child to its end, or end it; raises Cancelled when the abort flag is raised.

    `seconds` count from when the engine has started, and are seconds of processor time. A child that computes less, as
    on a busy machine, has six times as many by the clock.
    """
    with _folder() as name:
        folder = Path(name)
        report = folder / "report"
        environment = {**os.environ, **variables, REPORT: str(report), NO_BACKTRACE: "1"}
        with (folder / "said").open("w+b") as output, _child(command, output, environment) as child:
            code = _ended(child, report, seconds, abort)
            end(child)
            lines = [*_lines(report)]
            return Outcome(code, _error_of(lines), _last_line(output), any("ready" in line for line in lines))


def _folder() -> "tempfile.TemporaryDirectory[str]":
    try:
        return tempfile.TemporaryDirectory(prefix="localspec-", ignore_cleanup_errors=True)
    except OSError as error:
        raise LocalspecError("No temporary file can be written.", cause=str(error), hint="Set TMPDIR.") from error


@contextmanager
def _child(command: Sequence[str], output: Any, environment: Mapping[str, str]) -> "Iterator[subprocess.Popen[bytes]]":
    child = start(command, out=output, err=output, environment=environment)
    try:
        yield child
    finally:
        end(child)


def _ended(child: "subprocess.Popen[bytes]", report: Path, seconds: float, abort: AbortFlag) -> int:
    started, process, began = time.monotonic(), 0, 0.0
    while (code := child.poll()) is None:
        if abort.is_set:
            raise Cancelled("Trying the build was stopped.")
        if not process and (process := _ready(report)):
            began = time.monotonic()
        spent = time.monotonic() - (began or started)
        most = seconds if process else _STARTING
        if spent > most and (_computed(process) > most or spent > _LONGEST_WAIT * most):
            return TIMED_OUT
        time.sleep(_POLL)
    return code


def _ready(report: Path) -> int:
    """Return the process that has started its engine; 0 for none yet."""
    return next((int(line["ready"]) for line in _lines(report) if isinstance(line.get("ready"), int)), 0)


def _computed(process: int) -> float:
    """Return the seconds of processor time that a process has taken; 0 for none yet, and for one that is gone."""
    try:
        times = psutil.Process(process).cpu_times() if process else None
    except psutil.Error:
        return 0.0
    return times.user + times.system if times else 0.0


def _lines(report: Path) -> Iterator[dict[str, Any]]:
    with suppress(OSError):
        for line in report.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError):
                if isinstance(message := json.loads(line), dict):
                    yield message


def _error_of(lines: Sequence[Mapping[str, Any]]) -> LocalspecError | None:
    """Return the error that a child told, as its own kind."""
    for line in lines:
        kind = getattr(models.errors, str(line.get("error")), None)
        if isinstance(kind, type) and issubclass(kind, LocalspecError):
            return kind(str(line.get("title")), cause=str(line.get("cause", "")), hint=str(line.get("hint", "")))
    return None


def _last_line(output: Any) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _MOST_SAID))
    lines: list[str] = output.read().decode("utf-8", errors="replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
