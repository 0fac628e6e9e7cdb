"""Host names and addresses of a server."""

import socket
from ipaddress import ip_address

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def is_loopback(host: str) -> bool:
    """Tell whether a name or address is reachable from this machine alone."""
    name = host.strip("[]").lower()
    return name == "localhost" or (is_address(name) and ip_address(name).is_loopback)


def is_everywhere(host: str) -> bool:
    """Tell whether a host to listen on means all addresses of this machine, as 0.0.0.0 and 0 do."""
    try:
        # Parsed as the system parses it, and never looked up.
        found = socket.getaddrinfo(host.strip("[]"), None, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return False
    return any(ip_address(str(address[0])).is_unspecified for *_, address in found)


def is_address(name: str) -> bool:
    """Tell whether this is an IP address. A name could be pointed anywhere by its owner."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def name_of(host: str) -> str:
    """Return the name in a Host header, without its port."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host
