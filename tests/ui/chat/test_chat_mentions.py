"""A message with files on the chat screen: edited, resumed or taken back, it is what was typed, not what was sent."""

from pathlib import Path

import pytest
from ui_chat import Chat, chatting, drive, own_folders, request, silent_until_stopped

from app.ui.prompt.prompt_area import PromptArea

TYPED = "abc @notes.txt"


@pytest.fixture(autouse=True)
def notes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a file in the folder of the chat."""
    own_folders(monkeypatch, tmp_path)
    file = tmp_path / "notes.txt"
    file.write_text("one\n")
    return file


def sent(content: str) -> str:
    return f"{TYPED}\n\nnotes.txt:\n```txt\n{content}\n```"


async def edit(chat: Chat) -> None:
    await chat.pilot.press("f6")
    await chat.until(lambda: chat.screen.editing is not None)


async def sent_again(chat: Chat) -> None:
    before = chat.screen.transcript.message_keys()[0]
    await chat.pilot.press("enter")
    await chat.until(lambda: before not in chat.screen.transcript.message_keys() and not chat.screen.busy)


def test_an_edited_message_is_what_was_typed_and_sends_the_file_as_it_is_now(notes: Path) -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            await chat.ask(TYPED)
            assert chat.messages[0] == sent("one")
            await edit(chat)
            assert chat.screen.prompt.text == TYPED
            notes.write_text("two\n")
            await chat.pilot.press("enter")
            await chat.until(lambda: chat.messages[:1] == [sent("two")] and not chat.screen.busy)
            assert len(chat.messages) == 2, "a branch of its own, and not a second question"

    drive(steps())


def test_a_file_that_is_gone_by_then_is_told_of_and_what_was_edited_stays(notes: Path) -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            answer = await chat.ask(TYPED)
            await edit(chat)
            notes.unlink()
            await chat.pilot.press("enter")
            await chat.until(lambda: "There is no file notes.txt." in chat.notes)
            assert (chat.screen.prompt.text, chat.messages) == (TYPED, [sent("one"), answer])
            notes.write_text("back\n")
            await chat.pilot.press("enter")
            await chat.until(lambda: chat.messages[:1] == [sent("back")] and not chat.screen.busy)
            assert len(chat.messages) == 2, "it still takes the place of the earlier one"

    drive(steps())


def test_a_conversation_that_is_resumed_knows_what_was_typed() -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            await chat.ask(TYPED)
        async with chatting(request(go_on=True, predict=4)) as again:
            await again.ready()
            assert again.messages[0] == sent("one")
            await edit(again)
            assert again.screen.prompt.text == TYPED

    drive(steps())


def test_a_message_that_is_taken_back_is_what_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            silent_until_stopped(monkeypatch)
            await chat.type(TYPED)
            await chat.until(lambda: chat.screen.busy == "answering")
            await chat.pilot.press("escape")
            await chat.until(lambda: not chat.screen.busy)
            assert (chat.messages, chat.screen.prompt.text) == ([], TYPED)

    drive(steps())


PASTED = "x = 1\n@notes.txt\n@mock.patch\n@property"


async def paste_and_send(chat: Chat) -> None:
    await chat.ready()
    chat.screen.query_one(PromptArea).take_paste(PASTED)
    await chat.pilot.press("enter")
    await chat.until(lambda: len(chat.messages) == 2 and not chat.screen.busy)


def test_what_was_pasted_names_no_file_when_it_is_edited_either() -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await paste_and_send(chat)
            before = chat.messages[0]
            await edit(chat)
            assert chat.screen.prompt.text == "x = 1\n\\@notes.txt\n\\@mock.patch\n@property"
            await sent_again(chat)
            assert chat.messages[0] == before == PASTED

    drive(steps())


def test_what_was_pasted_names_no_file_when_up_leads_to_it_either() -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await paste_and_send(chat)
            await chat.pilot.press("up", "enter")
            await chat.until(lambda: len(chat.messages) == 4 and not chat.screen.busy)
            assert chat.messages[2] == chat.messages[0] == PASTED

    drive(steps())


def test_what_was_pasted_and_not_sent_names_no_file_later_either() -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            await chat.ask("abc")
            chat.screen.query_one(PromptArea).take_paste("y = 2\n@notes.txt")
            await edit(chat)
            await sent_again(chat)
            await chat.pilot.press("up", "up", "enter")
            await chat.until(lambda: len(chat.messages) == 4 and not chat.screen.busy)
            assert chat.messages[2] == "y = 2\n@notes.txt"

    drive(steps())


def test_a_command_with_something_pasted_is_the_same_when_up_leads_to_it() -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            chat.screen.prompt.set_text("/system ")
            chat.screen.query_one(PromptArea).take_paste("Say\n@notes.txt")
            await chat.pilot.press("enter", "up")
            assert chat.screen.dialogue.system == "Say\n@notes.txt"
            assert chat.screen.prompt.text == "/system Say\n@notes.txt"

    drive(steps())


def test_a_very_long_message_still_names_its_file_when_it_is_edited() -> None:
    async def steps() -> None:
        async with chatting(request(predict=4, ctx_size=4096)) as chat:
            await chat.ready()
            await chat.ask(TYPED + "\n" * 1_000 + "end")
            before = chat.messages[0]
            await edit(chat)
            assert chat.screen.prompt.text.startswith("[pasted")
            await sent_again(chat)
            assert chat.messages[0] == before
            assert "notes.txt:\n```txt\none" in before

    drive(steps())
