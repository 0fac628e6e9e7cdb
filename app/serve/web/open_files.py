"""Limit of open connections: each uses one of the files that the system lets a process open."""

import sys
from contextlib import suppress

_COUNTS = sys.platform != "win32"
"""Whether sockets count as files here."""
if _COUNTS:
    import resource

_WANTED = 1024
"""Requested number of open files; some systems begin with 256."""
_SHARE = 3
"""One in this many open files may be a connection."""


def ask_for_files() -> None:
    """Raise the limit of open files as far as the system allows without privileges."""
    if not _COUNTS:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= _WANTED:
        return
    wanted = _WANTED if hard == resource.RLIM_INFINITY else min(_WANTED, hard)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_connections(wanted: int) -> int:
    """Return the maximum number of connections, at most `wanted`; as many again may arrive before one is closed."""
    if not _COUNTS:
        return wanted
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, soft // _SHARE))
