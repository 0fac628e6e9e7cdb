"""Errors of requests to the hub, explained to the user; and which of them are worth another attempt."""

import errno
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from models.errors import LocalspecError, ModelFileError
from models.library.hub_files import HubFile
from models.system.installing import pip_command

_PASSING = (408, 429, 500, 502, 503, 504)
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _TOO_MANY, _BROKEN = 401, 403, 404, 429, 500
_TOKEN = "Set HF_TOKEN to a token that may read it, or log in with `hf auth login`."
_OTHER_TOKEN = "Invalid credentials"
"""Beginning of the hub's reply to an unknown token, for every repository."""
_KEPT = "What has arrived is kept, and the same command resumes."
_PROXIES = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")
_SECRET = ("HF_TOKEN", *_PROXIES)
"""Variables whose values are not shown: a proxy's may have a password in it."""
_FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))
_USED_UP = re.compile(r"r\s*=\s*0\s*;\s*t\s*=\s*([0-9]{1,9})\b")
"""The hub's own way to say that no request is left, and in how many seconds there will be."""
_SHOWN = 16
"""Bytes of an answer in place of a file's."""
_FILES = ("SSL_CERT_FILE", "SSLKEYLOGFILE", "HF_TOKEN_PATH")
_OTHERS = ("HF_ENDPOINT", "HF_HUB_DOWNLOAD_TIMEOUT", "HF_HUB_ETAG_TIMEOUT", *_PROXIES)
_READ: tuple[tuple[type[Exception], tuple[str, ...], str], ...] = (
    (ImportError, _PROXIES, f"A SOCKS proxy needs another package: {pip_command('install', 'socksio')}."),
    (UnicodeError, ("HF_TOKEN", "HF_ENDPOINT"), "A token that `hf auth login` stored counts as well."),
    (OSError, _FILES, "Each names a file, which must be there and readable."),
    (Exception, _OTHERS, "Unset what is not needed."),
)
"""For each kind of error the variables that lead to it, and what else may help; the first kind that fits counts."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A request that failed."""

    repo: str
    address: str
    """Of the server."""
    message: str
    """In its words, or those of the network."""
    status: int | None = None
    """Of HTTP; None where no answer came to its end."""
    code: str = ""
    """Code of the hub, such as "GatedRepo"."""
    wait: float | None = None
    """Seconds that the server asks to wait."""
    cut: bool = True
    """Without an answer: whether the network is to blame, not the address."""

    @property
    def passes(self) -> bool:
        """True if another attempt may succeed."""
        return self.cut if self.status is None else self.status in _PASSING

    @property
    def title(self) -> str:
        """The failure in a sentence."""
        if self.status is None:
            return f"The connection to {self.address} failed."
        if self.status == _TOO_MANY:
            return f"{self.address} asks for fewer requests."
        return f"{self.address} answers with error {self.status}."


def retry_after(status: int, headers: Mapping[str, str]) -> float | None:
    """Return the seconds that an answer asks to wait; None where it says nothing of it."""
    # On every answer of the hub: it is the reason for those alone that refuse one request too many.
    if status == _TOO_MANY and (used_up := _USED_UP.search(headers.get("RateLimit", ""))):
        return float(used_up[1]) + 1
    wait = headers.get("Retry-After", "")
    return float(wait) if wait.isdecimal() else None


def error_for(trouble: Trouble) -> LocalspecError:
    """Return the error for the user, with what to do next."""
    repo, status, code = trouble.repo, trouble.status, trouble.code
    if code == "GatedRepo":
        hint = f"Ask for access at {trouble.address}/{repo}. {_TOKEN}"
        return LocalspecError(f"{repo} is open only to users its owner has approved.", cause=trouble.message, hint=hint)
    if code == "RevisionNotFound":
        return _missing(f"{repo} has no such revision.", trouble, "Leave it out to get the newest one.")
    if code == "EntryNotFound":
        return _missing(f"A file of {repo} is not there.", trouble, "Its owner may be changing it; try again later.")
    if status == _UNAUTHORIZED and trouble.message.startswith(_OTHER_TOKEN):
        hint = "It may have expired or been revoked: unset HF_TOKEN, or log in again with `hf auth login`."
        return LocalspecError(f"{trouble.address} does not accept your token.", cause=trouble.message, hint=hint)
    # Without access to a repository, the hub does not say whether it exists.
    if code == "RepoNotFound" or status == _NOT_FOUND or (status == _UNAUTHORIZED and not code):
        hint = f"Check its spelling. If it is private: {_TOKEN}"
        return _missing(f"{trouble.address} has no repository {repo}, or it is private.", trouble, hint)
    if status in (_UNAUTHORIZED, _FORBIDDEN):
        return LocalspecError(f"{trouble.address} does not let you read {repo}.", cause=trouble.message, hint=_TOKEN)
    return LocalspecError(trouble.title, cause=trouble.message, hint=_later(trouble))


def unusable(error: Exception) -> LocalspecError:
    """Return the error for settings of the environment with which the hub can't even be asked."""
    names, besides = next((names, besides) for kind, names, besides in _READ if isinstance(error, kind))
    found = [_setting(*each) for name in names for each in os.environ.items() if each[0].upper() == name and each[1]]
    # The library's advice is to install what it does not use itself.
    cause = str(error).partition(" Make sure to install")[0]
    hint = f"Check {', '.join(found or names)}. {besides}"
    return LocalspecError("The hub can't be asked with the settings of this environment.", cause=cause, hint=hint)


def other_bytes(
    address: str, name: str, wanted: str, status: int, headers: Mapping[str, str], first: bytes = b""
) -> LocalspecError:
    """Return the error for an answer with other bytes than those of a file that were wanted.

    It is told by its own headers, and by its first bytes where they are given.
    """
    place, size = headers.get("Content-Range", "none"), headers.get("Content-Length", "unknown")
    begun = f", and begins with {first[:_SHOWN]!r}" if first else ""
    return LocalspecError(
        f"{address} sends something other than {name}.",
        cause=f"Asked for {wanted}, it answers with status {status}, range {place}, length {size}{begun}.",
        hint=f"Check HF_ENDPOINT if it is set, and whether this network requires you to log in first. {_KEPT}",
    )


def not_written(file: HubFile, error: OSError) -> LocalspecError:
    """Return the error for a file whose bytes could not be kept."""
    if error.errno in _FULL:
        return LocalspecError(
            f"The disk is full: {file.fetched:,} bytes of {file.size:,} of {file.name} are here.",
            cause=str(error),
            hint=f"Make room on the disk of {file.folder.parent}; the same command then resumes.",
        )
    return LocalspecError(
        f"{file.name} can't be put into {file.folder}.", cause=str(error), hint="Check the folder's permissions."
    )


def _setting(name: str, value: str) -> str:
    return name if name.upper() in _SECRET else f"{name}={value}"


def _missing(title: str, trouble: Trouble, hint: str) -> ModelFileError:
    return ModelFileError(title, cause=trouble.message, hint=hint)


def _later(trouble: Trouble) -> str:
    if trouble.wait:
        return f"Try again in {trouble.wait:,.0f} s. {_KEPT}"
    if trouble.status is None:
        return f"Check the network, and HF_ENDPOINT if it is set. {_KEPT}"
    return f"Try again later. {_KEPT}" if trouble.status >= _BROKEN else _KEPT
