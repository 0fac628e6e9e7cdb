"""The line chat, driven through a pseudo-terminal as a person would."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyte
import pytest
from run_here import localspec_here as localspec
from run_localspec import ROOT, environment


class Terminal:
    """localspec on a terminal of 100 x 50 cells."""

    def __init__(self, home: Path, *arguments: str) -> None:
        self.screen = pyte.Screen(100, 50)
        self._stream = pyte.ByteStream(self.screen)
        self._own, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "app", "run", "--plain", *arguments],
            cwd=ROOT,
            env=environment(home, {"TERM": "xterm"}),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            close_fds=True,
        )
        os.close(theirs)
        os.set_blocking(self._own, False)

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def type(self, text: str) -> None:
        os.write(self._own, os.fsencode(text))

    def wait_for(self, words: str, seconds: float = 90.0) -> None:
        self.wait_until(lambda: words in self.text, seconds)

    def wait_until(self, condition: object, seconds: float = 90.0) -> None:
        end = time.monotonic() + seconds
        while not condition():  # type: ignore[operator]
            assert time.monotonic() < end, f"waited in vain; the screen:\n{self.text}"
            self._read()
            time.sleep(0.02)

    def ready(self, turns: int) -> None:
        """Wait for the prompt that follows this many turns."""
        self.wait_until(lambda: sum(line.startswith(">") for line in self.screen.display) > turns)

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def exit_code(self) -> int:
        end = time.monotonic() + 60
        while self.process.poll() is None and time.monotonic() < end:
            self._read()
            time.sleep(0.01)
        return self.process.wait(1)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._own)

    def _read(self) -> None:
        try:
            self._stream.feed(os.read(self._own, 65536))
        except (BlockingIOError, OSError):
            return


@pytest.fixture
def chat(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path, "toy", "-n", "30", "--seed", "1", "-c", "4096")
    terminal.ready(0)
    yield terminal
    terminal.close()


def test_a_turn_is_answered_and_the_next_reuses_the_first(chat: Terminal) -> None:
    chat.type("hello\n")
    chat.ready(1)
    assert "30 tokens" in chat.text
    chat.type("again\n")
    chat.ready(2)
    # The terminal breaks the line anywhere, in the middle of a word too.
    assert "prompttokensreused" in "".join(chat.text.split())


def test_unknown_commands_never_reach_the_model(chat: Terminal) -> None:
    chat.type("/frobnicate\n")
    chat.wait_for("Unknown command /frobnicate.")
    assert "tokens/s" not in chat.text


def test_help_shows_a_page_of_the_manual_and_names_the_nearest_topic(chat: Terminal) -> None:
    chat.type("/help heads\n")
    chat.wait_for("If you have no head")
    chat.wait_for("/help drafting")
    assert "# Heads" not in chat.text
    chat.type("/help draftng\n")
    chat.wait_for("Did you mean drafting?")
    chat.type("/help\n")
    chat.wait_for("Topics of the manual:")
    assert "tokens/s" not in chat.text


def test_regen_answers_anew_and_undo_forgets(chat: Terminal) -> None:
    chat.type("hello\n")
    chat.ready(1)
    chat.type("/regen\n")
    chat.ready(2)
    assert chat.text.count("30 tokens") == 2
    chat.type("/undo\n")
    chat.wait_for("Removed the last message and its answer.")
    chat.type("/regen\n")
    chat.wait_for("There is no message yet.")


def test_settings_are_shown_changed_and_refused(chat: Terminal) -> None:
    chat.type("/set temp 0.25\n")
    chat.wait_for("temp is 0.25.")
    chat.type("/set temp warm\n")
    chat.wait_for("temp can't be 'warm'")
    chat.type("/set top-p 7\n")
    chat.wait_for("top-p is 7.0")
    chat.type("/draft 5\n")
    chat.wait_for("in a chat /set draft-max 5")
    chat.type("/set\n")
    chat.wait_for("top-p             0.95")
    assert "temp              0.25" in chat.text


def test_the_drafter_changes_in_mid_chat_and_a_bad_one_leaves_the_old(tmp_path: Path) -> None:
    chat = Terminal(tmp_path, "toy", "-n", "30", "--seed", "1", "--no-adapt")
    chat.ready(0)
    chat.type("/draft model:toy\n")
    chat.wait_for("Drafter: model:toy-0, 3 draft tokens per round.")
    chat.type("/draft nope.gguf\n")
    chat.wait_for("no file nope.gguf")
    chat.type("/draft\n")
    chat.wait_until(lambda: chat.text.count("Drafter: model:toy-0") == 2)
    chat.type("hello\n")
    chat.wait_for("accepted")
    chat.type("/stats\n")
    chat.wait_for("by position")
    chat.close()


def test_spec_tells_why_before_and_after_an_answer(chat: Terminal) -> None:
    chat.type("/spec\n")
    chat.wait_for("draft limit")
    chat.type("hello\n")
    chat.ready(2)
    chat.type("/spec\n")
    chat.wait_for("matched by position")
    chat.type("/draft off\n")
    chat.wait_for("Drafter: off")
    chat.type("/spec\n")
    chat.wait_for("No drafter: plain decoding.")


def test_multi_line_input_is_one_message(chat: Terminal) -> None:
    chat.type("one\\\n")
    chat.wait_for("\n.")
    chat.type("two\n")
    chat.ready(1)
    chat.type('"""first\n')
    chat.type("second\n")
    chat.type('third"""\n')
    chat.ready(2)
    assert chat.text.count("30 tokens") == 2


def test_a_text_between_triple_quotes_is_no_command(chat: Terminal) -> None:
    chat.type('"""/frobnicate"""\n')
    chat.wait_for("30 tokens")
    chat.type("// a comment\n")
    chat.wait_until(lambda: chat.text.count("30 tokens") == 2)
    assert "Unknown command" not in chat.text


@pytest.mark.parametrize("typed", ['"""one\ntwo\n', "one\\\ntwo\\\n"])
def test_the_end_of_what_is_typed_ends_a_longer_text_and_loses_none_of_it(tmp_path: Path, typed: str) -> None:
    assert localspec("run", "toy", "-n", "5", home=tmp_path, typed=typed).returncode == 0
    said, answer = json.loads(localspec("history", "export", "--json", home=tmp_path).stdout)["messages"]
    assert (said["text"].rstrip(), answer["role"]) == ("one\ntwo", "assistant")


def test_the_argument_of_a_command_can_begin_on_the_next_line(chat: Terminal) -> None:
    chat.type("/system\\\nBe brief.\\\nBe kind.\n/system\n")
    chat.wait_for("Be brief.\nBe kind.\n")


def test_no_mark_of_a_line_to_be_typed_is_among_answers_that_go_to_a_file(tmp_path: Path) -> None:
    typed = 'one\ntwo\\\nmore\n"""three\nmore"""\n/quit\n'
    done = localspec("run", "toy", "-n", "5", "--seed", "1", "--temp", "0", home=tmp_path, typed=typed)
    saved = json.loads(localspec("history", "export", "--json", home=tmp_path).stdout)
    answers = [said["text"] for said in saved["messages"] if said["role"] == "assistant"]
    assert done.stdout == "".join(f"{answer}\n" for answer in answers)
    assert (len(answers), done.stderr.count("> "), done.stderr.count("> . ")) == (3, 4, 2)


def test_a_byte_that_is_no_text_ends_no_chat(chat: Terminal) -> None:
    chat.type("caf\udce9\n")
    chat.wait_for("30 tokens")
    assert "Traceback" not in chat.text


def test_a_working_directory_that_is_deleted_ends_no_chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    done = localspec("run", "toy", "-n", "5", home=tmp_path, typed="hello\n/save talk.md\n/quit\n")
    assert done.returncode == 0
    assert "5 tokens" in done.stderr
    assert "talk.md can't be written.\n  The working directory was deleted." in done.stderr


def test_interrupt_keeps_what_was_said_and_a_second_one_leaves_with_130(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "toy", "--seed", "3", "-c", "200000", "--temp", "0", "--draft", "off", "--stop", "~")
    terminal.ready(0)
    terminal.type("hello\n")
    terminal.wait_until(lambda: len(terminal.text) > 300)
    terminal.interrupt()
    terminal.wait_for("Stopped.")
    terminal.interrupt()
    assert terminal.exit_code() == 130
    terminal.close()


def test_interrupt_at_the_prompt_leaves_the_second_time_only(chat: Terminal) -> None:
    chat.interrupt()
    chat.wait_for("Press Ctrl-C again to leave.")
    chat.type("hello\n")
    chat.ready(2)
    chat.interrupt()
    chat.wait_until(lambda: chat.text.count("Press Ctrl-C again to leave.") == 2)
    assert chat.process.poll() is None
    chat.interrupt()
    assert chat.exit_code() == 130


@pytest.mark.parametrize("name", ["new", "clear"])
def test_a_new_conversation_has_the_same_name_as_on_the_screen(chat: Terminal, name: str) -> None:
    chat.type(f"/{name}\n")
    chat.wait_for("New conversation.")
    chat.type("/help\n")
    chat.wait_for("/new ")


@pytest.mark.parametrize("said", ["", "Be brief."])
def test_after_one_that_went_on_a_new_conversation_has_the_settings_system_prompt(tmp_path: Path, said: str) -> None:
    assert localspec("run", "toy", "-n", "2", "hi", "-sys", "Be a pirate.", home=tmp_path).returncode == 0
    settings = tmp_path / ".config/localspec/config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'system-prompt = "{said}"\n' if said else "")
    told = localspec("run", "-C", "-n", "2", home=tmp_path, typed="/system\n/new\n/system\n").stderr
    after = told.partition("Be a pirate.")[2]
    assert (said or "No system prompt.") in after
    assert "Be a pirate." not in after
    kept = localspec("run", "-C", "-n", "2", home=tmp_path, typed="/system Be loud.\n/new\n/system\n").stderr
    assert "Be loud." in kept.partition("New conversation.")[2], "what was typed counts"


@pytest.mark.parametrize("farewell", ["/quit\n", "/bye\n", "\x04"])
def test_leaving_is_no_failure(chat: Terminal, farewell: str) -> None:
    chat.type(farewell)
    assert chat.exit_code() == 0


def test_a_question_that_does_not_fit_is_refused_and_the_chat_goes_on(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "toy", "-n", "5", "-c", "40")
    terminal.ready(0)
    terminal.type("this is a question of many more than forty tokens\n")
    terminal.wait_for("The context is full")
    terminal.type("short\n")
    terminal.wait_for("5 tokens")
    terminal.close()


def test_typed_lines_are_remembered_in_a_private_file(tmp_path: Path) -> None:
    for line in ("remember me\n", "me too\n"):
        terminal = Terminal(tmp_path, "toy", "-n", "3")
        terminal.ready(0)
        terminal.type(line)
        terminal.ready(1)
        terminal.type("/quit\n")
        assert terminal.exit_code() == 0
        terminal.close()
    (history,) = tmp_path.rglob("prompt-history")
    assert history.read_text().split("\n")[:3:2] == ["remember me", "me too"]
    assert history.stat().st_mode & 0o777 == 0o600


@pytest.fixture
def two_chats(tmp_path: Path) -> Iterator[tuple[Terminal, Terminal]]:
    """Two chats that run at the same time, begun where one line was typed before."""
    _type_in_a_chat(tmp_path, "long ago\n")
    chats = Terminal(tmp_path, "toy", "-n", "3"), Terminal(tmp_path, "toy", "-n", "3")
    for terminal, line in zip(chats, ("here\n", "there\n"), strict=True):
        terminal.ready(0)
        terminal.type(line)
        terminal.ready(1)
    yield chats
    for terminal in chats:
        terminal.close()


def _type_in_a_chat(home: Path, line: str) -> None:
    terminal = Terminal(home, "toy", "-n", "3")
    terminal.ready(0)
    terminal.type(line)
    terminal.ready(1)
    _leave(terminal)
    terminal.close()


def _leave(terminal: Terminal) -> None:
    terminal.type("/quit\n")
    assert terminal.exit_code() == 0


def test_two_chats_lose_no_line_of_each_other(tmp_path: Path, two_chats: tuple[Terminal, Terminal]) -> None:
    for terminal in two_chats:
        _leave(terminal)
    (history,) = tmp_path.rglob("prompt-history")
    assert history.read_text().split("\n") == ["long ago", "/quit", "here", "/quit", "there", "/quit", ""]


def test_a_chat_puts_nothing_back_that_was_removed_while_it_ran(
    tmp_path: Path, two_chats: tuple[Terminal, Terminal]
) -> None:
    (history,) = tmp_path.rglob("prompt-history")
    history.unlink()
    for terminal in two_chats:
        _leave(terminal)
    assert history.read_text().split("\n") == ["here", "/quit", "there", "/quit", ""]
