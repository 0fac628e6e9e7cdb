"""Child processes that end with this one: each is a process group, which a keeper ends when its parent is gone.

A process that is killed runs no `finally`; without a keeper its compilers, or a first decode that hangs, would go on
for hours.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

_KEEPER = Path(__file__).with_name("keeper.py")
_KEPT = sys.platform != "win32"
_GRACE_SECONDS = 1


def start(
    command: Sequence[str], *, out: int | IO[bytes], err: int | IO[bytes], environment: Mapping[str, str] | None = None
) -> "subprocess.Popen[bytes]":
    """Start a command, with nothing to read, in a group of its own; raises OSError for one that can't be run.

    `end` it, or `release` it where it has ended by itself.
    """
    if not _KEPT:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment)
    if shutil.which(command[0]) is None:
        raise FileNotFoundError(2, "No such file or directory", command[0])
    # -I and -S: neither the user's variables nor packages of an environment are part of so small a program.
    kept = [sys.executable, "-I", "-S", str(_KEEPER), *command]
    return subprocess.Popen(kept, stdin=subprocess.PIPE, stdout=out, stderr=err, env=environment, process_group=0)


def end(child: "subprocess.Popen[bytes]", *, gently: bool = False) -> None:
    """End a command with all that it started; gently, it has a second to remove its files."""
    numbers = (*([signal.SIGTERM] if gently else []), getattr(signal, "SIGKILL", signal.SIGTERM))
    for number in numbers:
        with suppress(OSError):
            # Also of a command that has ended: what it started may go on.
            os.killpg(child.pid, number) if _KEPT else child.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE_SECONDS)
    child.wait()
    release(child)


def release(child: "subprocess.Popen[bytes]") -> None:
    """Let go of a command that has ended by itself."""
    if child.stdin is not None:
        child.stdin.close()
