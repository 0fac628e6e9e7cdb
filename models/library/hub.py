"""Client of the hub: files of a repository, the beginning of one, and downloads that resume where they were cut.

The only part of `models` that uses the network, and only when it is called. Its own library keeps nothing of a file
that did not come to its end, so the bytes are read here; names, tokens, errors and locks are the library's.
"""

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
from models.gguf.file import MAGIC
from models.library.hub_answer import BEGINNING_SECONDS, pieces_within, whole_answer
from models.library.hub_errors import Trouble, error_for, not_written, other_bytes, retry_after, unusable
from models.library.hub_files import HubFile, Repository, file_of, is_commit, keep, link
from models.library.names import MAIN
from models.system.bounded_read import parse_json

_HOME = "https://huggingface.co"
_ON = {"1", "ON", "YES", "TRUE"}
_FORBIDDING = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_PATIENCE = 30.0
"""Seconds without a byte until a connection counts as cut."""
_WAITS = (1.0, 2.0, 4.0, 8.0, 8.0)
"""Seconds before each further attempt; a byte that comes begins them anew."""
_LONGEST_WAIT = 120.0
"""Seconds: a server that asks for a longer pause is an error."""
_WHOLE, _PARTIAL = 200, 206
"""The status of an answer that is the whole file, and of one that begins where it was asked to."""
_FROM = re.compile(r"bytes (\d+)-")
_Result = TypeVar("_Result")
Progress = Callable[[int], None]
"""Takes the bytes that are here."""


def is_offline() -> bool:
    """Return whether the environment forbids the network, by the hub's own variables."""
    return bool(switched_on(*_FORBIDDING))


def switched_on(*names: str) -> list[str]:
    """Return those variables of the environment that are set, and to no "off"."""
    return [name for name in names if os.environ.get(name, "").upper() in _ON]


class Hub:
    """The hub, or the server that HF_ENDPOINT names. Every method raises LocalspecError for what goes wrong."""

    def __init__(
        self, on_wait: Callable[[str], None] = lambda _: None, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Open nothing yet; `on_wait` is called with the reason of a pause."""
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
        reply = self._patiently(repo, lambda: self._json(url))
        commit, siblings = reply.get("sha"), reply.get("siblings")
        if not is_commit(commit) or not isinstance(siblings, list):
            raise LocalspecError(
                f"{self._endpoint} does not answer like the hub.",
                hint="Check HF_ENDPOINT if it is set, and whether this network requires you to log in first.",
            )
        name = reply["id"] if isinstance(reply.get("id"), str) and reply["id"].lower() == repo.lower() else repo
        files = (file_of(name, commit, revision, sibling) for sibling in siblings)
        return Repository(name, commit, tuple(sorted(filter(None, files), key=lambda file: file.name)))

    def beginning(self, file: HubFile, start: int, end: int) -> bytes:
        """Return the bytes of a file from `start` up to `end`."""

        def read() -> bytes:
            data = b""
            with self._bytes(file, start, end) as response:
                # A server may send the whole file, whatever was asked for.
                before = start - self._begins(file, start, response)
                for piece in pieces_within(response, BEGINNING_SECONDS, self._endpoint):
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
                # Another program may have brought it while this one waited.
                if not (file.is_here or file.has_blob):
                    self._receive(file, progress)
                link(file)
        except OSError as error:
            raise not_written(file, error) from error
        return file.path

    def _receive(self, file: HubFile, progress: Progress) -> None:
        file.partial.parent.mkdir(parents=True, exist_ok=True)
        # Not "ab": where locks do nothing, as on some network disks, two programs write the same bytes to one place.
        with open(file.partial, "r+b", buffering=0, opener=_made_if_missing) as target:
            if not MAGIC.startswith(target.read(len(MAGIC))) or target.seek(0, 2) > file.size:
                target.truncate(0)
            self._patiently(file.repo, lambda: self._go_on(file, target, progress), lambda: target.seek(0, 2))
            target.seek(0)
            found = hashlib.file_digest(target, "sha256").hexdigest()
        if found != file.sha256:
            file.partial.unlink(missing_ok=True)
            raise LocalspecError(
                f"{file.name} arrived damaged and was removed.",
                cause=f"Its SHA-256 is {found}; the hub says {file.sha256}.",
                hint="Fetch it again; if this repeats, something on the network changes it.",
            )
        keep(file)

    def _go_on(self, file: HubFile, target: BinaryIO, progress: Progress) -> None:
        """Receive the rest of a file; raises what `_patiently` tries again after."""
        here = target.seek(0, 2)
        progress(here)
        if here == file.size:
            return
        with self._bytes(file, here, file.size) as response:
            # Where the whole of it comes, it is written over what is here: the same bytes.
            here = target.seek(self._begins(file, here, response))
            for piece in self._pieces(file, here, response):
                here += _write(target, piece[: file.size - here])
                progress(here)
                # A server may go on after the last byte of the file, and never end.
                if here >= file.size:
                    break
        if here < file.size:
            raise self._library.httpx.RemoteProtocolError(f"{here:,} bytes of {file.size:,} came")

    def _begins(self, file: HubFile, start: int, response: Any) -> int:
        """Return the place in the file of an answer's first byte; raises LocalspecError for what is not from there.

        That is the place that was asked for, or 0 from a server that sends nothing but whole files.
        """
        status, headers = response.status_code, response.headers
        found = _FROM.match(headers.get("Content-Range", ""))
        if status == _PARTIAL and found and int(found[1]) == start:
            return start
        if status == _WHOLE and headers.get("Content-Length", "") in ("", str(file.size)):
            return 0
        raise other_bytes(self._endpoint, file.name, f"bytes from {start:,} on of {file.size:,}", status, headers)

    def _pieces(self, file: HubFile, start: int, response: Any) -> Iterator[bytes]:
        """Yield an answer's bytes; raises LocalspecError before the first of them for a page in place of a model."""
        pieces, first = response.iter_bytes(), b""
        while start == 0 and len(first) < len(MAGIC) and (piece := next(pieces, b"")):
            first += piece
        if not MAGIC.startswith(first[: len(MAGIC)]):
            status, headers = response.status_code, response.headers
            raise other_bytes(self._endpoint, file.name, f"all {file.size:,} bytes", status, headers, first)
        yield first
        yield from pieces

    @contextmanager
    def _bytes(self, file: HubFile, start: int, end: int) -> Iterator[Any]:
        url = f"{self._endpoint}/{file.repo}/resolve/{file.commit}/{quote(file.name)}"
        # Compressed bytes could not be counted, and there is nothing to gain with weights.
        headers = {"Accept-Encoding": "identity", "Range": f"bytes={start}-{end - 1}"}
        with ExitStack() as stack:
            with self._settings() as session:
                headers |= self._headers()
                response = stack.enter_context(session.stream("GET", url, headers=headers, timeout=_PATIENCE))
            if response.is_error:
                self._check(whole_answer(response, self._endpoint))
            yield response

    def _json(self, url: str) -> dict[str, Any]:
        response = self._answer(url)
        if response.history and "blobs" not in response.url.params:
            # The address of a renamed repository comes without the query, and then without checksums.
            response = self._answer(str(response.url))
        # What asks guests of a network to log in answers with a page of its own.
        with suppress(ValueError):
            reply = parse_json(response.content)
            if isinstance(reply, dict):
                return reply
        return {}

    def _answer(self, url: str) -> Any:
        """Return a whole answer about a repository, of bounded length and time; raises LocalspecError."""
        with ExitStack() as stack:
            with self._settings() as session:
                options = {"params": {"blobs": True}, "headers": self._headers(), "timeout": _PATIENCE}
                response = stack.enter_context(session.stream("GET", url, **options))
            whole = whole_answer(response, self._endpoint)
        self._check(whole)
        return whole

    def _check(self, response: Any) -> None:
        """Raise an `HTTPError` for an answer whose status is an error."""
        try:
            self._library.hf_raise_for_status(response)
        except self._library.httpx.HTTPError:
            raise
        except (ValueError, AttributeError, TypeError, RecursionError):
            # The library looks for words in the body, and trips over one in another encoding, or a list.
            response.raise_for_status()

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
                    raise error_for(trouble) from error
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
        if isinstance(error, (self._library.HfHubHTTPError, httpx.HTTPStatusError)):
            headers, status = error.response.headers, error.response.status_code
            message = getattr(error, "server_message", None) or f"HTTP status {status}"
            code = headers.get("X-Error-Code", "")
            return Trouble(repo, self._endpoint, message, status, code, retry_after(status, headers))
        cut = isinstance(error, (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError))
        # Without any network, fail at once instead of waiting for the retries.
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
    # The library sends usage data unless this is set before it is imported.
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


def _made_if_missing(path: str, flags: int) -> int:
    """Open a file, made by the same call: between two calls another program may rename it."""
    return os.open(path, flags | os.O_CREAT, 0o666)


def _write(target: BinaryIO, data: bytes) -> int:
    """Write all of it: a disk that is nearly full takes a part, and says so the next time."""
    left = memoryview(data)
    while left:
        left = left[target.write(left) :]
    return len(data)
