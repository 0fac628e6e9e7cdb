"""A model that thinks, on the chat screen: its thoughts are folded away, shown again, and no part of what is copied."""

import pytest
from thinking_toy import MarkingToy, ThinkingToy
from ui_chat import Chat, chatting, drive

from app.engine.runtime import load
from models.text.thoughts import divided

pytestmark = pytest.mark.usefixtures("folders")
HEADING = "(/thoughts shows or hides them)"


@pytest.fixture(autouse=True)
def _thinks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "ToyModel", ThinkingToy)


async def asked(chat: Chat) -> str:
    await chat.ready()
    return await chat.ask("the sea the sea")


def test_thoughts_are_folded_away_and_shown_by_a_command_and_left_out_of_a_copy() -> None:
    async def steps() -> None:
        async with chatting(predict=14, temp=0.0) as chat:
            parts = divided(await asked(chat))
            assert parts.thoughts
            assert parts.answer
            await chat.until(lambda: HEADING in chat.shown)
            rows = [row.strip() for row in chat.shown.splitlines()]
            assert parts.thoughts not in rows
            await chat.type("/thoughts")
            await chat.until(lambda: parts.thoughts in [row.strip() for row in chat.shown.splitlines()])
            for copying in (chat.type("/copy"), chat.pilot.press("ctrl+y")):
                chat.app.copy_to_clipboard("")
                await copying
                await chat.until(lambda: chat.app.clipboard)
                assert chat.app.clipboard == parts.answer

    drive(steps())


def test_an_answer_that_is_all_thoughts_says_so_and_shows_them() -> None:
    async def steps() -> None:
        async with chatting(predict=4, temp=0.0) as chat:
            parts = divided(await asked(chat))
            assert parts.thoughts
            assert not parts.answer
            await chat.until(lambda: "ends within the model's thoughts" in chat.shown)
            assert parts.thoughts in chat.shown

    drive(steps())


def test_an_answer_to_a_bare_prompt_is_shown_copied_and_resumed_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "ToyModel", MarkingToy)

    async def steps() -> None:
        async with chatting(predict=14, temp=0.0, raw=True) as chat:
            answer = await asked(chat)
            assert divided(answer).thoughts
            shown = answer.split()[0]
            await chat.until(lambda: shown in chat.shown)
            for copying in (chat.type("/copy"), chat.pilot.press("ctrl+y")):
                chat.app.copy_to_clipboard("")
                await copying
                await chat.until(lambda: chat.app.clipboard)
                assert chat.app.clipboard == answer
            saved = chat.screen.dialogue.record.conversation
            assert saved is not None
            await chat.type("/new")
            await chat.until(lambda: not chat.messages)
            await chat.type(f"/resume {saved.id}")
            await chat.until(lambda: shown in chat.shown)
            assert HEADING not in chat.shown

    drive(steps())


def test_a_setting_leaves_them_out_of_the_next_answer() -> None:
    async def steps() -> None:
        async with chatting(predict=30, temp=0.0) as chat:
            await chat.ready()
            await chat.until(lambda: "/set think takes auto, on, off." in chat.shown)
            await chat.type("/set think off")
            await chat.until(lambda: "think is off." in chat.notes)
            answer = await chat.ask("the sea the sea")
            assert divided(answer).answer == answer
            assert HEADING not in chat.shown

    drive(steps())
