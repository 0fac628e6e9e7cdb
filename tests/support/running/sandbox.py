"""Runs an untrusted program in a child process, and reports whether it reached its end.

Passed means: the program ran to its last line. A child that exits early, with any code, has not passed: only at its
end does it send the secret that the parent gave along. Limits are set on processor time, memory, files and
processes; an audit hook refuses sockets, further processes and changes outside the working directory, which is thrown
away. This contains the mistakes of models; it would not contain a deliberate attack.
"""

import json
import os
import secrets
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

_MOST_TOLD = 4096
"""Bytes that are read of what a child tells."""
_REFUSED = (
    "ctypes.",
    "os.chmod",
    "os.chown",
    "os.exec",
    "os.fork",
    "os.kill",
    "os.link",
    "os.mkdir",
    "os.posix_spawn",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.spawn",
    "os.symlink",
    "os.system",
    "os.truncate",
    "os.utime",
    "pty.",
    "resource.",
    "socket.",
    "subprocess.",
    "syslog.",
)
"""Beginnings of the names of audit events that a program may not cause."""
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program may use up."""

    cpu_seconds: int = 5
    wall_seconds: float = 20.0
    memory_bytes: int = 512 << 20
    file_bytes: int = 1 << 20
    """Size of a file."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a program."""

    passed: bool
    """Whether it ran to its end."""
    why: str
    """What stopped it; "" when nothing did."""


STRICT = Limits()


def run_program(program: str, limits: Limits = STRICT) -> Outcome:
    """Run a Python program on its own, without packages, input, output or network."""
    secret = secrets.token_hex(16)
    request = {"program": program, "secret": secret, "limits": asdict(limits)}
    with TemporaryDirectory() as folder, TemporaryFile() as asked, TemporaryFile() as told:
        asked.write(json.dumps(request).encode())
        asked.seek(0)
        # As isolated as by -I, which would also ignore the seed: sets of strings have one order for all programs.
        child = subprocess.Popen(
            [sys.executable, "-P", "-s", "-S", "-B", os.path.realpath(__file__)],
            cwd=folder,
            env={"PYTHONHASHSEED": "0"},
            stdin=asked,
            stdout=told,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        code = wait_and_kill(child, limits.wall_seconds)
        told.seek(0)
        return _outcome(code, told.read(_MOST_TOLD), secret, limits)


def wait_and_kill(child: "subprocess.Popen[bytes]", seconds: float) -> int | None:
    """Wait for a child that leads a process group and kill whatever is left of it; return its code, None: too late."""
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _outcome(code: int | None, told: bytes, secret: str, limits: Limits) -> Outcome:
    if code is None:
        return Outcome(False, f"took longer than {limits.wall_seconds} s")
    if code < 0:
        return Outcome(False, f"killed by {signal.Signals(-code).name}")
    try:
        answer = json.loads(told)
        return Outcome(answer["secret"] == secret, answer["why"])
    except (ValueError, TypeError, KeyError):
        return Outcome(False, f"left with code {code} before its end")


def _child() -> None:
    """Take a request from standard input, run it, and tell on what was standard output."""
    request = json.load(sys.stdin)
    told = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    _limit(Limits(**request["limits"]))
    sys.addaudithook(partial(_refuse, str(Path.cwd())))
    why = _run(request["program"])
    answer = {"secret": "" if why else request["secret"], "why": why}
    os.write(told, json.dumps(answer).encode())
    # Nothing that the program left to be done at the exit.
    os._exit(0)


def _limit(limits: Limits) -> None:
    import resource

    for kind, soft, hard in (
        # A program that ignores the signal at the first limit is killed at the second.
        (resource.RLIMIT_CPU, limits.cpu_seconds, limits.cpu_seconds + 1),
        (resource.RLIMIT_AS, limits.memory_bytes, limits.memory_bytes),
        (resource.RLIMIT_FSIZE, limits.file_bytes, limits.file_bytes),
        (resource.RLIMIT_NPROC, 0, 0),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        resource.setrlimit(kind, (soft, hard))


def _refuse(folder: str, event: str, args: tuple[Any, ...]) -> None:
    """Raise PermissionError for what a program may not do; the hook can't be taken off again."""
    if event.startswith(_REFUSED):
        raise PermissionError(f"{event} is refused")
    if event == "open" and isinstance(args[2], int) and args[2] & _WRITING and not isinstance(args[0], int):
        path = os.path.realpath(os.fsdecode(args[0]))
        if not path.startswith(folder + os.sep):
            raise PermissionError(f"writing {path} is refused")


def _run(program: str) -> str:
    """Run a program; return what stopped it, "" when nothing did."""
    try:
        exec(compile(program, "program", "exec"), {"__name__": "program"})
    except BaseException as error:
        return f"{type(error).__name__}: {error}"[:500]
    return ""


if __name__ == "__main__":
    _child()
