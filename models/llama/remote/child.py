"""Child process with a target, seen from the program: started, asked, and gone when a worker is lost."""

import logging
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from io import RawIOBase
from typing import IO, Any, cast

from models import errors
from models.abort import AbortFlag
from models.errors import Cancelled, LocalspecError
from models.llama.remote.messages import (
    CONNECTED,
    FAILED,
    PROGRESS,
    READY,
    REFUSED,
    Order,
    Properties,
    receive,
    send,
)
from models.llama.weights.workers import names_of

_POLL_SECONDS = 0.02
"""Seconds between two looks at the abort flag while a pass runs."""
_ANSWER_SECONDS = 30.0
"""Seconds for a process to start and for all workers to greet it; one that serves another program does not."""
_GRACE_SECONDS = 5.0
"""Seconds that a pass has to end after a stop: its layers run elsewhere, where nothing can stop them."""
_PIPE_BYTES = 1 << 20
_SET_PIPE_SIZE = 1031
"""Linux's number of the call that sets a pipe's size: rows of logits are larger than the usual 64 KiB."""
_SAID = 2000
"""Bytes of what a child wrote that are kept for an error."""
_log = logging.getLogger("localspec.workers")
_log.addHandler(logging.NullHandler())


class LostError(LocalspecError):
    """A worker or the child process was lost in the middle of something."""


class Child:
    """A process that holds a target; `load` comes first."""

    def __init__(self, order: Order, abort: AbortFlag) -> None:
        """Start the process; raises OSError."""
        self._workers = order.options.placement.workers
        self._abort = abort
        self._is_connected = False
        self._written: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        # -P: without it a folder "models" in the user's own project would be imported, and run, in place of this one.
        command = (sys.executable, "-P", "-m", "models.llama.remote.host")
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self._written, bufsize=0)
        self._widen()
        self._send(order)

    def load(self, on_progress: Callable[[float], None]) -> Properties:
        """Wait until the model is loaded; raises LocalspecError, and Cancelled at the abort flag."""
        until = time.monotonic() + _ANSWER_SECONDS
        while True:
            kind, value = self._reply(until)
            if kind == CONNECTED:
                until, self._is_connected = float("inf"), True
            elif kind == PROGRESS:
                on_progress(value)
            elif kind == FAILED:
                self.end()
                raise _error(*value)
            else:
                assert kind == READY
                properties: Properties = value
                return properties

    def ask(self, name: str, *arguments: Any) -> tuple[Any, int]:
        """Call a method of the model; return its result and the tokens in the cache then.

        Raises what the method raises, and LostError where the process ended instead.
        """
        self._send((name, arguments))
        kind, value = self._reply(float("inf"))
        if kind == FAILED:
            raise _error(*value[:4])
        if kind == REFUSED:
            raise ValueError(value[0])
        result, length = value
        return result, int(length)

    def end(self) -> None:
        """End the process; calling it twice is fine."""
        with suppress(OSError):
            self._process.kill()
        with suppress(OSError, ValueError):
            self._process.communicate()
        self._written.close()

    def _send(self, message: Any) -> None:
        try:
            send(cast(RawIOBase, self._process.stdin), message)
        except OSError:
            raise self._lost() from None

    def _reply(self, until: float) -> tuple[str, Any]:
        """Return the next message, once there is one; raises LostError, and Cancelled at the abort flag."""
        pipe, stopped = self._process.stdout, float("inf")
        assert pipe is not None
        while not select.select([pipe], [], [], _POLL_SECONDS)[0]:
            now = time.monotonic()
            if self._abort.is_set:
                stopped = min(stopped, now + _GRACE_SECONDS)
            if now > stopped:
                self.end()
                raise Cancelled("Stopped.")
            if now > until:
                self.end()
                raise LostError(
                    f"There is no answer from {names_of(self._workers)}.",
                    hint="A worker serves one program at a time: end the other one, or start the worker again.",
                )
        try:
            kind, value = receive(cast(RawIOBase, pipe))
        except (EOFError, OSError):
            raise self._lost() from None
        return kind, value

    def _lost(self) -> LostError:
        """End what is left of the process; return the error, with the last that was written."""
        said = self._last_words()
        self.end()
        _log.warning("the child process ended: %s", said)
        if not self._is_connected:
            return LostError(
                f"There is no connection to {names_of(self._workers)}.",
                cause=said,
                hint="Start each worker with `localspec worker`, or give its own HOST:PORT to --rpc.",
            )
        return LostError(
            f"The connection to {names_of(self._workers)} was lost, and with it this answer.",
            cause=said,
            hint="Start the workers again; the next question loads the model anew.",
        )

    def _last_words(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        with suppress(OSError, ValueError):
            self._written.seek(0, 2)
            self._written.seek(max(0, self._written.tell() - _SAID))
            lines = self._written.read().decode("utf-8", errors="replace").splitlines()
            named = [line for line in lines if "RPC" in line or "connect" in line]
            # The source line before a failed assertion says nothing to a user.
            return (named or lines or [""])[0].rpartition(".cpp:")[2].lstrip("0123456789: ").strip()
        return ""

    def _widen(self) -> None:
        with suppress(ImportError, OSError, AttributeError):
            import fcntl

            assert self._process.stdout is not None
            fcntl.fcntl(self._process.stdout.fileno(), _SET_PIPE_SIZE, _PIPE_BYTES)


def _error(name: str, title: str, cause: str, hint: str) -> LocalspecError:
    kind = getattr(errors, name, LocalspecError)
    error: LocalspecError = kind(title, cause=cause, hint=hint)
    return error
