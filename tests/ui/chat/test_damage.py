"""What may go wrong around a chat: database, disk, the size of the screen, what is pasted, and what models say."""

import base64
import resource
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from checking import obeyed
from saved import branch, ended, said, talk
from textual import events
from textual.screen import Screen
from ui_chat import Chat, chatting, drive, own_folders, slowly

from app.engine.conversation.messages import Failed, Message, Ready
from app.engine.decoding.request import Question
from app.engine.runtime.load import LoadPlan
from app.history.database import damaged_files
from app.history.store import Store
from app.shell.paths import conversations_file
from app.ui.chat.app import ChatApp
from app.ui.chat.help import HelpScreen
from app.ui.chat.link import Post
from app.ui.chat.messages import Heard
from app.ui.dialogs.sessions import SessionScreen
from app.ui.panel.replay import ReplayScreen
from drafters.registry import DrafterSpec
from models.errors import LocalspecError


@pytest.fixture(autouse=True)
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own_folders(monkeypatch, tmp_path)
    # No wait of seconds for a lock that is never released.
    monkeypatch.setattr("app.history.database._PATIENCE", 0.2)


NOT_SAVED = "This conversation is not saved."


@contextmanager
def locked() -> Iterator[None]:
    """Be another program that writes, and does not come to an end."""
    with closing(sqlite3.connect(conversations_file(), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@contextmanager
def files_cannot_grow() -> Iterator[None]:
    """Let no file become longer than the saved conversations are."""
    path = conversations_file()
    longest = max(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (longest, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("trouble", [locked, files_cannot_grow])
def test_what_cannot_be_saved_is_told_once_and_saved_as_soon_as_it_can_be(
    trouble: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            await chat.ask("before")
            assert await saved(chat, 2)
            with trouble():
                slowly(monkeypatch)
                await chat.type("one")
                await chat.pilot.press("x", "y")
                assert chat.screen.prompt.text == "xy", "a key has to wait for the disk"
                await chat.until(lambda: not chat.screen.busy)
                for number in range(9):
                    if NOT_SAVED not in chat.notes:
                        await chat.pilot.pause(0.1)
                        await chat.ask(f"more {number}")
                for text in ("and", "more"):
                    await chat.pilot.pause(0.3)
                    await chat.ask(text)
                assert chat.notes.count(NOT_SAVED) == 1
                assert len(branch(conversations_file())) == 2
            await chat.ask("after")
            everything = chat.messages
            assert len(everything) > 5
        assert branch(conversations_file()) == everything

    drive(steps())


async def saved(chat: Chat, messages: int) -> bool:
    await chat.until(lambda: len(branch(conversations_file())) == messages)
    return True


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A disk of 1 MB that holds the saved conversations and nothing else."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder)
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root can make a small disk")
    monkeypatch.setenv("XDG_DATA_HOME", str(folder))
    yield folder
    subprocess.run(("umount", "-l", folder), check=True)


def fill(path: Path) -> None:
    """Write until there is no room."""
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_a_full_disk_costs_a_note_and_no_chat(small_disk: Path) -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            await chat.ask("before")
            await saved(chat, 2)
            rest = small_disk / "rest"
            with pytest.raises(OSError, match="No space"):
                fill(rest)
            await chat.ask("one " * 300)
            await chat.until(lambda: not chat.screen.busy)
            await chat.pilot.pause(0.2)
            await chat.ask("two")
            assert NOT_SAVED in chat.notes
            assert "full" in chat.notes
            rest.unlink()
            await chat.ask("after")
            everything = chat.messages
        assert branch(conversations_file()) == everything

    drive(steps())


def test_on_a_disk_that_is_nearly_full_the_log_of_changes_makes_room(small_disk: Path) -> None:
    path = conversations_file()
    with closing(Store(path)) as store:
        store.write(talk(1, "question", "answer"))
    rest = small_disk / "rest"
    with pytest.raises(OSError, match="No space"):
        fill(rest)
    with rest.open("r+b") as file:
        file.truncate(rest.stat().st_size - 100_000)
    with closing(Store(path)) as store:
        # Each takes five pages of 4 KB in the log, and none in the file itself.
        for number in range(40):
            store.write(talk(1, "question", f"answer {number}"))
    assert branch(path) == ["question", "answer 39"]


def test_a_corrupt_database_is_moved_aside_and_that_is_said() -> None:
    path = conversations_file()
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no database at all " * 1000)

    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            await chat.ask("first")
            await chat.pilot.pause(0.2)
            await chat.ask("second")
            (aside,) = damaged_files(path)
            assert aside.read_bytes() == b"no database at all " * 1000
            assert f"The file of saved conversations is damaged. It is kept as {aside}" in chat.notes
            everything = chat.messages
        assert branch(path) == everything

    drive(steps())


@pytest.mark.parametrize("looks", ["/history", "/resume 12", "f7"])
def test_a_corrupt_database_that_is_only_read_is_told_of_too(looks: str) -> None:
    path = conversations_file()
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no database at all " * 1000)

    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            await (chat.pilot.press(looks) if looks == "f7" else chat.type(looks))
            await chat.until(lambda: "The file of saved conversations is damaged." in chat.notes)
            (aside,) = damaged_files(path)
            assert f"{aside}" in chat.notes
            assert ".recover" in chat.notes

    drive(steps())


ODD = (
    "שלום \u202eevil\u202c العربية 漢字かな 한글 👩‍👩‍👧‍👦 e\u0301 \u200b\ufeff"
    " \uff57\uff49\uff44\uff45 \U0001f1e9\U0001f1ea"
)
HOSTILE = (
    "\x1b[2J\x1b]0;evil\x07[red]x[/red] <b>bold</b> [link=https://evil.test]here[/link] [@click=app.exit]quit[/]\n\n"
    "\x1b]8;;https://evil.test\x1b\\text\x1b]8;;\x1b\\ \x1b[31mred\x1b[0m \x9b31m \x90q\x9c a\rb\x08c\x7f\x00 "
    "\x1b]52;c;ZXZpbA==\x07 \x1bP1;1|17/41\x1b\\ \x1b[?1049l\n\n"
    "```python [red]\nprint('[bold]\x1b[5mcode\x1b[0m')\n```\n\n"
    "| [red]a[/] | b |\n|---|---|\n| \x1b[41mc | &#27;[31m d |\n\n"
    "- [on red]item\x1b[1m[/]\n- :smile: $(reboot) {evil}\n\n"
    "> [reverse]quote\x1b[7m[/]\n\n# [blink]Heading\x1b[5m[/]\n\n[name](javascript:evil) ![i](\x1b[31m)\n\n" + ODD
)
SHOWN = ("[red]x[/red]", "<b>bold</b>", "[link=https://evil.test]here[/link]", "[@click=app.exit]quit[/]", "␛[2J")


class Scripted:
    """An engine whose model says one text, in pieces that may end anywhere, under a name that is no better."""

    text = HOSTILE
    name = "evil\x1b[31m[red]model[/red]\x07"

    def __init__(self, _: LoadPlan, post: Post) -> None:
        self._post = post
        self._jobs = 0

    def load(self, _: LoadPlan | None = None) -> int:
        ready = Ready(self.name, "\x1b[5mlama[/]", "off[red]\x1b[1m", 2000, None, ("note [red]\x1b]0;evil\x07",))
        return self._tell(ready)

    def use_drafter(self, _: DrafterSpec) -> int:
        return self._tell(Failed(LocalspecError("[red]No\x1b[2J", cause=HOSTILE[:60], hint="\x1b]0;evil\x07[/]")))

    def answer(self, _: Question) -> int:
        pieces = [self.text[place : place + 7] for place in range(0, len(self.text), 7)]
        rounds = [
            replace(said(piece, number), lengths=(len(piece),), pieces=(piece.encode(),))
            for number, piece in enumerate(pieces)
        ]
        return self._tell(*rounds, ended(self.text))

    def recall(self, *_: object) -> int:
        return self._tell()

    def keep(self, _: str) -> None: ...

    def leave(self, _: str) -> None: ...

    def explain(self, *_: object) -> int:
        return self._tell()

    def walk(self, _: int | None) -> int:
        return self._tell()

    def stop(self) -> None: ...

    def close(self) -> None: ...

    def _tell(self, *messages: Message) -> int:
        self._jobs += 1
        for message in (*messages, None):
            self._post(Heard(self._jobs, message))
        return self._jobs


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui_chat.app_for", lambda asked: ChatApp(asked, Scripted))


def check_screen(chat: Chat) -> None:
    """Nothing on the screen is obeyed by a terminal, and no style comes from the text."""
    width, height = chat.app.size
    strips = chat.app.screen._compositor.render_strips()
    assert len(strips) == height
    for strip in strips:
        assert strip.cell_length == width
        for segment in strip:
            assert segment.control is None
            assert obeyed(segment.text) == [], f"{segment.text!r}"
            style = segment.style
            assert style is None or (style.link is None and not style.blink and not style.blink2)
            assert style is None or not {"@click", "link"} & style.meta.keys()


def is_on_top(chat: Chat, kind: type[Screen[Any]]) -> bool:
    return isinstance(chat.app.screen, kind)


@pytest.mark.usefixtures("scripted")
def test_nothing_that_a_model_says_is_obeyed() -> None:
    async def steps() -> None:
        async with chatting(size=(100, 60)) as chat:
            await chat.ready()
            check_screen(chat)
            await chat.type(HOSTILE[:300].replace("\n", " "))
            await chat.until(lambda: len(chat.messages) == 2 and not chat.screen.busy)
            assert chat.messages[1] == HOSTILE
            await chat.pilot.pause(0.3)
            for shown in SHOWN:
                assert shown in chat.shown
            check_screen(chat)
            await chat.pilot.press("f3", "f2")
            check_screen(chat)
            for key, kind in (("f4", ReplayScreen), ("f7", SessionScreen), ("f1", HelpScreen)):
                await chat.pilot.press(key)
                await chat.until(partial(is_on_top, chat, kind))
                await chat.pilot.pause(0.1)
                check_screen(chat)
                await chat.pilot.press("escape")
                await chat.until(lambda: chat.app.screen is chat.screen)
            await chat.type("/draft lookup")
            await chat.until(lambda: "␛[2J" in chat.notes or "[red]No" in chat.notes)
            await chat.pilot.pause(0.2)
            assert "[red]No" in chat.shown
            check_screen(chat)

    drive(steps())


@pytest.mark.usefixtures("scripted")
def test_a_copy_is_the_exact_text_and_only_its_envelope_is_for_the_terminal() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            await chat.type("hello")
            await chat.until(lambda: len(chat.messages) == 2 and not chat.screen.busy)
            written: list[str] = []
            driver = chat.app._driver
            assert driver is not None
            driver.write = written.append  # type: ignore[method-assign,assignment]
            await chat.pilot.press("ctrl+y")
            await chat.pilot.pause()
            (copy,) = [text for text in written if "]52;" in text]
            assert copy.startswith("\x1b]52;c;")
            assert copy.endswith("\a")
            inside = copy.removeprefix("\x1b]52;c;").removesuffix("\a")
            assert base64.b64decode(inside, validate=True).decode() == HOSTILE

    drive(steps())


@pytest.mark.usefixtures("scripted")
def test_a_screen_of_any_size_is_drawn() -> None:
    async def steps() -> None:
        async with chatting(size=(60, 30)) as chat:
            await chat.ready()
            await chat.type("漢字 " * 30)
            await chat.until(lambda: len(chat.messages) == 2 and not chat.screen.busy)
            # All heights, each with another width; the second half of them with the panel and with origins.
            for step in range(26):
                if step == 13:
                    await chat.pilot.press("f2", "f3")
                width, height = 20 + step * 40 // 25, 5 + step * 7 % 26
                await chat.pilot.resize_terminal(width, height)
                assert chat.app.size == (width, height)
                await chat.until(lambda: chat.app.screen._compositor.size == chat.app.size)
                check_screen(chat)
                assert chat.screen.prompt.region.height > 0
                assert chat.app.screen.region.contains_region(chat.screen.prompt.region), (width, height)

    drive(steps())


@pytest.mark.usefixtures("scripted")
def test_what_lies_over_the_chat_is_resized_too() -> None:
    async def steps() -> None:
        async with chatting(size=(60, 30)) as chat:
            await chat.ready()
            await chat.type("hello")
            await chat.until(lambda: len(chat.messages) == 2 and not chat.screen.busy)
            for key in ("f1", "f4", "f7", "f8"):
                await chat.pilot.press(key)
                await chat.until(lambda: chat.app.screen is not chat.screen)
                for width, height in ((20, 5), (20, 30), (140, 40)):
                    await chat.pilot.resize_terminal(width, height)
                    await chat.until(lambda: chat.app.screen._compositor.size == chat.app.size)
                    check_screen(chat)
                await chat.pilot.press("escape")
                await chat.until(lambda: chat.app.screen is chat.screen)

    drive(steps())


async def paste(chat: Chat, text: str) -> None:
    chat.screen.prompt._area.post_message(events.Paste(text))
    await chat.pilot.pause()


def test_a_megabyte_is_pasted_refused_where_it_does_not_fit_and_not_lost() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            await paste(chat, "word\n" * 200_000)
            assert chat.screen.prompt.text == "[pasted 200,000 lines #1]"
            assert "200,000 lines" in chat.shown
            await chat.pilot.press("enter")
            await chat.until(lambda: "The context is full" in chat.notes, 120)
            await chat.until(lambda: not chat.screen.busy)
            assert chat.screen.prompt.full_text.count("word\n") > 199_998
            assert chat.messages == []
            assert await chat.ask("short")

    drive(steps())


def test_what_is_no_text_is_pasted_as_signs_and_answered() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            await paste(chat, bytes(range(256)).decode("latin-1") + ODD + "\ud800")
            check_screen(chat)
            await chat.pilot.press("enter")
            await chat.until(lambda: len(chat.messages) == 2 and not chat.screen.busy)
            check_screen(chat)
            assert "␀␁␂␃" in chat.messages[0]
            assert "漢字かな" in chat.messages[0]
            everything = chat.messages
        assert branch(conversations_file()) == everything

    drive(steps())
