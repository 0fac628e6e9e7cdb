"""Memory that this process has locked, and the system's limit of it."""

import sys
from contextlib import suppress
from pathlib import Path

_STATUS = Path("/proc/self/status")
_KIB = 1024


def locked_bytes(status: Path = _STATUS) -> int | None:
    """Return the bytes of this process that can't be swapped out; None where the system does not say."""
    with suppress(OSError, ValueError):
        for line in status.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmLck:"):
                return int(line.split()[1]) * _KIB
    return None


def lock_limit() -> int | None:
    """Return the most bytes that this process may lock, after asking the system for all it gives; None: no limit."""
    if sys.platform == "win32":
        return None
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return None if soft == resource.RLIM_INFINITY else soft
