"""The editor: what each key does to the text and to what is proposed, and what is asked of the engine when."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from textual import events
from ui_chat import slowly
from ui_edit import CODE, drive, editing, filled, told

from app.ui.editor.asking import PATIENT
from app.ui.editor.dialogs import EditHelpScreen
from app.ui.editor.line import WantedLine
from app.ui.editor.screen import EditScreen
from app.ui.panel.panel import SpeculationPanel
from models.errors import LocalspecError

BODY = "return 2 * (width + height)"
SEVERAL = "edge = width + height\n    return 2 * edge"


pytestmark = pytest.mark.usefixtures("folders")


def test_a_model_proposes_when_typing_pauses_and_tab_takes_it(path: Path) -> None:
    async def steps() -> None:
        async with editing(path) as editor:
            await editor.ready()
            await editor.press(*"re")
            ghost = await editor.proposed()
            assert ghost.split("\n")[0][:40] in editor.shown
            assert editor.area.text == filled("re")
            await editor.press("tab")
            assert editor.area.text == filled(f"re{ghost}")
            await editor.press("ctrl+z")
            assert editor.area.text == filled("re")
            assert editor.screen.flow.stats.emitted

    drive(steps())


def test_the_next_proposal_is_there_before_it_is_asked_for(path: Path) -> None:
    async def steps() -> None:
        async with editing(path) as editor:
            await editor.ready()
            await editor.press("r")
            await editor.proposed()
            await editor.until(lambda: not editor.screen.flow.running and editor.screen.completer._run.task.done())
            await editor.press("tab")
            await editor.proposed()
            assert "first line" in editor.shown

    drive(steps())


def test_what_is_typed_along_leaves_the_rest_and_asks_nothing(path: Path) -> None:
    async def steps() -> None:
        async with told(path, f"eturn {BODY[7:]}") as editor:
            await editor.press("r")
            assert await editor.proposed() == BODY[1:]
            await editor.until(lambda: len(editor.async_engine.asked) == 2)
            asked = len(editor.async_engine.asked)
            await editor.press(*"eturn ")
            assert editor.area.ghost == BODY[7:]
            await asyncio.sleep(0.1)
            await editor.press("2")
            assert (editor.area.ghost, editor.area.text) == (BODY[8:], filled("return 2"))
            assert len(editor.async_engine.asked) == asked
            # One for what is shown, one for what comes after it, of which the figures say nothing.
            assert (asked, editor.screen.flow.answers) == (2, 1)
            await editor.press("x")
            assert not editor.area.ghost

    drive(steps())


def test_a_word_and_a_line_are_taken_and_the_rest_stays(path: Path) -> None:
    async def steps() -> None:
        async with told(path, SEVERAL) as editor:
            await editor.press("f5")
            await editor.proposed()
            await editor.press("ctrl+right", "ctrl+right")
            assert (editor.area.text, editor.area.ghost) == (filled("edge ="), SEVERAL[6:])
            await editor.press("ctrl+down")
            assert editor.area.text == filled("edge = width + height")
            await editor.press("ctrl+down")
            assert editor.area.text == filled(SEVERAL)
            await editor.press("ctrl+z")
            assert editor.area.text == filled("edge = width + height")
            await editor.press("home", "home", "ctrl+right")
            assert editor.area.cursor_location[1] > 0

    drive(steps())


@pytest.mark.parametrize("key", ["escape", "left", "backspace", "ctrl+z", "ctrl+end", "home", "shift+left"])
def test_a_key_that_leaves_its_place_takes_it_away(path: Path, key: str) -> None:
    async def steps() -> None:
        async with told(path, BODY[1:]) as editor:
            await editor.press("r")
            await editor.proposed()
            await editor.press(*(("up",) if key == "ctrl+end" else (key,)))
            assert not editor.area.ghost
            assert BODY[1:] not in editor.shown

    drive(steps())


def test_escape_also_stops_what_is_still_being_said(path: Path) -> None:
    async def steps() -> None:
        async with told(path, SEVERAL) as editor:
            editor.async_engine.in_parts = True
            await editor.press("f5")
            await editor.until(lambda: editor.area.ghost)
            assert editor.screen.asking.asks
            await editor.press("escape")
            assert not editor.screen.asking.asks
            assert not editor.area.ghost

    drive(steps())


def test_keys_count_in_the_order_they_were_typed(path: Path) -> None:
    async def steps() -> None:
        async with told(path, BODY[1:]) as editor:
            await editor.press("r")
            await editor.proposed()
            # All are there before the first is looked at.
            for key in ("e", "tab", "!", "ctrl+s"):
                editor.app.post_message(events.Key(key, key if len(key) == 1 else None))
            await editor.until(lambda: path.read_text() == filled(f"{BODY}!"))

    drive(steps())


def test_while_keys_come_nothing_is_asked_and_then_once(path: Path) -> None:
    async def steps() -> None:
        async with told(path, BODY[6:]) as editor:
            editor.screen.asking._pause = 3600
            for key in "retur":
                await editor.press(key)
            assert editor.async_engine.asked == []
            editor.screen.asking._pause = 0.02
            await editor.press("n")
            await editor.proposed()
            assert [question.infill.begun for question in editor.async_engine.asked[:1] if question.infill] == [
                "    return"
            ]

    drive(steps())


def test_an_answer_to_an_older_text_is_called_off_and_never_shown(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slowly(monkeypatch, 0.01)
    heard: list[tuple[int, int]] = []

    def noted(tell: Callable[..., None]) -> Callable[..., None]:
        def telling(screen: EditScreen, said: object, moment: int) -> None:
            heard.append((moment, screen.asked_for))
            tell(screen, said, moment)

        return telling

    for name in ("receive", "completed"):
        monkeypatch.setattr(EditScreen, name, noted(getattr(EditScreen, name)))

    async def steps() -> None:
        async with editing(path) as editor:
            await editor.ready()
            # In this time an answer that was not cancelled would go on.
            editor.screen.asking._pause = 0.1
            for key in "abc":
                await editor.press(key)
                await editor.until(lambda: (editor.area.moment, editor.area.moment) in heard)
                # One that was on its way all the same.
                assert not editor.area.propose("an older\nanswer", editor.area.moment - 1)
                assert "older" not in editor.area.ghost
            assert [moment for moment, _ in heard] == [asked_for for _, asked_for in heard]
            ghost = await editor.proposed()
            await editor.press("escape", "f5")
            assert (await editor.proposed()).startswith(ghost)

    drive(steps())


def test_asked_only_means_only_when_asked(path: Path) -> None:
    async def steps() -> None:
        async with told(path, BODY) as editor:
            await editor.press("f12", *"ab", "backspace", "backspace")
            await asyncio.sleep(0.1)
            assert editor.async_engine.asked == []
            await editor.press("ctrl+@")
            assert await editor.proposed() == BODY

    drive(steps())


@pytest.mark.parametrize("keys", [("a",), ("f12", "a"), ("f12", "a", "left")])
def test_what_is_asked_for_right_after_another_key_is_asked_once_and_patiently(
    path: Path, keys: tuple[str, ...]
) -> None:
    async def steps() -> None:
        async with told(path, BODY) as editor:
            # All are there before the screen hears of what the first did.
            for key in (*keys, "f5"):
                editor.app.post_message(events.Key(key, key if len(key) == 1 else None))
            assert await editor.proposed() == BODY
            assert editor.async_engine.asked[0].max_tokens == PATIENT.tokens

    drive(steps())


def test_a_failure_is_told_in_the_line_below_and_the_text_stays(path: Path) -> None:
    async def steps() -> None:
        async with told(path) as editor:
            editor.async_engine.fails_with = LocalspecError("The context is full.")
            await editor.press("x")
            await editor.until(lambda: "The context is full." in editor.shown)
            editor.async_engine.fails_with = None
            editor.async_engine.texts = ["yz"]
            await editor.press("x")
            assert await editor.proposed() == "yz"
            assert "The context is full." not in editor.shown

    drive(steps())


def test_what_cannot_be_loaded_ends_the_editor_and_keeps_what_was_typed(path: Path) -> None:
    async def steps() -> None:
        async with told(path, loaded=False) as editor:

            async def refused(_: object) -> None:
                raise LocalspecError("No.")

            await editor.press("x")
            editor.async_engine.look = refused  # type: ignore[method-assign, assignment]
            editor.async_engine.loaded.set()
            await editor.until(lambda: editor.screen.failure is not None)
        assert editor.app.return_value == 1
        assert editor.app.unsaved == filled("x").encode()

    drive(steps())


def test_a_panel_stands_beside_where_there_is_room_or_on_demand(path: Path) -> None:
    async def steps() -> None:
        async with told(path, BODY) as editor:
            panel = editor.screen.query_one(SpeculationPanel)
            assert not panel.display
            await editor.press("f2")
            assert panel.display
            await editor.pilot.resize_terminal(140, 40)
            await editor.press("f2", "f2")
            assert not panel.display

    drive(steps())


def test_finding_and_going_to_a_line(path: Path) -> None:
    async def steps() -> None:
        async with told(path) as editor:
            await editor.press("ctrl+f", *"return", "enter")
            assert (editor.area.selected_text, editor.area.cursor_location) == ("Return", (4, 13))
            await editor.press("enter")
            assert (editor.area.selected_text, editor.area.cursor_location) == ("return", (5, 10))
            await editor.press("ctrl+a", "delete", *"nowhere", "enter")
            assert "Not found." in editor.shown
            await editor.press("escape", "ctrl+l")
            line = editor.screen.query_one(WantedLine)
            line.value = "9" * 5000
            await editor.press("enter")
            line.value = ""
            await editor.press(*"6:12", "enter", "X")
            assert "    return Xwidth" in editor.area.text

    drive(steps())


def test_going_to_either_end_of_the_text(path: Path) -> None:
    async def steps() -> None:
        async with told(path) as editor:
            await editor.press("ctrl+end")
            assert editor.area.cursor_location == editor.area.document.end
            await editor.press("ctrl+home")
            assert editor.area.cursor_location == (0, 0)
            await editor.press("ctrl+shift+end")
            assert editor.area.selected_text == editor.area.text

    drive(steps())


@pytest.mark.parametrize("key", ["tab", "shift+tab", "ctrl+down", "f9"])
def test_no_key_for_the_text_changes_it_while_keys_are_for_the_line_below(path: Path, key: str) -> None:
    async def steps() -> None:
        async with told(path, BODY, edit_unindent="shift+tab,f9") as editor:
            await editor.press("ctrl+f", *"return", "enter", key)
            assert (editor.area.text, editor.area.selected_text) == (CODE, "Return")
            await editor.press("escape", "ctrl+l", *"11:5", "enter", "f5")
            await editor.proposed()
            await editor.press("ctrl+f", key)
            assert (editor.area.text, editor.area.ghost) == (CODE, BODY)
            await editor.press("escape", "tab")
            assert editor.area.text == filled(BODY)

    drive(steps())


def test_what_was_taken_is_one_step_back_and_one_forth(path: Path) -> None:
    async def steps() -> None:
        async with told(path) as editor:
            editor.async_engine.texts = ["turn 2 * (\n        width + height\n    )"]
            await editor.press("f12", *"re", "f5")
            ghost = await editor.proposed()
            await editor.press("tab")
            taken = editor.area.text
            assert taken == filled(f"re{ghost}")
            await editor.press("ctrl+z")
            assert editor.area.text == filled("re")
            await editor.press("ctrl+y")
            assert editor.area.text == taken

    drive(steps())


def test_keys_can_be_others_and_help_shows_them(path: Path) -> None:
    async def steps() -> None:
        async with told(path, BODY[1:], edit_accept="f9", edit_save="ctrl+o,f10") as editor:
            await editor.press("r")
            await editor.proposed()
            await editor.press("f9", "f10")
            assert path.read_text() == filled(BODY)
            await editor.press("f1")
            assert isinstance(editor.app.screen, EditHelpScreen)
            assert "ctrl+o, f10" in editor.shown
            assert "edit.save" in editor.shown

    drive(steps())


def test_what_is_read_anew_has_the_colours_of_what_it_is_now(path: Path) -> None:
    async def steps() -> None:
        async with told(path) as editor:
            path.write_text("x = 1\n" * 20)
            await editor.press("x", "ctrl+s", "down", "down", "enter")
            spans = editor.area.get_line(0).spans
            assert spans == editor.area.get_line(7).spans
            assert not editor.screen.is_changed

    drive(steps())


def test_a_line_too_long_to_be_drawn_is_not_pasted_and_that_is_said(path: Path) -> None:
    async def steps() -> None:
        async with told(path, text="") as editor:
            editor.app.post_message(events.Paste("a\n" + "b" * 20_001))
            await editor.until(lambda: editor.app._notifications)
            assert "20,001 characters" in next(iter(editor.app._notifications)).message
            assert editor.area.text == ""
            editor.app.post_message(events.Paste("a\n" + "b" * 20_000))
            await editor.until(lambda: editor.area.text)
            assert len(editor.area.text) == 20_002

    drive(steps())


def test_help_says_what_is_not_done_in_a_long_text(path: Path) -> None:
    async def steps(text: str, says: bool) -> None:
        async with told(path, text=text, size=(100, 60)) as editor:
            await editor.press("f1")
            assert ("within 10,000 characters" in editor.shown) == says
            assert ("Only the first 1,000 characters of a line" in editor.shown) == (says and "\n" not in text)

    drive(steps("a\n" * 1_000, says=False))
    drive(steps("a\n" * 10_001, says=True))
    drive(steps("a" * 10_001, says=True))


def test_far_down_a_long_file_it_is_asked_and_taken_as_elsewhere(path: Path) -> None:
    lines = [f"    x = {number}" for number in range(5_000)]

    async def steps() -> None:
        async with told(path, text="\n".join(lines), cursor=(3_000, 99)) as editor:
            editor.async_engine.texts = [" + 1\n    y = 2"]
            await editor.press("f5")
            await editor.proposed()
            asked = editor.async_engine.asked[0]
            assert asked.infill is not None
            assert asked.infill.prefix.endswith("x = 2999\n")
            await editor.press("tab", "ctrl+s")
            assert path.read_text().split("\n") == [*lines[:3_000], "    x = 3000 + 1", "    y = 2", *lines[3_001:]]

    drive(steps())


def test_what_is_pasted_is_made_harmless(path: Path) -> None:
    async def steps() -> None:
        async with told(path, text="") as editor:
            editor.app.post_message(events.Paste("a\r\n\tb\x1b[31m\x0cc\0\ud800"))
            await editor.until(lambda: editor.area.text)
            assert editor.area.text == "a\n\tb␛[31m␌c␀\ufffd"
            await editor.press("ctrl+s")
            assert path.read_text() == "a\n\tb\x1b[31m\x0cc␀\ufffd"

    drive(steps())


ODD = "\ue0b0 \U0001fae8 \U0001fae9 a\u00adb\u200b\u200f\u2067 🏴\U000e0067\U000e0062\U000e007f \u200d\U0010fffd"
"""An icon, emoji newer than Python's tables, marks without a width, a control of directions, letters of a flag."""


def test_the_file_has_what_was_pasted_and_what_was_proposed(path: Path) -> None:
    async def steps() -> None:
        async with told(path, ODD, text="") as editor:
            await editor.press("f5")
            await editor.proposed()
            await editor.press("tab")
            editor.app.post_message(events.Paste(f"\r{ODD}"))
            await editor.until(lambda: "\n" in editor.area.text)
            await editor.press("ctrl+s")
            assert path.read_text() == f"    {ODD}\n{ODD}"
            assert not set("\u00ad\u200b\u200f\u2067\U000e0067") & set(editor.area.text + editor.shown)

    drive(steps())
