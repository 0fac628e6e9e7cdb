"""How many connections the system lets one process have: each takes one of the files that it may open."""

import sys
from contextlib import suppress

_COUNTS = sys.platform != "win32"
"""Whether sockets are files here."""
if _COUNTS:
    import resource

_WANTED = 1024
"""Files that are asked for; some systems begin with 256."""
_SHARE = 3
"""One file in so many may be a connection."""


def ask_for_files() -> None:
    """Ask the system for as many open files as a server needs, as far as it gives them without a password."""
    if not _COUNTS:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= _WANTED:
        return
    wanted = _WANTED if hard == resource.RLIM_INFINITY else min(_WANTED, hard)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_connections(wanted: int) -> int:
    """Return how many connections may be open, at most `wanted`: as many again may come before one is closed."""
    if not _COUNTS:
        return wanted
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, soft // _SHARE))
