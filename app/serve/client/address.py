"""The base URL of a server, read from the URL that a user gives."""

from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import SplitResult, unquote, urlsplit

from models.errors import UsageError

_SCHEMES = ("http", "https")
_HINT = "Give it as in http://127.0.0.1:8080, or http://127.0.0.1:8080#MODEL if the server has several models."


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a server of the OpenAI protocol."""

    base: str
    """Base of its paths, such as http://127.0.0.1:8080/v1, without a slash at the end."""
    model: str = ""
    """The model to request; "": the one that it serves."""
    is_loopback: bool = True
    """Whether requests stay on this machine."""


def read_address(url: str) -> Address:
    """Return the address that a URL stands for; /v1 may be left out, and a model may follow a `#`.

    Raises UsageError, which shows no password.
    """
    parts = _split(url)
    path = parts.path.rstrip("/")
    base = f"{parts.scheme}://{parts.netloc}{path if path.endswith('/v1') else path + '/v1'}"
    return Address(base, unquote(parts.fragment), _is_loopback(parts.hostname or ""))


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        # Asking for the port checks it. A host with a part that is empty or too long is found wrong when it is called.
        _ = parts.port, (parts.hostname or "").encode("idna")
    except ValueError as error:
        raise UsageError("--audit needs the URL of a server.", cause=str(error), hint=_HINT) from error
    if "@" in parts.netloc:
        raise UsageError("--audit accepts no name and password in a URL.", hint="Give the key with --api-key.")
    if parts.scheme not in _SCHEMES or not parts.hostname or parts.query or not url.isprintable() or " " in url:
        raise UsageError(f"--audit {url!r} is not the URL of a server.", hint=_HINT)
    return parts


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
