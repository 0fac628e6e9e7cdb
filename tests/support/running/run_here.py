"""The whole command line in this very process: what a new one would do, without the second that it takes to start."""

import io
import logging
import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest
from run_localspec import environment

from app.command_line.cli import run_command_line


@dataclass(frozen=True, slots=True)
class Done:
    """What a run left behind; named as in `subprocess`."""

    returncode: int
    stdout: str
    stderr: str


class _Typed(io.TextIOWrapper):
    """What is typed, or comes through a pipe."""

    def __init__(self, text: str, *, on_terminal: bool) -> None:
        super().__init__(io.BytesIO(text.encode()), "utf-8")
        self._on_terminal = on_terminal

    def isatty(self) -> bool:
        return self._on_terminal


class _Written(io.TextIOWrapper):
    """What is written to a pipe, which has an encoding, as no `StringIO` has."""

    def __init__(self) -> None:
        self._bytes = io.BytesIO()
        super().__init__(self._bytes, "utf-8", newline="", write_through=True)

    @property
    def text(self) -> str:
        return self._bytes.getvalue().decode()


def localspec_here(
    *arguments: str, home: Path, stdin: str = "", extra: Mapping[str, str] | None = None, typed: str | None = None
) -> Done:
    """Run localspec to its end; `typed` is typed on a terminal, `stdin` comes through a pipe."""
    handlers = list(logging.getLogger("localspec").handlers)
    out, err, wanted = _Written(), _Written(), environment(home, extra)
    keyboard = _Typed(stdin if typed is None else typed, on_terminal=typed is not None)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        for name in set(os.environ) - set(wanted):
            patch.delenv(name)
        for name, value in wanted.items():
            patch.setenv(name, value)
        patch.setattr(sys, "argv", ["localspec", *arguments])
        if "--clean" in arguments:
            # The kernels beside the installed code are those of all tests that run at the time.
            patch.setattr(sys, "pycache_prefix", str(home / "bytecode"))
        patch.setattr(sys, "stdin", keyboard)
        with pytest.raises(SystemExit) as left:
            run_command_line()
    for handler in set(logging.getLogger("localspec").handlers) - set(handlers):
        logging.getLogger("localspec").removeHandler(handler)
        handler.close()
    return Done(int(left.value.code or 0), out.text, err.text)
