"""The chat screen with the real engine behind it: commands, help, sizes, themes, mistakes, and the way out."""

import re

import pytest
from ui_chat import chatting, drive

from app.ui.chat.help import HelpScreen
from app.ui.dialogs.sheet import SheetScreen
from app.ui.transcript.look import look_of

pytestmark = pytest.mark.usefixtures("folders")


COMMANDS = [
    ("/explain", "No round"),
    ("/stats", "There is no answer yet"),
    ("/set", "repeat-last-n"),
    ("/set temp 0.25", "temp is 0.25."),
    ("/set temp warm", "temp can't be 'warm'."),
    ("/nothing", "Unknown command /nothing."),
    ("/copy", "There is no answer yet."),
    ("/system", "No system prompt."),
    ("/title", "The conversation is empty."),
    ("/strict", "Strict is off"),
    ("/strict maybe", "/strict can't take 'maybe'."),
    ("/strict on", "strict: exact up to"),
    ("/theme pink", "Unknown theme 'pink'."),
    ("/history", "No conversations are saved."),
    ("/save", "/save needs a file name."),
    ("/draft model:gone.gguf", "There is no file gone.gguf."),
    ("/model gone.gguf", "There is no file gone.gguf."),
]
"""Lines of an empty conversation, each with a part of what answers it."""


def test_commands_answer_on_the_screen_and_the_chat_goes_on() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            for line, shown in COMMANDS:
                before = len(chat.notes)
                await chat.type(line)
                await chat.until(lambda: shown in chat.notes[before:])  # noqa: B023
                await chat.ready()
            assert await chat.ask("abc")

    drive(steps())


@pytest.mark.parametrize(
    ("command", "words"),
    [("/spec", "Drafter copy"), ("/explain", "Round"), ("/stats", "position")],
)
@pytest.mark.parametrize("size", [(60, 20), (140, 40)])
def test_tables_open_in_a_sheet_that_escape_closes(command: str, words: str, size: tuple[int, int]) -> None:
    async def steps() -> None:
        async with chatting(size=size, no_adapt=True, draft_max=3) as chat:
            await chat.ready()
            await chat.ask("abcabcabc")
            before = chat.notes
            await chat.type(command)
            await chat.until(lambda: isinstance(chat.app.screen, SheetScreen))
            await chat.until(lambda: words.split()[0] in chat.shown)
            assert chat.notes == before, "nothing of it is in the conversation"
            await chat.pilot.press("escape")
            assert chat.app.screen is chat.screen

    drive(steps())


def test_a_long_message_is_folded_and_o_opens_it() -> None:
    text = "\n".join(f"line {number}" for number in range(40))

    async def steps() -> None:
        async with chatting(predict=4, size=(80, 60)) as chat:
            await chat.ready()
            await chat.ask(text)
            assert chat.messages[0] == text
            assert "line 7" in chat.shown
            assert "line 8" not in chat.shown
            assert "… 32 more lines." in chat.shown
            await chat.pilot.press("tab", "up", "o")
            await chat.until(lambda: "line 39" in chat.shown)
            assert "more lines" not in chat.shown
            await chat.pilot.press("y")
            assert chat.app.clipboard == text
            await chat.pilot.press("o")
            await chat.until(lambda: "line 39" not in chat.shown)

    drive(steps())


def test_a_form_that_answers_get_is_told_of_and_lifted() -> None:
    async def steps() -> None:
        async with chatting(grammar='root ::= "yes"', predict=9, temp=0.0) as chat:
            await chat.ready()
            assert "Every answer follows the JSON schema or grammar" in chat.notes
            assert await chat.ask("abc") == "yes"
            await chat.type("/set temp 0.5")
            assert await chat.ask("abc") == "yes"
            await chat.type("/set form off")
            await chat.until(lambda: "form is off." in chat.notes)
            assert await chat.ask("abc") != "yes"

    drive(steps())


def test_an_answer_that_is_cut_before_its_form_is_complete_says_so() -> None:
    async def steps() -> None:
        async with chatting(grammar='root ::= "yes or no"', predict=4, temp=0.0) as chat:
            await chat.ready()
            assert await chat.ask("abc") == "yes "
            await chat.until(lambda: "may lack the rest of its form" in chat.shown)

    drive(steps())


def test_help_lists_remapped_keys() -> None:
    async def steps() -> None:
        async with chatting(key=("chat.panel=f12",), size=(140, 60)) as chat:  # type: ignore[arg-type]
            await chat.ready()
            shown = chat.screen.panel_shown
            await chat.pilot.press("f12")
            assert chat.screen.panel_shown is not shown
            await chat.pilot.press("f1")
            await chat.until(lambda: isinstance(chat.app.screen, HelpScreen))
            await chat.until(lambda: "f12" in chat.shown)
            assert "f2, ctrl+t" not in chat.shown
            assert "chat.panel" in chat.shown
            # A prompt with text in it takes this one first.
            assert re.search(r"ctrl\+d +Leave, if the prompt is empty", chat.shown)

    drive(steps())


def test_a_mistake_of_the_program_is_told_and_the_chat_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("on purpose")

    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            monkeypatch.setattr("app.ui.chat.commands.setting_values", broken)
            await chat.type("/set")
            assert "Internal error in localspec" in chat.notes
            assert "ZeroDivisionError: on purpose" in chat.notes
            assert "localspec.log" in chat.notes
            assert await chat.ask("abc")

    drive(steps())


@pytest.mark.parametrize("size", [(20, 5), (21, 6), (30, 8), (40, 12), (60, 20), (200, 60)])
def test_the_screen_works_at_any_size(size: tuple[int, int]) -> None:
    async def steps() -> None:
        async with chatting(size=size) as chat:
            await chat.ready()
            assert await chat.ask("abc")
            for key in ("f2", "f3", "f1", "escape", "f4"):
                await chat.pilot.press(key)
                await chat.pilot.pause()

    drive(steps())


def test_every_resize_is_survived() -> None:
    async def steps() -> None:
        async with chatting(size=(80, 24)) as chat:
            await chat.ready()
            await chat.ask("abc")
            for width in range(20, 140, 7):
                await chat.pilot.resize_terminal(width, 5 + width % 40)
            assert len(chat.messages) == 2

    drive(steps())


def test_a_terminal_without_room_for_anything_ends_no_chat() -> None:
    async def steps() -> None:
        async with chatting(size=(80, 24)) as chat:
            await chat.ready()
            for width in range(8, 0, -1):
                await chat.pilot.resize_terminal(width, 10)
                await chat.pilot.resize_terminal(width, 1)
            await chat.pilot.resize_terminal(80, 24)
            assert chat.app.is_running
            assert "Message, / for commands" in chat.shown

    drive(steps())


@pytest.mark.parametrize(("keys", "code"), [(("ctrl+q",), 0), (("ctrl+c", "ctrl+c"), 130)])
def test_leaving_has_an_exit_code(keys: tuple[str, ...], code: int) -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            for key in keys:
                await chat.pilot.press(key)
            await chat.pilot.pause()
            assert chat.app.return_value == code

    drive(steps())


def test_another_theme_colours_what_is_there_already() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            await chat.ask("abc")
            before = chat.screen.transcript.look.user
            await chat.type("/theme light")
            await chat.until(lambda: chat.screen.transcript.look.user == look_of(chat.screen.transcript).user != before)

    drive(steps())


@pytest.mark.parametrize("command", ["/stats", "/help", "/settings", "/theme"])
def test_a_screen_that_is_closed_twice_leaves_the_chat(command: str) -> None:
    """A letter closes a sheet that may still have an Escape to handle; two quick Escapes may both arrive."""

    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            await chat.ask("abc")
            await chat.type(command)
            await chat.until(lambda: chat.app.screen is not chat.screen)
            over = chat.app.screen
            over.dismiss()
            over.dismiss()
            await chat.pilot.pause()
            assert chat.app.screen is chat.screen

    drive(steps())
