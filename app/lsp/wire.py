"""The two streams of the process that carry the protocol, and nothing but the protocol."""

import asyncio
import os
import sys
import threading
from typing import BinaryIO

_PIECE = 1 << 16


class Wire:
    """Standard input and output, taken out of the reach of everything else in this process.

    What is printed from now on goes to standard error: one stray line on standard output, from this program or from a
    library in C, and the editor loses the thread.
    """

    def __init__(self) -> None:
        sys.stdout.flush()
        self._input: BinaryIO = os.fdopen(os.dup(0), "rb", buffering=0)
        self._output: BinaryIO = os.fdopen(os.dup(1), "wb", buffering=0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        os.close(nothing)
        self._reader = asyncio.StreamReader()
        self._loop = asyncio.get_running_loop()
        self._over = False
        # Nobody can interrupt a thread that waits for a byte. As a daemon it keeps no process alive, which the
        # threads of a pool would.
        threading.Thread(target=self._read, name="lsp-input", daemon=True).start()

    async def readline(self) -> bytes:
        """Return the next line; b"" at the end."""
        # What the message before has started gets its first step now. When several messages come at once, it would
        # else see the text as a later one has changed it.
        await asyncio.sleep(0)
        return await self._reader.readline()

    async def readexactly(self, n: int) -> bytes:
        """Return so many bytes, with a question mark for each that is not UTF-8; raises IncompleteReadError.

        Neovim sends what is in a file of another encoding as it is, and counts each such byte as one column. Without
        the message that they are in, the document would be another from then on.
        """
        body = await self._reader.readexactly(n)
        return body.decode(errors="surrogateescape").encode(errors="replace")

    def write(self, data: bytes) -> None:
        """Write a message, whole; an editor that no longer listens ends the conversation."""
        left = memoryview(data)
        try:
            while left:
                left = left[self._output.write(left) :]
        except OSError:
            self.hang_up()

    def close(self) -> None:
        """Do nothing: the descriptors go with the process."""

    def hang_up(self) -> None:
        """Read no more."""
        if not self._over:
            self._over = True
            self._reader.feed_eof()

    def _read(self) -> None:
        try:
            while piece := self._piece():
                self._loop.call_soon_threadsafe(self._feed, piece)
            self._loop.call_soon_threadsafe(self.hang_up)
        except RuntimeError:
            return  # the loop is closed already

    def _piece(self) -> bytes:
        try:
            return self._input.read(_PIECE)
        except OSError:
            return b""  # a terminal that is gone

    def _feed(self, piece: bytes) -> None:
        # A reader that was closed refuses what comes late.
        if not self._over:
            self._reader.feed_data(piece)
