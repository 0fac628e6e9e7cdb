"""Trial compilation of a form in a child process, so that no form can exhaust this process's time or memory.

The library that compiles forms bounds some constructs and not others: 24 patterns in one `allOf` take seven gigabytes.
A process that can be ended bounds all of them. It is started for the first form (0.2 s), stays, and is asked through a
pipe (about a millisecond for a small form); a form that was compiled once is remembered.
"""

import atexit
import hashlib
import pickle
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

import psutil

from models.errors import UsageError
from models.forms.form_limits import (
    LENGTH,
    LIMITS,
    LONGER,
    NOT_STARTED,
    OK,
    READY,
    REFUSED,
    SOURCE,
    TOO_LARGE,
    TOO_LATE,
    TOO_LONG,
    Answer,
    Job,
)

ENDED, LATE = "ended", "late"
"""Answers in place of a process that took too much, and of one that had no time: that says nothing of the form."""

_PROCESSES = 2
"""Children at once; each may take the memory of `LIMITS`."""
_POLL = 0.05
"""Seconds between two readings of a child's memory."""
_REMEMBERED = 16 << 20
"""Characters of remembered answers, all together."""


class TooCostlyError(ValueError):
    """A form that can't be compiled within the limits; its text says which limit."""


def compiled(kind: str, text: str) -> tuple[str, str, str]:
    """Return a form as llguidance reads it, what is wrong with it, and the tokens it names as JSON ("" for none).

    Raises UsageError and ValueError as the compiler does, and TooCostlyError for what passes the limits.
    """
    if len(text) > LIMITS.characters:
        raise TooCostlyError(LONGER)
    status, first, second, third = _answers.get((kind, text), lambda: _ask((kind, text)))
    if status == REFUSED:
        raise UsageError(first, cause=second, hint=third)
    if status in (ENDED, LATE) or first == TOO_LARGE:
        raise TooCostlyError(first)
    if status != OK:
        raise ValueError(first)
    return first, second, third


def fault(source: str) -> str:
    """Return what is wrong with a form that llguidance can read; "" for nothing."""
    try:
        return compiled(SOURCE, source)[1]
    except ValueError as error:
        return str(error)


class _Answers:
    """Answers to the forms of late, by a hash of each."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Answer] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, job: Job, ask: Callable[[], Answer]) -> Answer:
        """Return the answer to a job, asked for if it is new."""
        key = hashlib.sha256("\0".join(job).encode(errors="surrogatepass")).digest()
        with self._lock:
            if (known := self._known.get(key)) is not None:
                self._known.move_to_end(key)
                return known
        answer = ask()
        with self._lock:
            if key not in self._known and answer[0] != LATE:
                self._known[key] = answer
                self._size += sum(map(len, answer))
            while self._size > _REMEMBERED:
                self._size -= sum(map(len, self._known.popitem(last=False)[1]))
        return answer


class _Child:
    """A process that compiles; started by its first job, and again after one that ended it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, job: Job) -> Answer:
        """Return the answer to a job; the process is ended where it takes too much."""
        # One that was ended while it was idle, by the system or with its terminal, says nothing about this form.
        process = self._process if self._process and self._process.poll() is None else self._started()
        if process is None:
            return LATE, NOT_STARTED, "", ""
        watch = _Watch(process, LIMITS.wall_seconds)
        try:
            message = pickle.dumps(job)
            pipe, answers = process.stdin, process.stdout
            assert pipe is not None
            assert answers is not None
            with watch:
                pipe.write(struct.pack(LENGTH, len(message)) + message)
                pipe.flush()
                head = answers.read(struct.calcsize(LENGTH))
                body = answers.read(*struct.unpack(LENGTH, head)) if len(head) == struct.calcsize(LENGTH) else b""
        except BrokenPipeError:
            body = b""
        except BaseException:
            # Ctrl-C in the middle of an answer: the rest of it would be taken for that of the next form.
            self.end()
            raise
        if body:
            return _read(body)
        self.end()
        why = watch.why or _why(process.returncode)
        return LATE if why == TOO_LATE else ENDED, why, "", ""

    def end(self) -> None:
        """End the process."""
        if self._process is None:
            return
        self._process.kill()
        self._process.communicate()
        self._process = None

    def _started(self) -> "subprocess.Popen[bytes] | None":
        """Start the process, and wait until it is ready; None where it does not start."""
        self.end()
        # -P: without it a folder "models" in the user's own project would be imported, and run, in place of this one.
        command = (sys.executable, "-P", "-m", "models.forms.form_child")
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        try:
            self._process = process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nothing)
        except OSError:
            return None
        assert process.stdout is not None
        with _Watch(process, LIMITS.start_seconds):
            is_ready = process.stdout.read(len(READY)) == READY
        if not is_ready:
            self.end()
        return self._process


class _Watch:
    """Ends a process that takes too long, or too much memory where the system itself does not see to it."""

    def __init__(self, process: "subprocess.Popen[bytes]", seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self.why = ""
        """Limit that was passed; "" for none."""
        self._process = process
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_POLL):
            if time.monotonic() > self._until:
                self.why = TOO_LATE
            elif _memory(self._process.pid) > LIMITS.memory:
                self.why = TOO_LARGE
            if self.why:
                self._process.kill()
                return


def _memory(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def _read(body: bytes) -> Answer:
    answer: Answer = pickle.loads(body)
    return answer


def _why(code: int) -> str:
    """Return which limit a process died of, by its exit code: a profiling timer's signal, or a failed allocation."""
    return TOO_LONG if code == -getattr(signal, "SIGPROF", 0) else TOO_LARGE


class _Children:
    """Processes that compile, as many as are wanted at once up to a limit."""

    def __init__(self) -> None:
        self._places = threading.BoundedSemaphore(_PROCESSES)
        self._idle = [_Child() for _ in range(_PROCESSES)]

    def ask(self, job: Job) -> Answer:
        """Return the answer to a job, of the process that was used last of those that are free."""
        with self._places:
            child = self._idle.pop()
            try:
                return child.ask(job)
            finally:
                self._idle.append(child)

    def end(self) -> None:
        """End all of them that do nothing."""
        for child in self._idle:
            child.end()


_answers = _Answers()
_children = _Children()
_ask = _children.ask
atexit.register(_children.end)
