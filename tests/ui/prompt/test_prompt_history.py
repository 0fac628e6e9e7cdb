"""The prompts asked before: walked with Up and Down, kept for later sessions, shared between programs."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prompt_host import Host, drive, press
from textual import events
from textual.pilot import Pilot

from app.shell.paths import history_file, prompts_file
from app.ui.prompt.prompt import Prompt
from app.ui.prompt.prompt_history import PromptHistory


def asked(path: Path, *texts: str, keep: bool = True) -> PromptHistory:
    history = PromptHistory(path, keep=keep)
    for text in texts:
        history.add(text)
    return history


def walked(history: PromptHistory) -> list[str]:
    """Return all that Up leads to."""
    found: list[str] = []
    while (text := history.older(found[-1] if found else "")) is not None:
        found.append(text)
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "prompts.jsonl"


def test_prompts_survive_whatever_is_in_them(path: Path) -> None:
    texts = ["one", "two\nlines\n\tof “text” 雨", '{"text": 1}', "\u2028\x85", "half \ud83d"]
    asked(path, *texts)
    assert walked(PromptHistory(path)) == ["half ?", *reversed(texts[:-1])]


def test_the_file_is_private_from_its_first_byte(path: Path) -> None:
    asked(path, "secret")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_without_keeping_nothing_is_written_and_this_session_still_remembers(path: Path) -> None:
    asked(path, "kept")
    private = asked(path, "secret", keep=False)
    assert walked(private) == ["secret", "kept"]
    assert walked(PromptHistory(path)) == ["kept"]
    assert not list((asked(path.parent / "none" / "x", "secret", keep=False) and path.parent).glob("none"))


def test_the_same_prompt_twice_in_a_row_is_stored_once(path: Path) -> None:
    asked(path, "a", "a", "b", "a")
    assert walked(PromptHistory(path)) == ["a", "b", "a"]


def test_what_was_not_sent_is_for_this_session_until_it_is(path: Path) -> None:
    history = asked(path, "sent")
    for text in ("unsent", " ", "sent"):
        history.set_aside(text)
    assert walked(history) == ["unsent", "sent"]
    assert walked(PromptHistory(path)) == ["sent"]
    history.add("later")
    history.add("unsent")
    assert walked(history) == walked(PromptHistory(path)) == ["unsent", "later", "sent"]


def test_what_is_typed_beside_an_earlier_prompt_is_set_aside_with_it(path: Path) -> None:
    history = asked(path, "first", "second")
    assert history.older("typed") == "second"
    assert history.is_walked
    history.set_aside("second, changed")
    assert not history.is_walked
    assert walked(history) == ["second, changed", "typed", "second", "first"]


def test_a_very_long_prompt_is_for_this_session_alone(path: Path) -> None:
    history = asked(path, "short", "x" * 70_000)
    assert len(walked(history)) == 2
    assert walked(PromptHistory(path)) == ["short"]


def test_damaged_lines_are_passed_over(path: Path) -> None:
    asked(path, "a", "b")
    whole = path.read_bytes()
    path.write_bytes(b'\xff\xfe\n[1]\n{"text": 2}\n"x"\nnull\n' + whole + b'{"text": "cut')
    assert walked(PromptHistory(path)) == ["b", "a"]
    path.unlink()
    path.mkdir()
    assert walked(asked(path, "c")) == ["c"]


def test_the_file_is_bounded_and_keeps_the_latest(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("".join(json.dumps({"text": f"old {number}"}) + "\n" for number in range(1200)))
    asked(path, "new")
    lines = path.read_text().splitlines()
    assert (len(lines), json.loads(lines[0])["text"], json.loads(lines[-1])["text"]) == (1000, "old 201", "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


_WRITER = """
import sys
from pathlib import Path
from app.ui.prompt import prompt_history
prompt_history._SLACK = 0  # shortens at every prompt, where another program's could be lost
history = prompt_history.PromptHistory(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for number in range(60):
    history.add(f"{sys.argv[2]} {number}")
"""


def writing(path: Path, name: str) -> Any:
    command = [sys.executable, "-c", _WRITER, str(path), name]
    root = Path(__file__).parents[3]
    return subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_programs_that_write_at_the_same_time_lose_nothing(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("".join(json.dumps({"text": f"old {number}"}) + "\n" for number in range(1000)))
    writers = [writing(path, name) for name in ("one", "two")]
    # Both are ready before either goes, so that they write at the same time indeed.
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        with writer:
            assert writer.wait(timeout=60) == 0
    texts = [json.loads(line)["text"] for line in path.read_text().splitlines()]
    for name in ("one", "two"):
        assert [text for text in texts if text.startswith(name)] == [f"{name} {number}" for number in range(60)]


def test_it_lies_beside_the_history_of_the_line_chat() -> None:
    assert prompts_file() == history_file().with_name("prompt-history.jsonl")


def test_up_and_down_walk_it_and_the_unsent_text_is_kept(path: Path, tmp_path: Path) -> None:
    asked(path, "first", "second\nline")

    async def steps(host: Host, pilot: Pilot[None]) -> None:
        await press(host, pilot, *"draft", "up")
        assert host.prompt.text == "second\nline"
        await press(host, pilot, "up")
        assert host.prompt.text == "second\nline"
        await press(host, pilot, "up")
        assert host.prompt.text == "first"
        await press(host, pilot, "up", "up", "!", "down")
        assert host.prompt.text == "second\nline"
        await press(host, pilot, "down", "down")
        assert host.prompt.text == "draft"
        await press(host, pilot, "up", "up", "up")
        assert host.prompt.text == "!first"
        await press(host, pilot, "enter", "up")
        assert host.texts == ["!first"]
        assert host.prompt.text == "!first"

    drive(Host(tmp_path, path), steps)


def test_up_moves_through_wrapped_lines_before_it_leaves_them(path: Path, tmp_path: Path) -> None:
    asked(path, "earlier")

    async def steps(host: Host, pilot: Pilot[None]) -> None:
        host.prompt.set_text("word " * 10 + "end")
        await pilot.pause()
        text = host.prompt.text
        await press(host, pilot, "up", "up")
        assert host.prompt.text == text
        await press(host, pilot, "up", "up", "up")
        assert host.prompt.text == "earlier"

    drive(Host(tmp_path, path), steps, (24, 20))


def test_an_unsent_paste_comes_back_whole(path: Path, tmp_path: Path) -> None:
    asked(path, "earlier")

    async def steps(host: Host, pilot: Pilot[None]) -> None:
        host.area.post_message(events.Paste("line\n" * 40))
        await press(host, pilot, "up", "down")
        assert host.prompt.text == "[pasted 40 lines #1]"
        await press(host, pilot, "enter", "up")
        assert host.prompt.text == ("line\n" * 40).rstrip()

    drive(Host(tmp_path, path), steps)


@pytest.mark.parametrize("put_in", [Prompt.replace_text, Prompt.offer])
def test_an_unsent_paste_is_whole_when_another_text_takes_its_place(
    path: Path, tmp_path: Path, put_in: Callable[[Prompt, str], object]
) -> None:
    asked(path, "earlier")

    async def steps(host: Host, pilot: Pilot[None]) -> None:
        host.area.post_message(events.Paste("line\n" * 40))
        await press(host, pilot, "up")
        put_in(host.prompt, "other")
        await press(host, pilot, "ctrl+u", "x", "enter")
        texts = walked(host.prompt.history)
        assert "line\n" * 40 in texts
        assert not [text for text in texts if "[pasted" in text]

    drive(Host(tmp_path, path), steps)


def test_a_text_that_is_put_in_takes_the_place_of_none(path: Path, tmp_path: Path) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        host.area.post_message(events.Paste("line\n" * 40))
        await press(host, pilot)
        host.prompt.replace_text("other")
        await press(host, pilot, "enter", "up", "up")
        assert (host.texts, host.prompt.text) == (["other"], "line\n" * 40)
        await press(host, pilot, "down", "down", "x")
        assert not host.prompt.offer("offered")
        assert host.prompt.text == "x"
        await press(host, pilot, "up")
        assert host.prompt.text == "offered"

    drive(Host(tmp_path, path), steps)


def test_what_is_sent_is_kept_only_if_wanted(path: Path, tmp_path: Path) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        await press(host, pilot, "a", "enter")
        host.prompt.history.keep = False
        await press(host, pilot, "b", "enter", "up")
        assert host.prompt.text == "b"

    drive(Host(tmp_path, path), steps)
    assert walked(PromptHistory(path)) == ["a"]


def test_of_a_file_that_grew_beyond_all_bounds_the_last_prompts_are_read_and_kept(path: Path) -> None:
    path.parent.mkdir()
    with path.open("wb") as file:
        file.truncate(1 << 34)
        file.seek(0, 2)
        file.write(b'\n{"text": "one"}\n{"text": "two"}\n')
    history = PromptHistory(path)
    assert walked(history) == ["two", "one"]
    history.add("three")
    assert path.stat().st_size < 1 << 25
    assert walked(PromptHistory(path)) == ["three", "two", "one"]


def test_a_pipe_in_the_place_of_the_file_is_waited_for_nowhere(path: Path) -> None:
    path.parent.mkdir()
    os.mkfifo(path)
    history = asked(path, "one")
    assert walked(history) == ["one"]
