"""The user's editor: which one is run, what it is given, and what comes back."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from run_localspec import ROOT

from app.ui.prompt.external_editor import edit_text
from models.errors import LocalspecError

_SCRIPT = """
import os, signal, stat, sys
path = sys.argv[-1]
folder = os.path.dirname(path)
assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
os.kill(os.getppid(), signal.SIGINT)
text = open(path, encoding="utf-8").read()
open(path, "w", encoding="utf-8").write(text.upper() + "|" + " ".join(sys.argv[1:-1]) + "\\n")
open(sys.argv[1], "w").write(path)
"""
_STOPS = "import os, signal; os.kill(0, signal.SIGTSTP)"
# As Textual has it, which stops when its turn comes: after the editor.
_CHAT = """
import signal
from app.ui.prompt.external_editor import edit_text
signal.signal(signal.SIGTSTP, later := lambda *_: None)
edit_text("")
assert signal.getsignal(signal.SIGTSTP) is later
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "my editor.py"
    path.write_text(_SCRIPT)
    return path


def test_an_editor_with_arguments_edits_a_private_file_and_has_ctrl_c_to_itself(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", f"{sys.executable} '{script}' {tmp_path / 'seen'} -x")
    monkeypatch.setenv("EDITOR", "false")
    before = signal.getsignal(signal.SIGINT)
    assert edit_text("ä\n\nb") == f"Ä\n\nB|{tmp_path / 'seen'} -x"
    assert signal.getsignal(signal.SIGINT) is before
    assert not Path((tmp_path / "seen").read_text()).exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signal")
def test_an_editor_that_is_suspended_gives_the_terminal_to_the_shell() -> None:
    editor = f"{sys.executable} -c '{_STOPS}'"
    # A shell gives each program that it starts a group of its own.
    chat = subprocess.Popen(
        [sys.executable, "-c", _CHAT], cwd=ROOT, env={**os.environ, "VISUAL": editor}, process_group=0
    )
    try:
        end, status = time.monotonic() + 60, 0
        while not os.WIFSTOPPED(status) and time.monotonic() < end:
            _, status = os.waitpid(chat.pid, os.WUNTRACED | os.WNOHANG)
            time.sleep(0.02)
        assert os.WIFSTOPPED(status)
        os.killpg(chat.pid, signal.SIGCONT)
        assert chat.wait(60) == 0
    finally:
        with suppress(ProcessLookupError):
            os.killpg(chat.pid, signal.SIGKILL)


def refused(monkeypatch: pytest.MonkeyPatch, **variables: str) -> LocalspecError:
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(LocalspecError) as caught:
        edit_text("text")
    assert caught.value.hint
    return caught.value


def test_what_goes_wrong_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert refused(monkeypatch, EDITOR="'open quote").title == "$EDITOR is not a command."
    assert refused(monkeypatch, EDITOR="no-such-program").title == "no-such-program can't be started."
    assert refused(monkeypatch, EDITOR="sh -c 'exit 3'").cause == "Its exit code is 3."
    assert refused(monkeypatch, EDITOR="rm").title.startswith("The edited text is gone")
    assert refused(monkeypatch, PATH=str(tmp_path), VISUAL="  ").title == "No text editor was found."


def test_without_a_choice_nano_comes_before_vi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("vi", "nano"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho "by {name}" >> "$1"\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.defpath}")
        assert edit_text("") == f"by {name}"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_a_text_comes_back_in_whatever_encoding_an_editor_saves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    saved = tmp_path / "saved"
    saved.write_bytes("ä\r\n雨\rb\0\r\n".encode(encoding))
    monkeypatch.setenv("VISUAL", f"cp {saved}")
    assert edit_text("") == "ä\n雨\nb\0"


@pytest.mark.parametrize(
    ("command", "title"),
    [
        ("truncate -s 1T", "The edited text can't be used, so the prompt stays as it was."),
        (f"{sys.executable} -c 'import os, sys; os.unlink(sys.argv[1]); os.mkfifo(sys.argv[1])'", "can't be used"),
        ("rm", "The edited text is gone"),
    ],
)
def test_what_an_editor_leaves_is_read_within_bounds(monkeypatch: pytest.MonkeyPatch, command: str, title: str) -> None:
    error = refused(monkeypatch, VISUAL=command)
    assert title in error.title
