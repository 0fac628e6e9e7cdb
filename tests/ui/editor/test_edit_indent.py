"""Tab and Shift-Tab where nothing is proposed: white space at the cursor, and whole lines moved in and out."""

from pathlib import Path

import pytest
from textual.document._document import Selection
from ui_edit import drive, told

TEXT = "a:\n    b\n\n      c\nd\n"


pytestmark = pytest.mark.usefixtures("folders")


def test_without_a_proposal_tab_indents_and_shift_tab_takes_it_back(path: Path) -> None:
    async def steps() -> None:
        async with told(path, text="a\n\tb\n    c", cursor=(0, 0)) as editor:
            await editor.press("tab", "end", "tab")
            assert editor.area.text == "    a   \n\tb\n    c"
            await editor.press("shift+tab", "down", "shift+tab", "down", "shift+tab", "shift+tab")
            assert editor.area.text == "a   \nb\nc"

    drive(steps())


def test_a_text_with_tabs_is_indented_with_tabs_and_a_new_line_begins_below_the_last(path: Path) -> None:
    async def steps() -> None:
        async with told(path, text="f:\n\ta\n\tb\n", cursor=(1, 2)) as editor:
            await editor.press("enter", "tab", "c", "enter")
            assert editor.area.text == "f:\n\ta\n\t\tc\n\t\t\n\tb\n"

    drive(steps())


@pytest.mark.parametrize(
    ("selected", "key", "text", "then"),
    [
        (((0, 1), (1, 5)), "tab", "    a:\n        b\n\n      c\nd\n", ((0, 5), (1, 9))),
        (((4, 1), (1, 2)), "tab", "a:\n        b\n\n          c\n    d\n", ((4, 5), (1, 6))),
        (((0, 0), (2, 0)), "tab", "    a:\n        b\n\n      c\nd\n", ((0, 0), (2, 0))),
        (((1, 2), (4, 1)), "shift+tab", "a:\nb\n\n    c\nd\n", ((1, 0), (4, 1))),
        (((4, 0), (1, 5)), "shift+tab", "a:\nb\n\n    c\nd\n", ((4, 0), (1, 1))),
        (((1, 4), (1, 5)), "tab", "a:\n       \n\n      c\nd\n", ((1, 7), (1, 7))),
        (((1, 5), (1, 4)), "shift+tab", "a:\nb\n\n      c\nd\n", ((1, 1), (1, 0))),
    ],
)
def test_lines_that_are_selected_move_as_one_step_and_stay_selected(
    path: Path, selected: tuple[tuple[int, int], ...], key: str, text: str, then: tuple[tuple[int, int], ...]
) -> None:
    async def steps() -> None:
        async with told(path, text=TEXT) as editor:
            area = editor.area
            area.selection = before = Selection(*selected)
            await editor.press(key)
            assert (area.text, area.selection) == (text, Selection(*then))
            await editor.press("ctrl+z")
            assert (area.text, area.selection) == (TEXT, before)
            await editor.press("ctrl+y")
            assert (area.text, area.selection) == (text, Selection(*then))

    drive(steps())


def test_where_no_line_can_move_out_nothing_is_changed_and_nothing_is_to_be_undone(path: Path) -> None:
    async def steps() -> None:
        async with told(path, text="a\n\nb\n") as editor:
            await editor.press("x", "home", "shift+down", "shift+down", "shift+tab", "ctrl+z")
            assert editor.area.text == "a\n\nb\n"

    drive(steps())
