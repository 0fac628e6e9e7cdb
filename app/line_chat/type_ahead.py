"""Type-ahead of the line chat: the terminal keeps all keys typed during an answer."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def type_ahead_kept() -> Iterator[None]:
    """Keep all type-ahead in the terminal during the block.

    By itself it drops what is beyond 4,095 bytes of a line, and all that was typed at Ctrl-C.
    """
    try:
        import termios
    except ImportError:
        yield
        return
    try:
        terminal = sys.stdin.fileno()
        before = termios.tcgetattr(terminal) if os.isatty(terminal) else None
    except (OSError, ValueError, termios.error):
        before = None
    if before is None:
        yield
        return
    during = [*before[:6], [*before[6]]]
    during[3] = (before[3] | termios.NOFLSH) & ~termios.ICANON
    during[6][termios.VMIN], during[6][termios.VTIME] = 1, 0
    with suppress(termios.error):
        termios.tcsetattr(terminal, termios.TCSANOW, during)
    try:
        yield
    finally:
        # A terminal that is gone has no modes.
        with suppress(termios.error):
            termios.tcsetattr(terminal, termios.TCSANOW, before)
