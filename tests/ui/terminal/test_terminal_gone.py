"""A terminal that is closed, and a chat that is stopped and goes on: nothing stays behind, nothing is there twice."""

import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from pseudo_terminal import CONVERSATIONS, ENDLESS, PseudoTerminal
from saved import on_disk


@contextmanager
def answering(home: Path, *, controls: bool = True) -> Iterator[PseudoTerminal]:
    """A chat whose answer goes on until it is stopped."""
    chat = PseudoTerminal(ENDLESS, home, controls=controls)
    try:
        chat.wait_for("is ready")
        chat.type("hello\r")
        chat.wait_until(lambda: chat.text.count("mcbe") > 20)
        yield chat
    finally:
        chat.close()


def threads(chat: PseudoTerminal) -> int:
    return len([*Path(f"/proc/{chat.process.pid}/task").iterdir()])


def stopped(chat: PseudoTerminal) -> bool:
    return "State:\tT" in Path(f"/proc/{chat.process.pid}/status").read_text()


@pytest.mark.parametrize("controls", [True, False])
def test_a_chat_leaves_with_its_terminal_also_where_no_signal_tells_it(tmp_path: Path, controls: bool) -> None:
    with answering(tmp_path, controls=controls) as chat:
        chat.hang_up()
        assert chat.process.wait(60) == 129
    _, (_, answer) = on_disk(tmp_path / CONVERSATIONS)
    assert answer.text.count("mcbe") > 20


def test_an_editor_leaves_with_its_terminal(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("def one():\n    return 1\n")
    edits = ("-m", "app", "run", "-m", "toy-fim", "-c", "4000", "--edit", str(tmp_path / "code.py"))
    with closing(PseudoTerminal(edits, tmp_path, controls=False)) as editor:
        editor.wait_for("return 1")
        editor.type("x")
        editor.hang_up()
        assert editor.process.wait(60) == 129


def test_a_chat_that_is_told_to_go_on_while_it_leaves_ends_all_the_same(tmp_path: Path) -> None:
    with answering(tmp_path) as chat:
        chat.process.send_signal(signal.SIGTERM)
        end = time.monotonic() + 60
        while chat.process.poll() is None:
            assert time.monotonic() < end, "the chat goes on without a screen"
            chat.process.send_signal(signal.SIGCONT)
            time.sleep(0.05)
        assert chat.exit_code() == 143


@pytest.mark.parametrize("number", [signal.SIGTSTP, signal.SIGSTOP])
def test_a_chat_that_was_stopped_draws_its_screen_again_and_reads_keys_once(
    tmp_path: Path, number: signal.Signals
) -> None:
    with answering(tmp_path) as chat:
        before = threads(chat)
        for times in range(2, 5):
            chat.process.send_signal(number)
            chat.wait_until(lambda: stopped(chat))
            chat.process.send_signal(signal.SIGCONT)
            chat.wait_until(lambda times=times: chat.bytes.count(b"\x1b[?1049h") == times)
        chat.wait_until(lambda: threads(chat) == before)
        chat.type("\x11")
        assert chat.exit_code() == 0
