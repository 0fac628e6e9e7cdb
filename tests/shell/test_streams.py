"""Standard streams that a shell, a system or a disk leaves in a bad way: what is written, what is told, how it ends."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from run_localspec import ROOT, environment

from app.shell.streams import mend_streams
from app.shell.terminal import Terminal

ENCODINGS = ["utf-8", "latin-1", "cp1252", "ascii", "utf-16-le"]
posix = pytest.mark.skipif(os.name == "nt", reason="a shell closes streams, and a name is bytes")
full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device is always full here")


def run(command: str, home: Path, **extra: str) -> subprocess.CompletedProcess[bytes]:
    """Run localspec by a shell; buffered, as it is where nothing says otherwise."""
    variables = {"PYTHONUNBUFFERED": "", "PYTHONIOENCODING": "", **extra}
    line = f"{sys.executable} -m app {command}"
    return subprocess.run(
        line, shell=True, cwd=ROOT, env=environment(home, variables), capture_output=True, check=False, timeout=120
    )


def written(encoding: str, *say: Callable[[Terminal], None]) -> bytes:
    """Return what comes out where stdout has this encoding."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding, newline="")
    with redirect_stdout(stream):
        mend_streams()
        for each in say:
            each(Terminal())
    stream.seek(0)
    return stream.buffer.read()


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_character_that_stdout_has_not_is_a_question_mark(encoding: str) -> None:
    text = "“a” → é 日"
    assert written(encoding, lambda terminal: terminal.say(text)) == text.encode(encoding, "replace")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_name_that_is_no_text_is_written_as_its_very_bytes(encoding: str) -> None:
    bare = "??".encode(encoding) if encoding.startswith("utf-16") else b"\xff\x80"
    said = written(encoding, lambda terminal: terminal.say("a\udcff\udc80b"))
    assert said == "a".encode(encoding) + bare + "b".encode(encoding)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("text", ["“a” → é 日", "a\udcff"])
def test_a_record_is_read_as_it_was_written(encoding: str, text: str) -> None:
    line = written(encoding, lambda terminal: terminal.say_record({"text": text, "path": Path("b")}, default=str))
    assert json.loads(line.decode(encoding)) == {"text": text, "path": "b"}
    assert line.isascii() == (encoding != "utf-8" or "\udcff" in text)


def test_what_is_typed_in_another_encoding_is_read_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9\nmore\n"), "utf-8"))
    mend_streams()
    assert (input(), input()) == ("caf\N{REPLACEMENT CHARACTER}", "more")


@posix
def test_a_title_that_the_locale_has_not_is_listed_all_the_same(tmp_path: Path) -> None:
    assert run("run toy '→ 日本語 é' -n 2", tmp_path).returncode == 0
    listed = run("history ls", tmp_path, PYTHONIOENCODING="latin-1")
    assert (listed.returncode, listed.stderr) == (0, b"")
    assert "? ??? é".encode("latin-1") in listed.stdout
    told = run("history ls --json", tmp_path, PYTHONIOENCODING="latin-1")
    assert json.loads(told.stdout)["conversations"][0]["title"] == "→ 日本語 é"


@posix
def test_a_missing_file_with_a_name_that_is_no_text_is_a_line_of_json(tmp_path: Path) -> None:
    done = run("run $(printf 'none\\377.gguf') hi --json", tmp_path, PYTHONIOENCODING="utf-8:strict")
    assert done.returncode == 3
    assert "none\udcff.gguf" in json.loads(done.stdout)["title"]


@posix
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_is_one_to_nothing(tmp_path: Path, closed: str) -> None:
    done = run(f"run toy hi -n 3 --seed 1 {closed}", tmp_path)
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    assert bool(done.stdout) == (">&-" not in closed or closed.startswith("2"))


@posix
def test_no_file_gets_the_descriptor_of_a_closed_stream() -> None:
    code = "from app.shell.streams import mend_streams; mend_streams(); import os; print(os.open('.', os.O_RDONLY))"
    line = f'{sys.executable} -c "{code}" <&- 2>&-'
    assert subprocess.run(line, shell=True, cwd=ROOT, capture_output=True, check=False).stdout == b"3\n"


@full
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["run toy hi -n 3 -q", "run toy hi --json", "models ls --json", "--help"])
def test_a_full_disk_behind_stdout_is_a_sentence(tmp_path: Path, command: str, unbuffered: str) -> None:
    done = run(f"{command} > /dev/full", tmp_path, PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 1
    assert done.stderr.decode().splitlines() == [
        "localspec: The output can't be written.",
        "  No space left on device",
        "  Free some space there, or redirect stdout elsewhere.",
    ]


@full
@pytest.mark.parametrize(("command", "code"), [("run toy hi -n 3", 0), ("run toy --bogus", 2), ("run no.gguf hi", 3)])
def test_a_full_disk_behind_stderr_ends_no_answer(tmp_path: Path, command: str, code: int) -> None:
    done = run(f"{command} 2> /dev/full", tmp_path)
    assert (done.returncode, bool(done.stdout)) == (code, code == 0)
