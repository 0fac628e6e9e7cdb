"""The line chat on a terminal: lines that come while it answers are the next messages, none is lost or cut."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from pseudo_terminal import CONVERSATIONS, PseudoTerminal
from saved import on_disk

CHAT = ("-m", "app", "run", "toy", "--plain", "--seed", "3", "-c", "200000", "--temp", "0", "--draft", "off")


@contextmanager
def chatting(home: Path, *flags: str) -> Iterator[PseudoTerminal]:
    with closing(PseudoTerminal([*CHAT, *flags], home)) as chat:
        chat.wait_for("/help lists the commands.")
        chat.wait_until(lambda: chat.bytes.endswith(b"> "))
        yield chat


def questions(home: Path) -> list[str]:
    _, entries = on_disk(home / CONVERSATIONS)
    return [entry.text for entry in entries if entry.role == "user"]


def test_lines_that_are_pasted_are_the_next_messages(tmp_path: Path) -> None:
    with chatting(tmp_path, "-n", "200") as chat:
        chat.type("one\rtwo\rthree\r")
        chat.wait_until(lambda: len(re.findall(rb"tokens/s", chat.bytes)) == 3)
        chat.type("\x04")
        assert chat.exit_code() == 0
    assert questions(tmp_path) == ["one", "two", "three"]


@pytest.mark.parametrize("size", [100, 6000])
def test_a_line_that_is_typed_ahead_is_whole_also_where_ctrl_c_stops_the_answer(tmp_path: Path, size: int) -> None:
    line = "".join(chr(ord("a") + place % 26) for place in range(size))
    with chatting(tmp_path, "--stop", "~") as chat:
        chat.type("one\r")
        chat.wait_until(lambda: chat.bytes.count(b"mcbe") > 20)
        chat.type(line[: size // 2])
        chat.type("\x03")
        chat.wait_until(lambda: b"Stopped." in chat.bytes)
        said = chat.bytes.count(b"mcbe")
        chat.type(line[size // 2 :] + "\r")
        chat.wait_until(lambda: chat.bytes.count(b"mcbe") > said + 20)
        chat.type("\x03")
        chat.wait_until(lambda: chat.bytes.count(b"tokens/s") == 2)
        chat.type("\x04")
        assert chat.exit_code() == 0
        assert chat.modes_now() == chat.modes
    assert questions(tmp_path) == ["one", line]
