"""What is said again on the chat screen: regenerated, edited, undone, and gone on with another time."""

import pytest
from saved import others
from ui_chat import Chat, chatting, drive, request, slowly

from app.shell.paths import conversations_file
from app.ui.dialogs.sessions import SessionScreen

pytestmark = pytest.mark.usefixtures("folders")


def test_regenerating_stands_beside_and_branches_can_be_switched() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            first = await chat.ask("abcabc")
            await chat.pilot.press("f5")
            await chat.until(lambda: not chat.screen.busy and chat.messages[-1] != first)
            second = chat.messages[-1]
            assert chat.messages == ["abcabc", second]
            await chat.type("/branch")
            await chat.ready()
            assert chat.messages == ["abcabc", first]
            await chat.type("/branch")
            await chat.ready()
            assert chat.messages == ["abcabc", second]
            await chat.pilot.press("tab")
            for answer in (first, second, first):
                await chat.pilot.press("b")
                await chat.until(lambda answer=answer: chat.messages == ["abcabc", answer], seconds=10)

    drive(steps())


def spaced(chat: Chat) -> str:
    """Return what is shown, with a space for each no-break space."""
    return chat.shown.replace("\N{NO-BREAK SPACE}", " ")


def test_several_answers_say_which_one_is_shown_and_keys_walk_through_them() -> None:
    async def steps() -> None:
        async with chatting(size=(140, 30)) as chat:
            await chat.ready()
            answers = [await chat.ask("abcabc")]
            assert "answer 1 of" not in chat.shown
            for _ in range(2):
                await chat.pilot.press("f5")
                await chat.until(lambda: not chat.screen.busy and chat.messages[-1] not in answers)
                answers.append(chat.messages[-1])
            await chat.until(lambda: "answer 3 of 3" in spaced(chat))
            for key, place in (("alt+left", 1), ("alt+left", 0), ("alt+left", 2), ("alt+right", 0)):
                chat.screen.prompt.set_text("typed")
                await chat.pilot.press(key)
                await chat.until(lambda place=place: chat.messages[-1] == answers[place], 20)
                await chat.until(lambda place=place: f"answer {place + 1} of 3" in spaced(chat), 20)
                await chat.ready()
                assert chat.screen.prompt.text == "typed"

    drive(steps())


def test_a_message_is_edited_on_a_branch_and_reuses_what_is_read() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            await chat.ask("abcabc")
            await chat.ask("one two three")
            await chat.pilot.press("f6")
            assert chat.screen.prompt.text == "one two three"
            await chat.ask("one two four")
            assert len(chat.messages) == 4
            assert chat.messages[2] == "one two four"
            assert chat.screen.flow.stats.reused_tokens > len("abcabc")
            chat.screen.dialogue.record.close()
            assert others(conversations_file())[0][0] == "one two three"

    drive(steps())


def test_undo_and_new_leave_nothing_on_the_screen_and_all_on_disk() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            await chat.ask("abc")
            await chat.ask("def")
            await chat.type("/undo")
            assert len(chat.messages) == 2
            await chat.pilot.press("ctrl+n")
            assert chat.messages == []
            await chat.ask("ghi")
            assert chat.messages[0] == "ghi"
            assert chat.screen.flow.stats.reused_tokens < 20

    drive(steps())


def test_a_question_can_be_edited_while_it_is_answered_and_is_sent_when_that_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def steps() -> None:
        async with chatting(predict=1500) as chat:
            await chat.ready()
            slowly(monkeypatch, 0.05)
            await chat.type("abc")
            await chat.until(lambda: len(chat.messages) == 2 and chat.messages[1])
            await chat.pilot.press("f6", "d", "enter")
            assert (chat.screen.prompt.text, chat.screen.busy) == ("abcd", "answering")
            await chat.pilot.press("escape")
            await chat.until(lambda: not chat.screen.busy)
            await chat.pilot.press("enter")
            await chat.until(lambda: chat.messages[:1] == ["abcd"])

    drive(steps())


def test_an_emptied_prompt_forgets_what_was_to_be_edited() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            await chat.ask("abcabc")
            await chat.pilot.press("f6")
            await chat.until(lambda: "editing" in chat.shown)
            chat.screen.prompt.set_text("")
            await chat.until(lambda: "editing" not in chat.shown)
            await chat.ask("def")
            assert len(chat.messages) == 4

    drive(steps())


def test_a_saved_conversation_is_found_and_gone_on_with() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            answer = await chat.ask("the quick brown fox")
            await chat.pilot.press("ctrl+n")
            await chat.ask("something else")
            await chat.pilot.press("f7")
            await chat.until(lambda: isinstance(chat.app.screen, SessionScreen))
            for key in "brown":
                await chat.pilot.press(key)
            await chat.until(lambda: chat.app.screen.query_one("#found").option_count == 1)  # type: ignore[attr-defined]
            await chat.pilot.press("enter")
            await chat.until(lambda: chat.messages == ["the quick brown fox", answer])
            await chat.ask("and then")
            assert len(chat.messages) == 4

    drive(steps())


def test_a_chat_that_is_resumed_at_the_start_shows_what_was_said() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            answer = await chat.ask("abcabc")
        async with chatting(request(go_on=True)) as again:
            await again.ready()
            assert again.messages == ["abcabc", answer]

    drive(steps())
