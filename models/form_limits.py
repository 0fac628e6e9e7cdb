"""Limits under which forms are compiled, and what the compiling process and its parent say to each other."""

from dataclasses import dataclass

LENGTH = ">I"
"""Format of the length before each message."""
OK, REFUSED, UNREADABLE = "ok", "refused", "unreadable"
Job = tuple[str, str]
"""Kind of a form (`SCHEMA`, `TEXT` or `SOURCE`), and its text."""
SCHEMA, TEXT, SOURCE = "schema", "text", "source"
Answer = tuple[str, str, str, str]
"""`OK`, the source and its fault; `REFUSED`, title, cause and hint; `UNREADABLE` and why."""


@dataclass(frozen=True, slots=True)
class FormLimits:
    """What one form may take. A form of a real program takes milliseconds and some megabytes."""

    characters: int = 1 << 20
    """Characters of a form; what is longer holds Python's lock for a tenth of a second by being copied."""
    seconds: float = 2.0
    """Processor time to compile it, in seconds."""
    wall_seconds: float = 20.0
    """Time until it is given up, in seconds: the processor may be busy with other things."""
    memory: int = 256 << 20
    """Bytes to compile it in."""


LIMITS = FormLimits()
TOO_LONG = f"It takes longer than {LIMITS.seconds:g} s to compile."
TOO_LARGE = f"It takes more than {LIMITS.memory >> 20} MiB of memory to compile."
LONGER = f"It has more than {LIMITS.characters:,} characters."
