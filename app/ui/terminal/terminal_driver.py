"""Textual's driver for Linux and macOS, made safe for closed and stopped terminals and for any bytes.

Textual's own driver ends the app at a byte that is no UTF-8, reads a closed terminal over and over with a whole
processor, and takes the SIGCONT that comes with a closed terminal's SIGHUP for the end of a pause: it then starts a
thread that never ends, nor does the program. It also never learns of a new size where COLUMNS is set, and takes
an escape in a pasted text for a key.
"""

import codecs
import logging
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any, cast

from textual.drivers import linux_driver

from app.ui.terminal.bursts import Bursts
from app.ui.terminal.pasted_escapes import PastedEscapes

_PIECE = 4096
"""Bytes read at once."""
_log = logging.getLogger("localspec.ui")


class TerminalDriver(linux_driver.LinuxDriver):
    """Leaves in order when the terminal is gone, and takes up the screen again only where it was put down."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._file: Any = _Screen(cast("IO[str]", self._file))
        self._has_terminal = False

    def start_application_mode(self) -> None:
        """Take the terminal; an exception within, as of a signal, leaves giving it back to `close`."""
        self._has_terminal = True
        super().start_application_mode()  # type: ignore[no-untyped-call]

    def stop_application_mode(self) -> None:
        """Give the terminal back; `close` does it again where an exception cut this short."""
        super().stop_application_mode()
        self._has_terminal = False

    def close(self) -> None:
        """End the writing thread, after giving the terminal back where that is still to be done."""
        if self._has_terminal and self._writer_thread is not None:
            self.stop_application_mode()
        super().close()

    def run_input_thread(self) -> None:
        """Read keys until the app leaves; a closed terminal raises SIGHUP, as the kernel would."""
        _reading.terminal = self.fileno
        try:
            super().run_input_thread()
        except (EOFError, OSError):
            # The kernel sends no SIGHUP under nohup, or to another session than the terminal's.
            os.kill(os.getpid(), signal.SIGHUP)
        except Exception:
            # Without this thread no key would be read again, not even the one that leaves.
            _log.exception("reading keys failed")
            os.kill(os.getpid(), signal.SIGTERM)

    def _get_terminal_size(self) -> tuple[int, int]:
        """Ask the terminal itself: COLUMNS and LINES, where a shell exports them, tell what it was when it began."""
        with suppress(OSError):
            size = os.get_terminal_size(self.fileno)
            if size.columns and size.lines:
                return size.columns, size.lines
        return super()._get_terminal_size()

    def _sigtstp_application(self, *_: Any) -> None:
        self._soon(super()._sigtstp_application)

    def _sigcont_application(self, *_: Any) -> None:
        self._soon(self._go_on)

    def _soon(self, act: Callable[[], None]) -> None:
        # Not here and now: a signal may meet the app while it is put down or taken up, which leaves it without keys.
        with suppress(RuntimeError):  # and when it is over, without a loop
            self._loop.call_soon_threadsafe(act)

    def _go_on(self) -> None:
        if self._app._exit or not (self._auto_restart and os.isatty(self.fileno)):
            return
        if self._key_thread is not None and self._key_thread.is_alive():
            # SIGSTOP gave no warning: a shell may have drawn on the screen and changed the terminal.
            self.suspend_application_mode()
        self.resume_application_mode()


class _Screen:
    """The output of a screen. Errors of a closed terminal are ignored: they would end the writing thread."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._file.flush()


class _Keys:
    """Decodes what a terminal sends; bytes that are no text become replacement characters, and pastes stay whole."""

    def __init__(self, terminal: int | None = None) -> None:
        self._terminal = terminal
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pasted = PastedEscapes()
        self._bursts = Bursts(self._more, time.monotonic)

    def decode(self, sent: bytes, final: bool = False) -> str:
        """Return the characters that are complete; raises EOFError where the terminal is gone."""
        if not sent and not final:
            raise EOFError
        text = self._decoder.decode(sent, final)
        return self._pasted.hold(text if self._pasted.is_open else self._bursts.mark(text))

    def _more(self, seconds: float) -> str:
        """Return what comes within a time; a character that is cut comes with its rest."""
        if self._terminal is None or not select.select([self._terminal], [], [], seconds)[0]:
            return ""
        # At the end of the terminal the next read tells it once more.
        return self._decoder.decode(os.read(self._terminal, _PIECE))


# The driver makes its decoder by this name alone, and on the thread that reads the terminal.
_reading = threading.local()
linux_driver.getincrementaldecoder = lambda _: lambda: _Keys(getattr(_reading, "terminal", None))  # type: ignore[attr-defined, assignment]
