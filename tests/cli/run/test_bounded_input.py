"""What a command reads: regular files up to a size, a shell's pipes, and standard input that may say nothing."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from run_here import Done, localspec_here
from run_localspec import ROOT, environment

from app.shell import input_bytes
from models.system.bounded_read import UnfitFile, open_regular, parse_json, read_json, read_regular

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")

_WAYS = {
    "-f": ("run", "toy", "-n", "2", "-f", "{}"),
    "--predict": ("run", "toy", "hi", "-n", "2", "--predict", "{}"),
    "-jf": ("run", "toy", "hi", "-n", "2", "-jf", "{}"),
    "--grammar-file": ("run", "toy", "hi", "-n", "2", "--grammar-file", "{}"),
    "complete": ("complete", "-m", "toy", "{}:1:1"),
    "--context": ("complete", "-m", "toy", "--prefix-file", "/dev/null", "--context", "{}"),
    "--prefix-file": ("complete", "-m", "toy", "--prefix-file", "{}"),
    "--prompts": ("bench", "toy", "--prompts", "{}"),
    "verify --prompts": ("verify", "toy", "--prompts", "{}"),
    "MODEL": ("run", "{}", "hi", "-n", "2"),
    "--draft": ("run", "toy", "hi", "-n", "2", "--draft", "model:{}"),
    "check": ("check", "{}"),
    "models info": ("models", "info", "{}"),
}


@contextmanager
def strange(folder: Path, kind: str) -> Iterator[tuple[Path, str]]:
    """Have a file that is none; yield it, with the word for it."""
    path = folder / "strange.gguf"
    if kind == "device":
        yield Path("/dev/zero"), "a device"
    elif kind == "pipe":
        os.mkfifo(path)
        yield path, "a named pipe"
    elif kind == "folder":
        path.mkdir()
        yield path, "a folder"
    else:
        with socket.socket(socket.AF_UNIX) as server, pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            server.bind(path.name)
            yield path, "a socket"


@pytest.mark.parametrize("kind", ["device", "pipe", "folder", "socket"])
@pytest.mark.parametrize("way", _WAYS)
def test_what_is_no_regular_file_is_refused_in_words(tmp_path: Path, way: str, kind: str) -> None:
    with strange(tmp_path, kind) as (path, words):
        done = localspec_here(*(each.replace("{}", str(path)) for each in _WAYS[way]), home=tmp_path)
    assert done.returncode in (2, 3)
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_pipe_named_like_a_model_holds_up_no_list(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.gguf")
    done = localspec_here("models", "ls", home=tmp_path, extra={"LOCALSPEC_MODELS": str(tmp_path)})
    assert done.returncode == 0
    assert "a named pipe" in " ".join(done.stdout.split())


def test_too_large_a_file_is_told_with_its_size_and_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "large.txt"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    done = localspec_here("run", "toy", "-f", str(path), home=tmp_path)
    assert done.returncode == 2
    assert "It has 1,099,511,627,776 bytes; at most 67,108,864 are read." in " ".join(done.stderr.split())


@pytest.mark.parametrize("way", [("run", "toy", "hi", "-n", "2"), ("complete", "-m", "toy")])
def test_standard_input_without_end_is_refused(tmp_path: Path, way: tuple[str, ...]) -> None:
    done = _run(*way, home=tmp_path, before="cat /dev/zero |")
    assert done.returncode == 2
    assert "Standard input is too long." in done.stderr
    assert "at most 67,108,864 are read" in " ".join(done.stderr.split())


def test_a_shell_s_pipe_is_read_and_bounded(tmp_path: Path) -> None:
    fine = _run("run", "toy", "-n", "2", "-f", home=tmp_path, after="<(echo hello) </dev/null")
    assert fine.returncode == 0, fine.stderr
    endless = _run("run", "toy", "-n", "2", "-f", home=tmp_path, after="<(cat /dev/zero) </dev/null")
    assert (endless.returncode, "at most 67,108,864 are read" in " ".join(endless.stderr.split())) == (2, True)


@pytest.mark.parametrize("way", [("run", "toy", "hi", "-n", "2"), ("complete", "-m", "toy")])
def test_standard_input_that_says_nothing_is_said_to_be_waited_for(tmp_path: Path, way: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "app", *way]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(tmp_path), stdin=subprocess.PIPE, stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    ) as child:  # fmt: skip
        assert child.stderr is not None
        assert child.stdin is not None
        line = child.stderr.readline().decode()
        assert "waiting for standard input to end" in line
        child.stdin.write(b"late<|cursor|>")
        child.stdin.close()
        assert child.wait(100) in (0, 1)


def test_a_slow_producer_loses_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Bytes that come after the note are read as well, and the note comes once."""

    pieces = [b"one", b"two", b""]

    class Slow:
        def read1(self, _: int) -> bytes:
            time.sleep(0.2)
            return pieces.pop(0)

    class Input:
        buffer = Slow()

        def fileno(self) -> int:
            raise OSError

    monkeypatch.setattr(input_bytes, "_PATIENCE", 0.01)
    monkeypatch.setattr(sys, "stdin", Input())
    assert input_bytes.read_pipe(input_bytes.Terminal()) == b"onetwo"
    assert capsys.readouterr().err.count("waiting for standard input") == 1


def test_a_descriptor_of_a_named_kind_is_no_way_around(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnfitFile, match="named pipe"):
        open_regular(tmp_path / "pipe", piped=True)
    assert read_regular(Path(os.devnull), 5) == b""


def test_json_that_nests_without_end_is_no_json(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 200_000)
    for wrong in (lambda: parse_json(b"[" * 200_000), lambda: read_json(tmp_path / "deep.json")):
        with pytest.raises(ValueError, match="nested too deeply"):
            wrong()


def _run(*arguments: str, home: Path, before: str = "", after: str = "") -> Done:
    """Run localspec in bash, with what stands before and after it on the line."""
    line = f"{before} {sys.executable} -m app {' '.join(arguments)} {after}"
    done = subprocess.run(
        ["bash", "-c", line], cwd=ROOT, env=environment(home), capture_output=True, text=True, timeout=200, check=False
    )
    return Done(done.returncode, done.stdout, done.stderr)
