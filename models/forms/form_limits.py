"""Limits under which forms are compiled, and the messages between the compiling process and its parent."""

from dataclasses import dataclass

LENGTH = ">I"
"""Format of the length before each message."""
OK, REFUSED, UNREADABLE = "ok", "refused", "unreadable"
READY = b"+"
"""First byte from a process that compiles."""
Job = tuple[str, str]
"""Kind of a form (`SCHEMA`, `TEXT` or `SOURCE`), and its text."""
SCHEMA, TEXT, SOURCE = "schema", "text", "source"
Answer = tuple[str, str, str, str]
"""`OK`, the source, its fault and its tokens as JSON; `REFUSED`, title, cause and hint; `UNREADABLE` and why."""


@dataclass(frozen=True, slots=True)
class FormLimits:
    """Limits of one form. A form of a real program takes milliseconds and some megabytes."""

    characters: int = 1 << 20
    """Characters of a form; what is longer holds Python's lock for a tenth of a second by being copied."""
    values: int = 100_000
    """Values in a schema, all lists and objects within each other taken together."""
    seconds: float = 1.5
    """Processor time to compile it, in seconds."""
    wall_seconds: float = 4.0
    """Time until it is given up, in seconds: the processor may be busy with other things, and a client waits."""
    start_seconds: float = 60.0
    """Time in which a process that compiles has to start, in seconds."""
    memory: int = 256 << 20
    """Bytes to compile it in."""
    forced: int = 1 << 16
    """Bytes of the text that it begins with and leaves no choice about."""


LIMITS = FormLimits()
TOO_LONG = f"It takes longer than {LIMITS.seconds:g} s to compile."
TOO_LARGE = f"It takes more than {LIMITS.memory >> 20} MiB of memory to compile."
TOO_LATE = f"It was not compiled within {LIMITS.wall_seconds:g} s: the processor is busy."
NOT_STARTED = "The process that compiles it did not start."
FORCED = f"It begins with more than {LIMITS.forced:,} bytes that it leaves no choice about."
LONGER = f"It has more than {LIMITS.characters:,} characters."
