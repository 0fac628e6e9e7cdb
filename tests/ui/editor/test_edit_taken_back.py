"""A proposal whose text is taken back while it is typed along."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from ghost_app import Host
from textual.pilot import Pilot

from app.ui.editor.ghost_area import GhostArea


def drive(steps: Callable[[GhostArea, Host, Pilot[None]], Awaitable[None]]) -> None:
    async def run() -> None:
        host = Host("x")
        async with host.run_test(size=(40, 12)) as pilot:
            host.area.move_cursor((0, 1))
            await steps(host.area, host, pilot)

    asyncio.run(run())


async def typed_along(area: GhostArea, pilot: Pilot[None]) -> int:
    """Propose "abc", type its beginning, and return the moment it was made for."""
    moment = area.moment
    assert area.propose("abc", moment)
    await pilot.press("a")
    assert area.ghost == "bc"
    return moment


@pytest.mark.parametrize("text", ["", "z", "xa"])
def test_what_no_longer_begins_with_what_was_typed_is_gone_and_not_to_be_taken(text: str) -> None:
    async def steps(area: GhostArea, host: Host, pilot: Pilot[None]) -> None:
        moment = await typed_along(area, pilot)
        await pilot.pause()
        assert "xabc" in host.lines[0]
        assert not area.propose(text, moment)
        await pilot.pause()
        assert (area.ghost, "bc" in host.lines[0]) == ("", False)
        assert not area.accept()
        assert area.text == "xa"

    drive(steps)


def test_the_lines_that_were_taken_back_leave_the_screen() -> None:
    async def steps(area: GhostArea, _: Host, pilot: Pilot[None]) -> None:
        moment = area.moment
        assert area.propose("abc\nd\ne", moment)
        await pilot.press("a")
        assert area.virtual_size.height == 3
        area.propose("", moment)
        assert area.virtual_size.height == 1

    drive(steps)


def test_a_text_for_another_moment_takes_nothing_away() -> None:
    async def steps(area: GhostArea, _: Host, pilot: Pilot[None]) -> None:
        moment = await typed_along(area, pilot)
        for other in (moment - 1, moment + 7):
            assert not area.propose("", other)
        assert area.ghost == "bc"

    drive(steps)


def test_what_was_taken_back_comes_again_only_where_it_still_fits() -> None:
    async def steps(area: GhostArea, _: Host, pilot: Pilot[None]) -> None:
        moment = await typed_along(area, pilot)
        area.propose("", moment)
        # What is cut off of a text as it comes may turn out to belong to it.
        assert area.propose("abcd", moment)
        assert area.ghost == "bcd"
        area.propose("", moment)
        await pilot.press("q")
        assert not area.propose("abcd", moment)
        assert not area.propose("aqcd", moment)
        assert (area.ghost, area.text) == ("", "xaq")

    drive(steps)


def test_what_was_taken_back_does_not_come_again_at_another_place() -> None:
    async def steps(area: GhostArea, _: Host, pilot: Pilot[None]) -> None:
        moment = await typed_along(area, pilot)
        area.propose("", moment)
        await pilot.press("left")
        assert not area.propose("abcd", moment)
        assert area.ghost == ""

    drive(steps)
