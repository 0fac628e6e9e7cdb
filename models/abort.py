"""Abort flag of a pass: set by any thread, polled by llama.cpp's compute threads without calling Python."""

import ctypes


class AbortFlag:
    """Two bytes in C memory: an empty C string means run, a string of length one means stop.

    llama.cpp asks a callback before each graph node whether to stop. A Python callback would need the interpreter lock
    hundreds of times a token, and waits for it while a screen is being drawn; libc's `strlen` over this buffer
    answers the same question without it.
    """

    def __init__(self) -> None:
        self.buffer = ctypes.create_string_buffer(2)

    def set(self) -> None:
        """Ask the decode that is running, and every later one, to stop."""
        self.buffer[0] = b"!"

    def clear(self) -> None:
        """Allow decoding again."""
        self.buffer[0] = b"\0"

    @property
    def is_set(self) -> bool:
        """True after a request to stop."""
        return self.buffer[0] != b"\0"
