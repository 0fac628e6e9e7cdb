"""The hub: which files a repository has, the beginning of one, and a download that goes on where it was cut.

The only part of `models` that uses the network, and only when it is called. Its own library keeps nothing of a file
that did not come to its end, so the bytes are read here; names, tokens, errors and locks are the library's.
"""

import errno
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from urllib.parse import quote

from models.errors import LocalspecError
from models.hub_errors import Trouble, other_bytes, told, unusable
from models.hub_files import HubFile, Repository, is_checksum, is_commit, is_safe, link
from models.names import MAIN

_HOME = "https://huggingface.co"
_ON = {"1", "ON", "YES", "TRUE"}
_FORBIDDING = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_PATIENCE = 30.0
"""Seconds without a byte until a connection counts as cut."""
_WAITS = (1.0, 2.0, 4.0, 8.0, 8.0)
"""Seconds before each further attempt; a byte that comes begins them anew."""
_LONGEST_WAIT = 120.0
"""Seconds: a server that asks for more is told of instead."""
_WHOLE, _PARTIAL = 200, 206
"""The status of an answer that is the whole file, and of one that begins where it was asked to."""
_FROM = re.compile(r"bytes (\d+)-")
_FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))
_Result = TypeVar("_Result")
Progress = Callable[[int], None]
"""Takes the bytes that are here."""


def is_offline() -> bool:
    """Tell whether the environment forbids the network, by the hub's own variables."""
    return bool(switched_on(*_FORBIDDING))


def switched_on(*names: str) -> list[str]:
    """Return those variables of the environment that are set, and to no "off"."""
    return [name for name in names if os.environ.get(name, "").upper() in _ON]


class Hub:
    """The hub, or the server that HF_ENDPOINT names. Every method raises LocalspecError for what goes wrong."""

    def __init__(
        self, on_wait: Callable[[str], None] = lambda _: None, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Open nothing yet; `on_wait` is told why there is a pause."""
        if on := switched_on(*_FORBIDDING):
            raise LocalspecError(f"The network is not used: {on[0]} is set.", hint="Unset it to fetch models.")
        self._library = _library()
        self._endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or _HOME
        self._on_wait = on_wait
        self._sleep = sleep
        self._reached = False

    def close(self) -> None:
        """Close connections that are kept for a next request."""
        self._library.close_session()

    def repository(self, repo: str, revision: str = MAIN) -> Repository:
        """Return the model files of a repository."""
        url = f"{self._endpoint}/api/models/{repo}/revision/{quote(revision, safe='')}"
        said = self._patiently(repo, lambda: self._json(url))
        commit, siblings = said.get("sha"), said.get("siblings")
        if not is_commit(commit) or not isinstance(siblings, list):
            raise LocalspecError(
                f"{self._endpoint} does not answer like the hub.",
                hint="Check HF_ENDPOINT if it is set, and whether this network requires you to log in first.",
            )
        name = said["id"] if isinstance(said.get("id"), str) and said["id"].lower() == repo.lower() else repo
        files = (_file(name, commit, revision, sibling) for sibling in siblings)
        return Repository(name, commit, tuple(sorted(filter(None, files), key=lambda file: file.name)))

    def beginning(self, file: HubFile, start: int, end: int) -> bytes:
        """Return the bytes of a file from `start` up to `end`."""

        def read() -> bytes:
            data = b""
            with self._bytes(file, start, end) as response:
                # A server may send the whole file, whatever was asked for.
                before = start - self._begins(file, start, response)
                for piece in response.iter_bytes():
                    data += piece
                    if len(data) >= before + end - start:
                        break
            return data[before : before + end - start]

        return self._patiently(file.repo, read)

    def fetch(self, file: HubFile, progress: Progress = lambda _: None) -> Path:
        """Bring a file into the cache, going on where an earlier attempt ended; return its path.

        Its SHA-256 is compared with the hub's; a file that differs is removed. Ctrl-C leaves what has come.
        """
        if file.is_here:
            return file.path
        try:
            with self._alone(file):
                if not file.has_blob:
                    self._receive(file, progress)
                link(file)
        except OSError as error:
            raise _not_written(file, error) from error
        return file.path

    def _receive(self, file: HubFile, progress: Progress) -> None:
        file.partial.parent.mkdir(parents=True, exist_ok=True)
        with file.partial.open("ab", buffering=0) as target:
            if target.tell() > file.size:
                target.truncate(0)
            self._patiently(file.repo, lambda: self._go_on(file, target, progress), lambda: target.seek(0, 2))
        with file.partial.open("rb") as source:
            found = hashlib.file_digest(source, "sha256").hexdigest()
        if found != file.sha256:
            file.partial.unlink()
            raise LocalspecError(
                f"{file.name} arrived damaged and was removed.",
                cause=f"Its SHA-256 is {found}; the hub says {file.sha256}.",
                hint="Fetch it again; if this repeats, something on the network changes it.",
            )
        file.partial.replace(file.blob)

    def _go_on(self, file: HubFile, target: BinaryIO, progress: Progress) -> None:
        """Receive the rest of a file; raises what `_patiently` tries again after."""
        here = target.seek(0, 2)
        progress(here)
        if here == file.size:
            return
        with self._bytes(file, here, file.size) as response:
            # Where the whole of it comes, what is here goes: a partial file is only ever added to at its end.
            here = target.seek(self._begins(file, here, response))
            target.truncate()
            for piece in response.iter_bytes():
                here += _write(target, piece[: file.size - here])
                progress(here)
        if here < file.size:
            raise self._library.httpx.RemoteProtocolError(f"{here:,} bytes of {file.size:,} came")

    def _begins(self, file: HubFile, asked: int, response: Any) -> int:
        """Return the place in the file of an answer's first byte; raises LocalspecError for what is not from there.

        That is the place that was asked for, or 0 from a server that sends nothing but whole files.
        """
        status, headers = response.status_code, response.headers
        place, size = (headers.get(name, "") for name in ("Content-Range", "Content-Length"))
        found = _FROM.match(place)
        if status == _PARTIAL and found and int(found[1]) == asked:
            return asked
        if status == _WHOLE and size in ("", str(file.size)):
            return 0
        raise other_bytes(self._endpoint, file.name, f"bytes from {asked:,} on of {file.size:,}", status, place, size)

    @contextmanager
    def _bytes(self, file: HubFile, start: int, end: int) -> Iterator[Any]:
        url = f"{self._endpoint}/{file.repo}/resolve/{file.commit}/{quote(file.name)}"
        # Compressed bytes could not be counted, and there is nothing to gain with weights.
        headers = {"Accept-Encoding": "identity", "Range": f"bytes={start}-{end - 1}"}
        with ExitStack() as stack:
            with self._settings() as session:
                headers |= self._headers()
                response = stack.enter_context(session.stream("GET", url, headers=headers, timeout=_PATIENCE))
            self._library.hf_raise_for_status(response)
            yield response

    def _json(self, url: str) -> dict[str, Any]:
        with self._settings() as session:
            response = session.get(url, params={"blobs": True}, headers=self._headers(), timeout=_PATIENCE)
        self._library.hf_raise_for_status(response)
        # What asks guests of a network to log in answers with a page of its own.
        with suppress(ValueError):
            said = response.json()
            if isinstance(said, dict):
                return said
        return {}

    @contextmanager
    def _settings(self) -> Iterator[Any]:
        """Lend a session; raises LocalspecError for settings with which none can be had, or nothing be asked."""
        # What goes wrong on the network comes as an `HTTPError`, which is none of these.
        try:
            yield self._library.get_session()
        except (ImportError, OSError, ValueError, self._library.httpx.InvalidURL) as error:
            raise unusable(error) from error

    def _headers(self) -> dict[str, str]:
        headers: dict[str, str] = self._library.build_hf_headers(headers={"user-agent": "localspec"})
        return headers

    def _patiently(self, repo: str, work: Callable[[], _Result], place: Callable[[], int] = lambda: 0) -> _Result:
        """Do what needs the network, again after what may pass; what moves `place` begins the attempts anew."""
        attempt, before = 0, place()
        while True:
            try:
                result = work()
            except self._library.httpx.HTTPError as error:
                trouble, now = self._trouble(error, repo), place()
                attempt, before = (attempt, before) if now <= before else (0, now)
                if not trouble.passes or attempt == len(_WAITS) or (trouble.wait or 0) > _LONGEST_WAIT:
                    raise told(trouble) from error
                self._pause(trouble, _WAITS[attempt])
                attempt += 1
            else:
                self._reached = True
                return result

    def _pause(self, trouble: Trouble, usual: float) -> None:
        seconds = usual if trouble.wait is None else trouble.wait
        self._on_wait(f"{trouble.title} Trying again in {seconds:.0f} s.")
        self._sleep(seconds)

    def _trouble(self, error: Any, repo: str) -> Trouble:
        httpx = self._library.httpx
        if isinstance(error, self._library.HfHubHTTPError):
            headers, status = error.response.headers, error.response.status_code
            wait = headers.get("Retry-After", "")
            said = error.server_message or f"HTTP status {status}"
            code = headers.get("X-Error-Code", "")
            return Trouble(repo, self._endpoint, said, status, code, float(wait) if wait.isdecimal() else None)
        cut = isinstance(error, (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError))
        # Who has no network at all wants to know at once.
        cut = cut and (self._reached or not isinstance(error, httpx.ConnectError))
        return Trouble(repo, self._endpoint, str(error) or type(error).__name__, cut=cut)

    @contextmanager
    def _alone(self, file: HubFile) -> Iterator[None]:
        """Keep other programs from fetching the same file meanwhile."""
        file.lock.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            try:
                stack.enter_context(self._library.WeakFileLock(file.lock, timeout=0.2))
            except TimeoutError:
                self._on_wait(f"Another program is fetching {file.name}: waiting for it.")
                stack.enter_context(self._library.WeakFileLock(file.lock))
            yield


def _library() -> Any:
    """Return the hub's own library; raises LocalspecError for variables that it can't read."""
    # It reports more than it has to, unless told not to before it is imported.
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    try:
        from huggingface_hub import utils

        library: Any = utils
        # Its parts are loaded when they are first named, and with these two the variables are read.
        for part in ("logging", "get_session"):
            getattr(library, part)
    except ValueError as error:
        raise unusable(error) from error
    library.logging.set_verbosity_error()
    return library


def _file(repo: str, commit: str, revision: str, said: object) -> HubFile | None:
    """Return what the hub says of one file; None for what is no model file, or can't be checked."""
    if not isinstance(said, dict):
        return None
    name, lfs = said.get("rfilename"), said.get("lfs")
    if (
        not isinstance(name, str)
        or not name.lower().endswith(".gguf")
        or not is_safe(name)
        or not isinstance(lfs, dict)
    ):
        return None
    size, checksum = lfs.get("size"), lfs.get("sha256")
    if not isinstance(size, int) or size <= 0 or not is_checksum(checksum):
        return None
    return HubFile(repo, commit, revision, name, size, str(checksum))


def _write(target: BinaryIO, data: bytes) -> int:
    """Write all of it: a disk that is nearly full takes a part, and says so the next time."""
    left = memoryview(data)
    while left:
        left = left[target.write(left) :]
    return len(data)


def _not_written(file: HubFile, error: OSError) -> LocalspecError:
    if error.errno in _FULL:
        return LocalspecError(
            f"The disk is full: {file.fetched:,} bytes of {file.size:,} of {file.name} are here.",
            cause=str(error),
            hint=f"Make room on the disk of {file.folder.parent}; the same command then resumes.",
        )
    return LocalspecError(
        f"{file.name} can't be put into {file.folder}.", cause=str(error), hint="Check the folder's permissions."
    )
