"""The mouse in the transcript: a click selects a message or a code block, a drag selects text."""

import pytest
from textual.events import Click
from textual.geometry import Region
from textual.pilot import Pilot
from transcript_app import CODE, drive, quiet, rows

from app.ui.transcript.transcript import Transcript


def row_of(transcript: Transcript, text: str) -> int:
    return next(n for n, row in enumerate(rows(transcript)) if text in row)


async def shown(transcript: Transcript, pilot: "Pilot[None]") -> None:
    transcript.add_user(1, "First question")
    transcript.add_answer(2, f"Before.\n\n{CODE}\n\nAfter.", "a footer")
    transcript.add_note("a note", "note")
    transcript.add_user(3, "Second question")
    await quiet(transcript, pilot)


@pytest.mark.parametrize(
    ("text", "selected", "copied"),
    [
        ("First question", 1, "First question"),
        ("After.", 2, f"Before.\n\n{CODE}\n\nAfter."),
        ("a footer", 2, f"Before.\n\n{CODE}\n\nAfter."),
        ("x = 1", 2, "x = 1"),
        ("Second question", 3, "Second question"),
    ],
)
def test_a_click_selects_what_the_keys_are_then_about(text: str, selected: int, copied: str) -> None:
    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        await shown(transcript, pilot)
        row = row_of(transcript, text)
        await pilot.click(transcript, offset=(4, row))
        assert transcript.selected == selected
        assert rows(transcript)[row][0] == ("█" if text == "x = 1" else "▌")
        await pilot.press("y", "e")

    copy, edit = drive(script).heard
    assert isinstance(copy, Transcript.Copied)
    assert isinstance(edit, Transcript.EditWanted)
    assert (copy.text, edit.key) == (copied, selected)


@pytest.mark.parametrize("text", ["a note", ""])
def test_a_click_on_no_message_selects_none(text: str) -> None:
    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        await shown(transcript, pilot)
        await pilot.click(transcript, offset=(4, row_of(transcript, "x = 1")))
        await pilot.click(transcript, offset=(4, row_of(transcript, text) if text else 0))
        assert transcript.selected is None
        await pilot.click(transcript, offset=(4, row_of(transcript, "After.")))
        await pilot.press("y")

    (copy,) = drive(script).heard
    assert isinstance(copy, Transcript.Copied)
    assert copy.what == "message"


def test_a_click_finds_what_is_there_after_scrolling() -> None:
    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        for n in range(60):
            transcript.add_user(n, f"Question {n}")
        await quiet(transcript, pilot)
        transcript.scroll_to(y=31, animate=False)
        await quiet(transcript, pilot)
        row = row_of(transcript, "Question 20")
        await pilot.click(transcript, offset=(4, row))
        assert transcript.selected == 20
        assert transcript.scroll_offset.y == 31, "nothing moves under the mouse"

    drive(script)


def test_a_drag_selects_text_and_no_message() -> None:
    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        await shown(transcript, pilot)
        row = row_of(transcript, "Second question")
        await pilot.mouse_down(transcript, offset=(3, row))
        await pilot.hover(transcript, offset=(9, row))
        await pilot.mouse_up(transcript, offset=(9, row))
        # At a terminal the button that is let go is a click too.
        transcript.post_message(Click(transcript, 9, row, 0, 0, 1, False, False, False))
        await pilot.pause()
        assert transcript.selected is None
        assert transcript.screen.get_selected_text() == "Second"
        await pilot.click(transcript, offset=(4, row))
        assert transcript.screen.get_selected_text() in (None, "")
        assert transcript.selected == 3

    drive(script)


def test_two_clicks_still_select_all_text() -> None:
    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        await shown(transcript, pilot)
        await pilot.click(transcript, offset=(4, row_of(transcript, "After.")), times=2)
        assert transcript.selected == 2
        assert "First question" in (transcript.screen.get_selected_text() or "")

    drive(script)


def test_only_what_the_mouse_asks_for_knows_its_place_so_that_painted_rows_share_their_styles() -> None:
    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        await shown(transcript, pilot)
        painted = transcript.render_lines(Region(0, 0, transcript.size.width, transcript.size.height))
        for y, strip in enumerate(painted):
            asked = transcript.render_line(y)
            assert [(part.text, part.style.clear_meta_and_links()) for part in asked if part.style] == [
                (part.text, part.style.clear_meta_and_links()) for part in strip if part.style
            ]
            assert all(part.style and "offset" in part.style.meta for part in asked)
            assert not any(part.style and "offset" in part.style.meta for part in strip)

    drive(script)


def test_a_row_that_is_not_drawn_yet_is_never_taken_for_a_blank_one() -> None:
    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        transcript.add_answer(1, "\n\n".join(f"Paragraph {n}" for n in range(9)))
        await quiet(transcript, pilot)
        transcript.column.pieces[0].changed()
        transcript.column.pieces[0]._serials.clear()
        assert rows(transcript)[1].strip() == "Paragraph 0"
        assert [rows(transcript)[y] for y in (0, 2, 4)] == ["", "", ""]

    drive(script)
