"""A small server of the hub's protocol on loopback, and a second one as its CDN, with real faults."""

import hashlib
import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

# Read when the hub's library is imported: what it reports of itself would leave this machine.
os.environ["HF_HUB_DISABLE_TELEMETRY"] = os.environ["HF_HUB_DISABLE_XET"] = "1"

COMMIT, NEWER = "c" * 40, "d" * 40
_API = re.compile(r"/api/models/(?P<repo>[^/]+/[^/]+)/revision/(?P<revision>[^/]+)")
_RESOLVE = re.compile(r"/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")


@dataclass(frozen=True)
class Refusal:
    """An answer in place of the right one."""

    status: int
    code: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"{}"


@dataclass
class HubState:
    """What the servers have, and do."""

    url: str = ""
    cdn: str = ""
    repos: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """Files by name, for each repository."""
    commits: dict[str, str] = field(default_factory=lambda: {"main": COMMIT})
    """Commits by revision."""
    token: str = ""
    """Without it nothing is shown; "" for a hub that is open to all."""
    refusals: list[Refusal] = field(default_factory=list)
    """Answers to the next requests."""
    cuts: list[int] = field(default_factory=list)
    """The next answers of the CDN end at these places of the file."""
    damaged: bytes = b""
    """What the CDN sends in place of any file, unless it is empty."""
    ranges: bool = True
    """Whether the CDN understands ranges."""
    lengths: bool = True
    """Whether the CDN says how long its answers are."""
    content_range: str | None = None
    """What the CDN says of the place of its bytes, unless it is the truth; "" for nothing."""
    gate: threading.Event | None = None
    """What the CDN waits for after half of an answer that goes to the end of a file."""
    listing: bytes | None = None
    """What the hub answers in place of a list of files."""
    renamed: dict[str, str] = field(default_factory=dict)
    """New names of repositories; what is asked of an old one is answered with a relative address."""
    endless: str = ""
    """Kind of endless answers: "list", "blob" or "error"."""
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    """Method, path and headers of each request, in their order."""

    def add(self, repo: str, name: str, data: bytes) -> str:
        """Put a file into a repository; return its checksum."""
        self.repos.setdefault(repo, {})[name] = data
        return hashlib.sha256(data).hexdigest()

    def asked(self, start: str) -> list[dict[str, str]]:
        """Return the headers of the requests whose path starts so."""
        return [headers for _, path, headers in self.requests if path.startswith(start)]

    def ranges_asked(self) -> list[str]:
        """Return the ranges that the CDN was asked for."""
        return [headers.get("range", "") for headers in self.asked("/blob/")]

    def blob(self, checksum: str) -> bytes | None:
        """Return a file by its checksum."""
        files = (data for files in self.repos.values() for data in files.values())
        return next((data for data in files if hashlib.sha256(data).hexdigest() == checksum), None)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"

    def do_GET(self) -> None:
        state, path = self.server.state, unquote(urlsplit(self.path).path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        state.requests.append((self.command, self.path, headers))
        if state.refusals:
            refusal = state.refusals.pop(0)
            return self._answer(refusal.status, refusal.body, {"X-Error-Code": refusal.code, **refusal.headers})
        if path.startswith("/blob/"):
            return self._blob(path.removeprefix("/blob/"))
        if state.token and headers.get("authorization") != f"Bearer {state.token}":
            return self._answer(401, b"{}", {"X-Error-Code": "RepoNotFound"})
        for old, new in state.renamed.items():
            if path.startswith((f"/api/models/{old}/", f"/{old}/")):
                # As on the hub, the address of a list comes without its query.
                return self._answer(307, b"", {"Location": path.replace(old, new, 1)})
        if state.endless in ("list", "error"):
            return self._go_on_for_ever(200 if state.endless == "list" else 404, b'{"siblings": [')
        if match := _API.fullmatch(path):
            return self._list(match["repo"], match["revision"])
        if match := _RESOLVE.fullmatch(path):
            return self._resolve(match["repo"], match["revision"], match["file"])
        return self._answer(404, b"{}", {})

    do_HEAD = do_GET  # noqa: N815 - the name is the library's

    def _list(self, repo: str, revision: str) -> None:
        state = self.server.state
        if state.listing is not None:
            return self._answer(200, state.listing, {})
        if repo not in state.repos:
            return self._answer(401, b"{}", {"X-Error-Code": "RepoNotFound"})
        if revision not in (*state.commits, *state.commits.values()):
            return self._answer(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        siblings = [_sibling(name, data) for name, data in state.repos[repo].items()]
        if "blobs" not in self.path:
            siblings = [{"rfilename": each["rfilename"]} for each in siblings]
        about: dict[str, Any] = {"id": repo, "sha": state.commits.get(revision, revision), "siblings": siblings}
        return self._answer(200, json.dumps(about).encode(), {"Content-Type": "application/json"})

    def _resolve(self, repo: str, revision: str, name: str) -> None:
        state = self.server.state
        data = state.repos.get(repo, {}).get(name)
        if data is None:
            return self._answer(404, b"{}", {"X-Error-Code": "EntryNotFound"})
        checksum = hashlib.sha256(data).hexdigest()
        headers = {"X-Linked-Etag": f'"{checksum}"', "X-Linked-Size": str(len(data))}
        headers |= {"X-Repo-Commit": state.commits.get(revision, revision), "Location": f"{state.cdn}/blob/{checksum}"}
        return self._answer(302, b"", headers)

    def _go_on_for_ever(self, status: int, begun: bytes) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(begun)
        while True:
            self.wfile.write(b"[" * 65536)

    def _blob(self, checksum: str) -> None:
        state = self.server.state
        data = state.blob(checksum)
        if data is None:
            return self._answer(404, b"", {})
        data = state.damaged or data
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", "")) if state.ranges else None
        start, end = (int(asked[1]), int(asked[2]) + 1) if asked else (0, len(data))
        self.send_response(206 if asked else 200)
        place = f"bytes {start}-{end - 1}/{len(data)}" if state.content_range is None else state.content_range
        if asked and place:
            self.send_header("Content-Range", place)
        if state.lengths:
            self.send_header("Content-Length", str(end - start))
        self.end_headers()
        return self._send(data, start, end)

    def _send(self, data: bytes, start: int, end: int) -> None:
        """Send a part of a file, as far as it goes."""
        state = self.server.state
        stop = min(end, state.cuts.pop(0)) if state.cuts else end
        if state.gate is not None and end == len(data):
            half = (start + stop) // 2
            self.wfile.write(data[start:half])
            state.gate.wait(20)
            start = half
        self.wfile.write(data[start:stop])
        while state.endless == "blob":
            self.wfile.write(bytes(65536))
        self.close_connection = stop < end or not state.lengths

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    state: HubState

    def handle_error(self, *_: object) -> None:
        """Say nothing: clients that go away are part of it."""


def _sibling(name: str, data: bytes) -> dict[str, Any]:
    lfs = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
    return {"rfilename": name, "size": len(data), "blobId": "0" * 40, "lfs": lfs}


@contextmanager
def hub_server() -> Iterator[HubState]:
    """Run a hub and its CDN on free ports of loopback."""
    state = HubState()
    servers = [_Server(("127.0.0.1", 0), _Handler) for _ in range(2)]
    threads = [threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True) for server in servers]
    for server, thread in zip(servers, threads, strict=True):
        server.state = state
        thread.start()
    state.url, state.cdn = (f"http://127.0.0.1:{server.server_address[1]}" for server in servers)
    try:
        yield state
    finally:
        if state.gate is not None:
            state.gate.set()
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            thread.join()
            server.server_close()
