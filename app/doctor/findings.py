"""What the doctor finds: facts, each with a mark, and a remedy where something is wrong or slow."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Mark(StrEnum):
    """How it is with a thing."""

    OK = "ok"
    NOTE = "note"
    """It works, but slower or less than it could."""
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact."""

    section: str
    name: str
    fact: str
    mark: Mark = Mark.OK
    remedy: str = ""
    values: Mapping[str, object] = field(default_factory=dict)
    """The same for a program, in what JSON has; nothing private."""
    public: str = ""
    """What a bug report says where fact and remedy quote what is the user's own; "" where they don't."""


def size(count: float) -> str:
    """Return bytes as a person reads them."""
    for unit, letter in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{count / unit:.{0 if count >= 100 * unit or unit < 1 << 30 else 1}f} {letter}"
    return f"{count:.0f} bytes"
