"""Going from one conversation to another on the chat screen: nothing that was said, or is being typed, is lost."""

import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import OptionList
from ui_chat import Chat, chatting, drive, own_folders, request, silent_until_stopped, slowly

from app.history.branch import current_branch
from app.history.recorder import Recorder
from app.history.resume import find_resumed
from app.history.search import search
from app.history.store import Store
from app.history.typed import copied_file
from app.shell.paths import conversations_file
from app.ui.chat.conversing import resume
from models.errors import LocalspecError, ModelFileError


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own_folders(monkeypatch, tmp_path)


async def conversation(chat: Chat) -> str:
    """Return the id of the conversation on the screen, once it is on disk: the screen waits for no disk."""
    record = chat.screen.dialogue.record
    assert record.conversation is not None
    name, entries = record.conversation.id, [entry.id for entry in record.branch()]
    await chat.until(lambda: saved(name) == entries)
    return name


def saved(name: str) -> list[int]:
    with suppress(LocalspecError):
        found = find_resumed(name)
        return [entry.id for entry in current_branch(found.entries, found.conversation.leaf)]
    return []


def found(chat: Chat) -> list[str | None]:
    """Return the conversations that are listed."""
    return [option.id for listed in chat.app.screen.query(OptionList) for option in listed.options]


def test_an_answer_that_runs_is_not_left_for_another_conversation(monkeypatch: pytest.MonkeyPatch) -> None:
    slowly(monkeypatch, 0.05)

    async def steps() -> None:
        async with chatting(predict=1500) as chat:
            await chat.ready()
            await chat.type("the first")
            await chat.until(lambda: chat.screen.busy)
            await chat.pilot.press("escape")
            await chat.until(lambda: not chat.screen.busy)
            first = await conversation(chat)
            await chat.pilot.press("ctrl+n")
            await chat.type("the second")
            await chat.until(lambda: chat.screen.busy)
            growing = chat.screen.dialogue.record.growing
            await chat.type(f"/resume {first}")
            assert chat.screen.busy
            assert (chat.screen.dialogue.record.growing, chat.messages[0]) == (growing, "the second")
            await chat.pilot.press("escape")
            await chat.until(lambda: not chat.screen.busy)
            await chat.type(f"/resume {first}")
            await chat.until(lambda: chat.messages[:1] == ["the first"])

    drive(steps())


def test_a_message_that_was_being_edited_is_forgotten_with_its_conversation() -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            await chat.ask("the first")
            first = await conversation(chat)
            await chat.pilot.press("ctrl+n")
            await chat.ask("the second")
            await chat.pilot.press("f6")
            await chat.until(lambda: chat.screen.editing is not None)
            # As the list of conversations does, with the prompt as it is.
            resume(chat.screen, first)
            await chat.until(lambda: chat.messages[:1] == ["the first"])
            await chat.pilot.press("enter")
            await chat.until(lambda: len(chat.messages) == 4 and not chat.screen.busy)
            assert [chat.messages[0], chat.messages[2]] == ["the first", "the second"]

    drive(steps())


def test_a_new_conversation_has_not_the_system_prompt_of_one_that_was_resumed() -> None:
    async def steps() -> None:
        async with chatting(predict=4, system_prompt="Be brief.") as chat:
            await chat.ready()
            await chat.type("/system Be a pirate.")
            await chat.ask("the first")
            first = await conversation(chat)
        async with chatting(predict=4, system_prompt="Be brief.") as chat:
            await chat.ready()
            await chat.type(f"/resume {first}")
            await chat.until(lambda: chat.messages)
            assert chat.screen.dialogue.system == "Be a pirate."
            await chat.pilot.press("ctrl+n")
            await chat.until(lambda: chat.screen.dialogue.system == "Be brief.")
            await chat.type("/system Be loud.")
            await chat.pilot.press("ctrl+n")
            await chat.ask("the second")
            assert chat.screen.dialogue.system == "Be loud."

    drive(steps())


def test_what_went_wrong_with_the_saving_is_told_when_a_conversation_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            await chat.ask("the first")
            first = await conversation(chat)
            old, close, closed = chat.screen.dialogue.record, Recorder.close, list[Recorder]()
            monkeypatch.setattr(Recorder, "close", lambda self: closed.append(self) or close(self))
            # Only its last words to the disk failed, and it is not asked again.
            monkeypatch.setattr(Recorder, "notes", lambda self: ["The disk is full."] if self in closed else [])
            await chat.type(f"/resume {first}")
            await chat.until(lambda: chat.screen.dialogue.record is not old)
            await chat.until(lambda: "The disk is full." in chat.notes)

    drive(steps())


def test_a_conversation_that_is_gone_when_it_is_chosen_is_told_and_the_chat_goes_on() -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            await chat.ask("the first")
            first = await conversation(chat)
            await chat.pilot.press("ctrl+n")
            await chat.ask("the second")
            await chat.pilot.press("f7", *"first")
            await chat.until(lambda: found(chat) == [first])
            with closing(Store(conversations_file())) as store:
                store.remove([first])
            await chat.pilot.press("enter")
            await chat.until(lambda: "No conversation's id begins with" in chat.notes)
            assert (await chat.ask("the third")).strip()
            assert len(saved(await conversation(chat))) == 4

    drive(steps())


def test_a_conversation_goes_on_where_another_could_not_be_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ModelFileError("There is no file.")

    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            await chat.ask("the first")
            first = await conversation(chat)
            monkeypatch.setattr("app.ui.chat.conversing.start_recorder", broken)
            await chat.type(f"/resume {first}")
            await chat.until(lambda: "There is no file." in chat.notes)
            await chat.ask("the second")
            assert len(saved(await conversation(chat))) == 4

    drive(steps())


def test_ctrl_d_leaves_where_nothing_is_typed_and_deletes_where_something_is() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            await chat.pilot.press("a", "b", "left", "ctrl+d")
            assert (chat.screen.prompt.text, chat.app.return_code) == ("a", None)
            await chat.pilot.press("backspace", "ctrl+d")
            await chat.until(lambda: chat.app.return_code == 0)

    drive(steps())


def test_a_message_that_got_no_word_is_no_branch_to_switch_to(monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            await chat.ask("abc")
            with monkeypatch.context() as patched:
                silent_until_stopped(patched)
                await chat.pilot.press("f6", "d", "enter")
                await chat.until(lambda: chat.screen.busy)
                await chat.pilot.press("escape")
                await chat.until(lambda: not chat.screen.busy)
            await chat.type("/branch")
            assert chat.messages[0] == "abc"
            await chat.pilot.press("f5")
            await chat.ready()
            assert len(chat.messages) == 2

    drive(steps())


def test_branch_goes_back_to_what_was_undone() -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            for text in ("the first", "the second"):
                await chat.ask(text)
            everything = chat.messages
            for left in (2, 0):
                await chat.type("/undo")
                assert len(chat.messages) == left
            await chat.type("/branch")
            assert chat.messages == everything
            await chat.ask("the third")
            assert len(saved(await conversation(chat))) == 6

    drive(steps())


def test_enter_before_the_search_is_over_waits_for_what_it_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = threading.Event()

    def slow(*arguments: Any) -> Any:
        assert searched.wait(60)
        return search(*arguments)

    monkeypatch.setattr("app.ui.dialogs.sessions.search", slow)

    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            await chat.ask("the first")
            await conversation(chat)
            await chat.pilot.press("ctrl+n")
            await chat.ask("the second")
            await conversation(chat)
            await chat.pilot.press("f7")
            await chat.until(lambda: len(found(chat)) == 2)
            await chat.pilot.press(*"first", "enter")
            assert len(found(chat)) == 2, "it still lists the latest"
            searched.set()
            await chat.until(lambda: chat.messages[:1] == ["the first"])

    drive(steps())


def test_another_conversation_shows_what_it_takes_of_the_context() -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            await chat.ask("the first")
            first = await conversation(chat)
            for leave, holds in (("/new", False), (f"/resume {first}", True), ("/strict on", True)):
                await chat.ask("more")
                assert chat.screen.flow.context_used
                await chat.type(leave)
                await chat.ready()
                await chat.until(lambda holds=holds: bool(chat.screen.flow.context_used) is holds)
            await chat.ask("more")
            await chat.type("/draft off")
            await chat.until(lambda: chat.screen.dialogue.drafter == "off")
            assert chat.screen.flow.context_used, "another drafter leaves the context as it is"

    drive(steps())


def test_a_private_chat_leaves_no_copy() -> None:
    async def steps() -> None:
        for private in (True, False):
            async with chatting(predict=4, no_history=private) as chat:
                await chat.ready()
                answer = await chat.ask("the first")
                await chat.pilot.press("ctrl+y")
                assert chat.app.clipboard == answer
            assert copied_file().exists() is not private

    drive(steps())


def test_a_working_directory_that_is_deleted_ends_no_chat(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    asked = request(predict=4)
    gone.rmdir()

    async def steps() -> None:
        async with chatting(asked) as chat:
            await chat.ready()
            assert (await chat.ask("the first")).strip()
            await chat.type("what is in @notes.txt")
            assert "There is no file notes.txt." in chat.notes
            await chat.type("/save talk.md")
            assert "talk.md can't be written.\nThe working directory was deleted." in chat.notes
            await chat.type(f"/save {tmp_path}/talk.md")
            assert (tmp_path / "talk.md").exists()

    drive(steps())
