"""Workers on this machine: processes that hold layers of a model, each on a free port."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from run_localspec import ROOT, environment

from models.llama.weights.workers import has_workers

_SECONDS = 60
"""Seconds in which a worker listens: it loads the engine and localspec's kernels first."""


class WorkerProcess:
    """One `localspec worker`."""

    def __init__(self, home: Path, *flags: str, port: int = 0) -> None:
        """Start it, and wait until it listens; port 0: a free one."""
        self.port = port or free_port()
        command = (sys.executable, "-m", "app", "worker", "--port", str(self.port), "-t", "1", *flags)
        self._said = (home / f"worker-{self.port}").open("w+b")
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment(home), stderr=self._said)
        until = time.monotonic() + _SECONDS
        while not self._listens():
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"no worker: {self.said}")
            time.sleep(0.05)

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"127.0.0.1:{self.port}"

    @property
    def said(self) -> str:
        """What it has written so far."""
        self._said.flush()
        return Path(self._said.name).read_text(errors="replace")

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        """End it as a user does; return the exit code."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(10)
        finally:
            self.kill()
            self._said.close()

    def _listens(self) -> bool:
        """Return whether the port is taken: a connection would be taken for a program's."""
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", self.port))
                probe.listen(1)
            except OSError:
                return True
        return False


def require_an_engine_with_workers() -> None:
    """Skip with an engine of an earlier build, but fail in CI, which builds it as pyproject.toml says."""
    if not has_workers():
        assert "CI" not in os.environ, "the engine is built with GGML_RPC=ON, see pyproject.toml"
        pytest.skip("the engine was built without GGML_RPC: uv sync --reinstall-package llama-cpp-python")


@contextmanager
def workers(count: int, home: Path) -> Iterator[list[WorkerProcess]]:
    """Start workers, and end them."""
    started: list[WorkerProcess] = []
    try:
        for _ in range(count):
            started.append(WorkerProcess(home))  # noqa: PERF401 - those before one that fails are ended
        yield started
    finally:
        for worker in started:
            worker.end()


def free_port() -> int:
    """Return a port that no program uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
