"""Standard input and output, reserved for the protocol."""

import asyncio
import os
import sys
import threading
from typing import BinaryIO

_PIECE = 1 << 16


class Wire:
    """Standard input and output, hidden from all other code in this process.

    Printed text goes to standard error instead: one stray line on standard output, from Python or a C library, would
    break the protocol.
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
        # A thread that waits for a byte can't be interrupted. A daemon thread, unlike those of a pool, keeps no process
        # alive.
        threading.Thread(target=self._read, name="lsp-input", daemon=True).start()

    async def readline(self) -> bytes:
        """Return the next line; b"" at the end."""
        # Let the previous message's handler take its first step. Otherwise, when messages come in bulk, it would see
        # the text as a later one has changed it.
        await asyncio.sleep(0)
        return await self._reader.readline()

    async def readexactly(self, n: int) -> bytes:
        """Return so many bytes, with a question mark for each that is not UTF-8; raises IncompleteReadError.

        Neovim sends files of other encodings unchanged, and counts each such byte as one column. Without that message
        the document would differ from then on.
        """
        body = await self._reader.readexactly(n)
        return body.decode(errors="surrogateescape").encode(errors="replace")

    def write(self, data: bytes) -> None:
        """Write a whole message; an editor that has closed the stream ends the connection."""
        left = memoryview(data)
        try:
            while left:
                left = left[self._output.write(left) :]
        except OSError:
            self.hang_up()

    def close(self) -> None:
        """Do nothing: the descriptors close with the process."""

    def hang_up(self) -> None:
        """Stop reading."""
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
            return b""  # a closed terminal

    def _feed(self, piece: bytes) -> None:
        # A closed reader raises for late bytes.
        if not self._over:
            self._reader.feed_data(piece)
