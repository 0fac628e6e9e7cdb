"""Keys that the editor and the chat both have mean the same in both."""

from pathlib import Path

import pytest
from ui_edit import drive, editing

from app.chat_input.keys import EDIT_KEYS, KEYS, Key
from app.ui.panel.panel import SpeculationPanel
from app.ui.panel.panel_lines import FOLDS, NOW

ALIKE = {
    ("stop", "dismiss"): "end what runs or is offered",
    ("regenerate", "ask"): "another one",
    ("choose", "accept"): "Tab takes what is offered, and goes on where nothing is",
    ("choose", "unindent"): "Tab with Shift goes back",
}
"""Actions of the chat and of the editor that one key has, where their names differ."""
pytestmark = pytest.mark.usefixtures("folders")


def by_key(keys: dict[str, Key]) -> dict[str, str]:
    return {key: one.action for one in keys.values() for key in one.default.split(",")}


def test_a_key_that_both_have_means_the_same() -> None:
    chat, editor = by_key(dict(KEYS)), by_key(dict(EDIT_KEYS))
    both = {(chat[key], editor[key]) for key in chat.keys() & editor.keys()}
    assert {pair for pair in both if pair[0] != pair[1]} <= set(ALIKE)
    assert {("help", "help"), ("panel", "panel"), ("interrupt", "interrupt"), ("leave", "leave")} <= both


def test_the_panel_opens_in_steps_as_in_the_chat(path: Path) -> None:
    async def steps() -> None:
        async with editing(path, size=(80, 30)) as editor:
            await editor.ready()
            panel = editor.screen.query_one(SpeculationPanel)
            assert not panel.display
            await editor.press("f2")
            assert (panel.display, panel.opened) == (True, {NOW})
            await editor.press("f2")
            assert (panel.display, panel.opened) == (True, set(FOLDS))
            await editor.press("f2")
            assert not panel.display

    drive(steps())


def test_keys_of_the_chat_that_the_editor_has_not_change_nothing(path: Path) -> None:
    async def steps() -> None:
        async with editing(path) as editor:
            await editor.ready()
            before = editor.area.text, editor.area.selection
            await editor.press("f3", "f4", "f6", "f7", "f8", "f9")
            assert (editor.area.text, editor.area.selection) == before

    drive(steps())


def test_all_of_a_text_is_selected_and_redone(path: Path) -> None:
    async def steps() -> None:
        async with editing(path) as editor:
            await editor.ready()
            text = editor.area.text
            await editor.press("alt+a")
            assert editor.area.selected_text == text
            await editor.press("end", "x", "ctrl+z")
            assert editor.area.text == text
            await editor.press("ctrl+shift+z")
            assert editor.area.text == f"{text}x"

    drive(steps())
