"""Going from one conversation to another on the chat screen: nothing that was said, or is being typed, is lost."""

from contextlib import closing, suppress
from pathlib import Path

import pytest
from textual.widgets import OptionList
from ui_chat import Chat, chatting, drive, own_folders, slowly

from app.history.branch import current_branch
from app.history.recorder import Recorder
from app.history.resume import find_resumed
from app.history.store import Store
from app.paths import conversations_file
from app.ui.conversing import resume
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


def test_what_went_wrong_with_the_saving_is_told_when_a_conversation_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            await chat.ask("the first")
            first = await conversation(chat)
            old, close, closed = chat.screen.dialogue.record, Recorder.close, list[Recorder]()
            monkeypatch.setattr(Recorder, "close", lambda self: closed.append(self) or close(self))
            # Only its last words to the disk failed, and nobody asks it again.
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
            monkeypatch.setattr("app.ui.conversing.start_recorder", broken)
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
