"""Notices: they hide nothing that is being typed."""

from pathlib import Path

import pytest
from textual.geometry import Region
from textual.pilot import Pilot
from textual.widgets._toast import Toast
from ui_chat import chatting
from ui_chat import drive as drive_chat
from ui_edit import drive, editing

from app.ui.prompt.prompt_area import PromptArea

pytestmark = pytest.mark.usefixtures("folders")
WORDS = "Enter sends the edited message on a new branch. An empty prompt cancels the edit."


async def noticed(pilot: Pilot[int], times: int = 1) -> Region:
    """Give a notice, and return where it can be seen."""
    for _ in range(times):
        pilot.app.notify(WORDS)
    await pilot.pause(0.1)
    await pilot.pause()
    return seen(pilot)


def seen(pilot: Pilot[int]) -> Region:
    widgets = pilot.app.screen._compositor.visible_widgets
    places = [place.intersection(clip) for one, (place, clip) in widgets.items() if isinstance(one, Toast)]
    return Region.from_union(places)


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (40, 16), (20, 6), (200, 50)])
def test_a_notice_hides_nothing_of_the_prompt(size: tuple[int, int]) -> None:
    async def steps() -> None:
        async with chatting(size=size, notices=True) as chat:
            await chat.ready()
            chat.screen.prompt.set_text("line\n" * 40)
            assert await noticed(chat.pilot)
            assert not (await noticed(chat.pilot, 5)).overlaps(chat.screen.query_one(PromptArea).region)

    drive_chat(steps())


def test_a_notice_can_be_read_in_a_small_terminal() -> None:
    async def steps() -> None:
        async with chatting(size=(40, 12), notices=True) as chat:
            await chat.ready()
            await noticed(chat.pilot)
            assert WORDS in " ".join(" ".join(line.split("▌")[-1] for line in chat.shown.split("\n")[:4]).split())

    drive_chat(steps())


@pytest.mark.parametrize("size", [(80, 24), (40, 12)])
def test_a_notice_in_the_editor_stands_where_nobody_types(path: Path, size: tuple[int, int]) -> None:
    async def steps() -> None:
        async with editing(path, "line\n" * 100, size=size, notices=True) as editor:
            await noticed(editor.pilot)
            for row in (0, 99, 95, 0):
                editor.screen.go(row, 0)
                await editor.pilot.pause()
                place, cursor = seen(editor.pilot), editor.area.cursor_screen_offset.y
                assert place
                assert not place.y <= cursor < place.bottom, row
            await editor.press("ctrl+f")
            assert not seen(editor.pilot).overlaps(editor.screen.wanted.region)

    drive(steps())
