"""`localspec worker`: its address, its memory, and how it ends."""

import signal
from pathlib import Path

import pytest
from run_here import localspec_here
from run_localspec import localspec
from workers import WorkerProcess, free_port, require_an_engine_with_workers

from models.llama.weights import workers as back_end


@pytest.fixture
def _with_workers() -> None:
    require_an_engine_with_workers()


@pytest.mark.usefixtures("_with_workers")
def test_it_says_where_it_listens_and_ends_by_a_signal(tmp_path: Path) -> None:
    worker = WorkerProcess(tmp_path, "--memory", "1")
    assert f"Worker on 127.0.0.1:{worker.port}, 1.0 GiB for layers. No authentication." in worker.said
    assert worker.end() == 0


def test_an_address_of_other_machines_has_to_be_allowed(tmp_path: Path) -> None:
    done = localspec_here("worker", "--host", "0.0.0.0", home=tmp_path)
    assert done.returncode == 2
    assert "a worker has no authentication" in done.stderr
    assert "--no-authentication" in done.stderr


@pytest.mark.usefixtures("_with_workers")
def test_a_host_that_is_no_number_is_refused(tmp_path: Path) -> None:
    done = localspec_here("worker", "--host", "gpu.local", "--no-authentication", home=tmp_path)
    assert done.returncode == 2
    assert "is not an address in numbers" in done.stderr


@pytest.mark.usefixtures("_with_workers")
def test_a_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    worker = WorkerProcess(tmp_path)
    done = localspec("worker", "--port", str(worker.port), home=tmp_path)
    assert done.returncode == 1
    assert f"127.0.0.1:{worker.port} can't be listened on." in done.stderr
    assert worker.process.poll() is None
    worker.end()


@pytest.mark.parametrize("command", [("worker",), ("run", "MODEL", "hi", "--rpc", "127.0.0.1:1")])
def test_an_engine_without_workers_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    from tiny_gguf import write_llama

    monkeypatch.setattr(back_end, "has_workers", lambda: False)
    path = write_llama(tmp_path / "tiny.gguf")
    done = localspec_here(*(str(path) if word == "MODEL" else word for word in command), home=tmp_path)
    assert done.returncode == 1
    assert "was built without workers on other machines" in done.stderr
    assert "GGML_RPC=ON" in done.stderr


@pytest.mark.usefixtures("_with_workers")
def test_an_interrupt_ends_it_too(tmp_path: Path) -> None:
    worker = WorkerProcess(tmp_path, port=free_port())
    worker.process.send_signal(signal.SIGINT)
    assert worker.process.wait(10) == 0
    worker.end()
