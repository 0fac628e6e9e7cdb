"""Compiler processes side by side, one for each unit: ended together when one fails or takes too long."""

import errno
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from models.abort import AbortFlag
from models.errors import Cancelled, LocalspecError
from models.system.children import end, release, start

_MOST_SAID = 400
_POLL = 0.02
_NOT_RUN = 127
_BUSY = 1.5
"""Processes that want each core from which on a machine is busy: the compilers alone are one for each."""
_NO_ROOM = ("no space left", "quota exceeded", "read-only file system", "file too large")
"""Parts of a compiler's or the system's messages about a path that can't be written."""
_PASSING = (
    "input/output error", "out of memory", "cannot allocate", "memory exhausted", "killed", "terminated signal",
    "too many open files", "resource temporarily unavailable", "text file busy",
)  # fmt: skip
"""Parts of its messages about a shortage that may be over at the next start."""
_OTHER = "Name another compiler: CXX=g++ or CXX=clang++."


class CompilerError(LocalspecError):
    """A compiler that can't be used, or did not get to its end."""

    def __init__(self, cause: str, *, hint: str = _OTHER, lasting: bool = False) -> None:
        super().__init__("The kernels can't be compiled.", cause=cause, hint=hint)
        self.lasting = lasting
        """True if the next try would very likely fail too."""


def run_together(commands: Mapping[Path, Sequence[str]], at_once: int, seconds: float, abort: AbortFlag) -> None:
    """Run commands, each by the file for what it says, so many at once and in their order.

    However it ends, none of them goes on after that. Raises CompilerError, and Cancelled where a stop was asked for.
    """
    running: list[_Compiler] = []
    waiting, until = list(commands.items()), time.monotonic() + seconds
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                output, command = waiting.pop(0)
                running.append(_Compiler(command, output))
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
        # Beside other programs that hold the cores it may take any time, and says nothing of the next start.
        raise CompilerError(f"That took over {seconds:g} seconds.", lasting=not _is_busy())


def _is_busy() -> bool:
    """Return whether many more processes wanted a core, in the last minutes, than there are cores."""
    return hasattr(os, "getloadavg") and os.getloadavg()[1] > _BUSY * (os.cpu_count() or 1)


class _Compiler:
    """A compiler that runs, with what it starts, until its own end or that of this process."""

    def __init__(self, command: Sequence[str], output: Path) -> None:
        self._name, self._output = command[0], output
        # In English, whatever the language of the user: some of what it says is looked for.
        environment = {**os.environ, "LC_ALL": "C"}
        # No pipe, which would fill up unread.
        with output.open("wb") as out:
            try:
                self._process = start(command, out=out, err=out, environment=environment)
            except OSError as error:
                # Not to be taken for a place that can't be written.
                raise CompilerError(f"{command[0]} can't be run: {error.strerror}.") from error

    def is_done(self) -> bool:
        """Return whether it has ended; raises CompilerError, and OSError for a full disk, where it failed."""
        if code := self._process.poll():
            # It may name a folder whose name is no text.
            output = self._output.read_bytes().decode(errors="replace").strip()
            words = output.lower()
            if any(sign in words for sign in _NO_ROOM):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._output.parent))
            # A signal says nothing of a compiler: it was sent by hand, or by a system without memory.
            lasting = 0 < code != _NOT_RUN and bool(output) and not any(sign in words for sign in _PASSING)
            raise CompilerError(f"{self._name}: {output[:_MOST_SAID]}", lasting=lasting)
        if code == 0:
            release(self._process)
        return code == 0

    def end(self) -> None:
        """End it and whatever it started; it removes its own files first, if that takes no time."""
        end(self._process, gently=True)
