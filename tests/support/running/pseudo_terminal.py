"""A program on a terminal of its own: its bytes are kept, and drawn in memory on request."""

import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from fcntl import ioctl
from functools import partial
from pathlib import Path
from typing import Any

import pyte
from run_localspec import ROOT, environment

ENDLESS = ("-m", "app", "run", "toy", "--seed", "3", "-c", "200000", "--temp", "0", "--draft", "off", "--stop", "~")
"""A chat with endless answers, until a test stops them."""
CONVERSATIONS = ".local/share/localspec/conversations.db"
"""Path of the saved conversations in a chat's home."""


def _as_from_a_terminal(*, controls: bool) -> None:
    """Let a child process heed all keys of its terminal, also where the tests run in the background of a shell."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    if controls:
        # Only the terminal of a session tells it of another size.
        ioctl(0, termios.TIOCSCTTY, 0)


class PseudoTerminal:
    """A terminal that is read all the time, as a real one is; a program that it holds up would wait."""

    def __init__(
        self,
        arguments: Sequence[str],
        home: Path,
        size: tuple[int, int] = (100, 30),
        extra: Mapping[str, str | None] | None = None,
        controls: bool = True,
    ) -> None:
        """Start Python with these arguments; `size` is columns and lines, a variable that is None is not set.

        A program that the terminal does not control gets no signal when it is closed.
        """
        variables = {**environment(home), "TERM": "xterm-256color", **(extra or {})}
        self.screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self.screen)
        self._drawn = 0
        self._gone = False
        self.bytes = bytearray()
        """All that was written."""
        self._ends: list[int] = []
        self._times: list[float] = []
        self._own, theirs = pty.openpty()
        self.resize(*size)
        self.modes = self.modes_now()
        """The terminal's initial modes."""
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env={name: value for name, value in variables.items() if value is not None},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=partial(_as_from_a_terminal, controls=controls),
        )
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def modes_now(self) -> list[Any]:
        """Return what the terminal does with keys: echo, whole lines, signals."""
        return termios.tcgetattr(self._own)

    def resize(self, columns: int, lines: int) -> None:
        ioctl(self._own, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    @property
    def text(self) -> str:
        """What is to be seen."""
        end = len(self.bytes)
        self._stream.feed(bytes(self.bytes[self._drawn : end]))
        self._drawn = end
        return "\n".join(line.rstrip() for line in self.screen.display)

    def type(self, text: str) -> None:
        self.type_bytes(text.encode())

    def type_bytes(self, keys: bytes) -> None:
        os.write(self._own, keys)

    def written_at(self, place: int) -> float:
        """Return when a byte came, on the clock of `time.perf_counter`."""
        return self._times[bisect_right(self._ends, place)]

    def wait_for(self, words: str, seconds: float = 90.0) -> None:
        self.wait_until(lambda: words in self.text, seconds)

    def wait_until(self, condition: Callable[[], object], seconds: float = 90.0, pause: float = 0.02) -> None:
        end = time.monotonic() + seconds
        while not condition():
            alive = self.process.poll() is None and time.monotonic() < end
            assert alive or condition(), (
                f"waited in vain; the screen:\
{self.text}"
            )
            time.sleep(pause)

    def hang_up(self) -> None:
        """Close the terminal; the reader notices that only after a further byte."""
        self._gone = True
        self._reader.join(30)
        os.close(self._own)

    def exit_code(self) -> int:
        """Wait for the end of the program, and of what it wrote."""
        code = self.process.wait(60)
        self._reader.join(5)
        return code

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        # With the last writer gone the reader ends; the terminal must not be closed while it is read.
        if not self._gone:
            self._reader.join(5)
            os.close(self._own)

    def _read(self) -> None:
        while not self._gone:
            try:
                read = os.read(self._own, 65536)
            except OSError:
                return
            if not read:
                return
            now = time.perf_counter()
            self.bytes += read
            self._times.append(now)
            self._ends.append(len(self.bytes))
