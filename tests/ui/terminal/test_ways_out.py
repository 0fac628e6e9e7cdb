"""Every way out of a screen that a program can see gives the terminal back; after others the next start tells."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from pseudo_terminal import ENDLESS, PseudoTerminal

from app.ui.terminal.terminal_guard import ending_signals

LEFT = (b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[?2004l", b"\x1b[?1000l")
"""Leave the alternate screen, show the cursor, no bracketed paste, no mouse."""
NOTE = "run: reset"
SIGNALLED = """
import os, signal, sys
name = sys.argv.pop(1)
from textual.drivers.linux_driver import LinuxDriver
from app.__main__ import main
step = getattr(LinuxDriver, name)
def signalled(driver):
    step(driver)
    setattr(LinuxDriver, name, step)
    os.kill(os.getpid(), signal.SIGQUIT)
setattr(LinuxDriver, name, signalled)
main()
"""
"""Runs localspec and sends it a signal in the middle of taking the terminal, after one of the driver's steps."""
TWICE = "import subprocess, sys; [subprocess.run([sys.executable, *line.split()]) for line in sys.argv[1:]]"


@contextmanager
def chatting(home: Path) -> Iterator[PseudoTerminal]:
    with closing(PseudoTerminal(ENDLESS, home)) as chat:
        chat.wait_for("is ready")
        yield chat


def is_given_back(chat: PseudoTerminal) -> bool:
    return all(sequence in chat.bytes for sequence in LEFT) and chat.modes_now() == chat.modes


@pytest.mark.parametrize("number", ending_signals())
def test_a_signal_that_ends_a_program_gives_the_terminal_back(tmp_path: Path, number: int) -> None:
    with chatting(tmp_path) as chat:
        chat.process.send_signal(number)
        assert chat.exit_code() == 128 + number
        assert is_given_back(chat)
    assert not [*tmp_path.rglob("screens/*")]


def test_a_signal_before_the_screen_listens_gives_the_terminal_back(tmp_path: Path) -> None:
    with closing(PseudoTerminal(ENDLESS, tmp_path)) as chat:
        chat.wait_until(lambda: b"\x1b[?1049h" in chat.bytes, pause=0.001)
        chat.process.send_signal(signal.SIGQUIT)
        chat.exit_code()
        assert b"\x1b[?1049l" in chat.bytes
        assert chat.modes_now() == chat.modes


@pytest.mark.parametrize(
    "step",
    ["_enable_mouse_support", "_request_terminal_sync_mode_support", "_enable_bracketed_paste", "_disable_line_wrap"],
)
def test_a_signal_while_the_screen_takes_the_terminal_gives_it_back(tmp_path: Path, step: str) -> None:
    with closing(PseudoTerminal(["-c", SIGNALLED, step, *ENDLESS[2:]], tmp_path)) as chat:
        assert chat.exit_code() == 128 + signal.SIGQUIT
        assert is_given_back(chat)


def test_a_signal_whose_exception_was_lost_ends_the_screen_all_the_same(tmp_path: Path) -> None:
    lost = SIGNALLED.replace("    os.kill(", "    with contextlib.suppress(SystemExit):\n        os.kill(")
    program = f"import contextlib\n{lost}"
    with closing(PseudoTerminal(["-c", program, "_disable_line_wrap", *ENDLESS[2:]], tmp_path)) as chat:
        assert chat.exit_code() == 128 + signal.SIGQUIT
        assert is_given_back(chat)


@pytest.mark.parametrize("first", ["-m app run toy -c 2000", "-m app run -m toy-fim -c 4000 --edit code.py"])
def test_after_a_kill_the_next_start_there_tells_once_how_to_reset(tmp_path: Path, first: str) -> None:
    first = first.replace("code.py", str(tmp_path / "code.py"))
    (tmp_path / "code.py").write_text("x = 1\n")
    starts = (first, "-m app models ls", "-m app config path")
    with closing(PseudoTerminal(["-c", TWICE, *starts], tmp_path)) as shell:
        shell.wait_until(lambda: [*tmp_path.rglob("screens/*")] and b"\x1b[?1049h" in shell.bytes)
        time.sleep(0.5)
        (child,) = Path(f"/proc/{shell.process.pid}/task/{shell.process.pid}/children").read_text().split()
        os.kill(int(child), signal.SIGKILL)
        assert shell.exit_code() == 0
        assert bytes(shell.bytes).count(NOTE.encode()) == 1


def test_a_screen_that_is_open_or_was_left_in_order_is_no_killed_one(tmp_path: Path) -> None:
    starts = ("-m app run toy -c 2000", "-m app config path")
    with closing(PseudoTerminal(["-c", TWICE, *starts], tmp_path)) as shell:
        shell.wait_for("is ready")
        shell.type("\x11")
        assert shell.exit_code() == 0
        assert NOTE.encode() not in shell.bytes


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="children are found in /proc")
