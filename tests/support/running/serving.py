"""The server in this process, and as a process of its own."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from httpx2 import Response
from run_localspec import ROOT, environment
from starlette.testclient import TestClient

from app.engine.runtime.async_engine import AsyncEngine
from app.serve.command import read_serve
from app.serve.options import serve
from app.serve.service import Service
from app.serve.settings import ServePlan
from app.serve.web.routes import make_app
from app.serve.web.server import serve as serve_until_ended
from app.shell.terminal import Terminal

T = TypeVar("T")
URL = "http://127.0.0.1:8080"
_START = (
    "from app.command_line.cli import command_line, run_command_line; from app.serve.options import serve; "
    "command_line.add_command(serve); run_command_line()"
)


def plan_of(folder: Path, *arguments: str) -> ServePlan:
    """Return the plan of a command line; measurements of the machine go to a folder."""
    flags = dict(serve.make_context("serve", list(arguments)).params)
    plan = read_serve(flags.pop("model"), flags)
    return replace(plan, plan=replace(plan.plan, memory=folder / "memory.json"))


@dataclass(frozen=True, slots=True)
class Served:
    """A server in this process, with its client."""

    client: TestClient
    service: Service

    def send(self, path: str, body: object) -> Response:
        """Send JSON, even with characters that no text can hold."""
        return self.client.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})

    def post(self, path: str, **body: Any) -> Any:
        """Send JSON, and return the JSON of an answer that has to be one."""
        response = self.send(path, body)
        assert response.status_code == 200, response.text
        return response.json()

    def refused(self, path: str, **body: Any) -> Any:
        """Send JSON that is refused; return the status and the error."""
        response = self.send(path, body)
        return response.status_code, response.json()["error"]

    def events(self, path: str, **body: Any) -> list[Any]:
        """Send JSON, and return the events of the answer; the text "[DONE]" as it is."""
        response = self.send(path, {**body, "stream": True})
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line.startswith("data: ")]
        return [line if line == "[DONE]" else json.loads(line) for line in lines]

    def figure(self, name: str) -> float:
        """Return the sum of a counter of /metrics over all its labels."""
        lines = self.client.get("/metrics").text.splitlines()
        found = [line.rpartition(" ")[2] for line in lines if re.match(rf"{re.escape(name)}(\{{|\s)", line)]
        return sum(map(float, found))


@contextmanager
def served(folder: Path, *arguments: str, loads: bool = True, url: str = URL) -> Iterator[Served]:
    """Serve in this process; without `loads` the model stays unloaded."""
    plan = plan_of(folder, *arguments)
    async_engine = AsyncEngine(plan.plan)
    try:
        service = Service(plan, async_engine)
        with TestClient(make_app(service), base_url=url) as client:
            if loads:
                assert client.portal is not None
                client.portal.call(service.load, lambda _, __: None)
            yield Served(client, service)
    finally:
        async_engine.close()


class _Heard(Terminal):
    """A terminal that keeps what it is told."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.told: list[str] = []
        self.is_up = threading.Event()

    def tell(self, text: str) -> None:
        self.told.append(text)
        if "listening on" in text:
            self.is_up.set()


def serve_here(folder: Path, *arguments: str, asks: Callable[[str], T]) -> T:
    """Run a whole server in this thread until it ends, and return what `asks` gives, which gets its address.

    Signals to this process are signals to the server; without one it is ended with SIGTERM.
    """
    heard, plan = _Heard(), plan_of(folder, "--port", "0", *arguments)

    def ask() -> T:
        try:
            assert heard.is_up.wait(60), heard.told
            return asks(re.findall(r"http://[^ ]+:\d+", heard.told[-1])[0])
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    with _late_signals_ignored(), ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask)
        try:
            asyncio.run(serve_until_ended(plan, heard))
        finally:
            heard.is_up.set()
    return asking.result()


@contextmanager
def _late_signals_ignored() -> Iterator[None]:
    """Keep this process alive when a signal comes after the server has ended and given back its handlers."""
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Running:
    """A server as a process of its own; what it tells is collected. `before` is Python that it runs first."""

    def __init__(self, home: Path, *arguments: str, before: str = "") -> None:
        command = [sys.executable, "-c", f"{before}\n{_START}", "serve", "--port", "0", *arguments]
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment(home), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.told: list[str] = []
        self.home = home
        self._is_up = threading.Event()
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()
        if not self._is_up.wait(120):
            self.end(signal.SIGKILL)
            raise AssertionError(self.told)
        self.url = next(iter(re.findall(r"http://[^ ]+:\d+", "".join(self.told))), "")
        assert self.url, self.told
        self.port = int(self.url.rpartition(":")[2])

    def end(self, number: int) -> int:
        """Send a signal, and return the exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Wait for the end, and return the exit code; nothing may be on stdout, where other commands print results."""
        code = self.process.wait(60)
        self._listener.join(10)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        with self.process.stdout as results, self.process.stderr:
            assert results.read() == ""
        return code

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.told.append(line)
            if "listening on" in line:
                self._is_up.set()
        self._is_up.set()


@contextmanager
def running(home: Path, *arguments: str, before: str = "") -> Iterator[Running]:
    """Run a server while a test needs it."""
    server = Running(home, *arguments, before=before)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.wait()
