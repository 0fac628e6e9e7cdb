"""Compilers side by side, one for each unit: ended together where one fails, takes too long, or nobody waits."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from models.abort import AbortFlag
from models.errors import Cancelled, LocalspecError

_MOST_SAID = 400
_POLL = 0.02
_GRACE_SECONDS = 1
_OTHER = "Name another compiler: CXX=g++ or CXX=clang++."


class CompilerError(LocalspecError):
    """A compiler that can't be used, or did not get to its end."""

    def __init__(self, cause: str, *, hint: str = _OTHER, lasting: bool = False) -> None:
        super().__init__("The kernels can't be compiled.", cause=cause, hint=hint)
        self.lasting = lasting
        """Whether the next try would very likely end in the same way."""


def run_together(commands: Mapping[Path, Sequence[str]], at_once: int, seconds: float, abort: AbortFlag) -> None:
    """Run commands, each by the file for what it says, so many at once and in their order.

    However it ends, none of them goes on after that. Raises CompilerError, and Cancelled where a stop was asked for.
    """
    running: list[_Compiler] = []
    waiting, until = list(commands.items()), time.monotonic() + seconds
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                said, command = waiting.pop(0)
                running.append(_Compiler(command, said))
            # One that has failed stays in the list, to be ended with the others.
            running = [one for one in running if not one.is_done()]
            _check_time(seconds, until, abort)
            time.sleep(_POLL if running else 0)
    finally:
        for one in running:
            one.end()


def _check_time(seconds: float, until: float, abort: AbortFlag) -> None:
    if abort.is_set:
        raise Cancelled("Compiling the kernels was stopped.")
    if time.monotonic() > until:
        raise CompilerError(f"That took over {seconds:g} seconds.", lasting=True)


class _Compiler:
    """A compiler that runs, in a group of its own: it starts others, which do not end with it."""

    def __init__(self, command: Sequence[str], said: Path) -> None:
        self._name, self._said = command[0], said
        try:
            # No pipe, which nobody would read before the end.
            with said.open("wb") as out:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, process_group=0
                )
        except OSError as error:
            # Not to be taken for a place that can't be written.
            raise CompilerError(f"{command[0]} can't be run: {error.strerror}.") from error

    def is_done(self) -> bool:
        """Tell whether it did what it should; raises CompilerError where it ended otherwise."""
        if code := self._process.poll():
            # It may name a folder whose name is no text.
            said = self._said.read_bytes().decode(errors="replace").strip()
            # Ended by a signal it was by somebody: by hand, or by a system without memory.
            raise CompilerError(f"{self._name}: {said[:_MOST_SAID]}", lasting=code > 0)
        return code == 0

    def end(self) -> None:
        """End it and whatever it started; it removes its own files first, if that takes no time."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(OSError):
                os.killpg(self._process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_SECONDS)
