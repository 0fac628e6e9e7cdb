"""Findings of the doctor: facts, each with a mark and, if needed, a remedy."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Mark(StrEnum):
    """Severity of a finding."""

    OK = "ok"
    NOTE = "note"
    """Works, but slower or with less function than possible."""
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact with its mark and remedy."""

    section: str
    name: str
    fact: str
    mark: Mark = Mark.OK
    remedy: str = ""
    values: Mapping[str, object] = field(default_factory=dict)
    """The fact as JSON values, without private text."""
    public: str = ""
    """Text for a bug report in place of a fact or remedy with private text; "" if both are public."""


def size(count: float) -> str:
    """Return a size in bytes as text with a unit."""
    for unit, letter in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{count / unit:.{0 if count >= 100 * unit or unit < 1 << 30 else 1}f} {letter}"
    return f"{count:.0f} bytes"
