"""A long text: what is worked out of few lines is what all of them would give, and no key looks at all of them."""

import asyncio
import random
import sys
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pygments.token import String
from textual.app import App, ComposeResult
from textual.document._document import Document
from textual.document._wrapped_document import WrappedDocument
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.strip import Strip

from app.complete.asking import Asking
from app.complete.place import CursorPosition, Windows, window
from app.complete.ring import Ring
from app.complete.settings import CompletionSettings, Limits
from app.ui.editor.area import BRACKET_REACH, CodeArea
from app.ui.editor.colours import COLOURED, Colours
from app.ui.editor.document import LongDocument, Unwrapped

SMALL = st.text(alphabet="ab\té字\U0001f600\n(", max_size=12)
CODE = 'def f(a):\n    """One.\n\n    Two."""\n    return [a, (1, 2)]\n\n\n'


class Host(App[None]):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.area = CodeArea(text, "a.py")

    def compose(self) -> ComposeResult:
        yield self.area

    def on_mount(self) -> None:
        self.area.focus()


def showing(text: str, steps: Callable[[CodeArea, Pilot[None]], Any], size: tuple[int, int] = (50, 14)) -> None:
    async def run() -> None:
        host = Host(text)
        async with host.run_test(size=size) as pilot:
            await pilot.pause()
            await steps(host.area, pilot)

    asyncio.run(run())


@given(SMALL, st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), SMALL), max_size=6))
def test_after_any_edits_a_document_says_what_textuals_own_says(
    text: str, edits: list[tuple[int, int, int, str]]
) -> None:
    mine, theirs = LongDocument(text), Document(text)
    rows, wrapped = Unwrapped(mine, 4), WrappedDocument(theirs, 0, 4)
    for row, lines, column, put in edits:
        assert mine.get_size(4) == theirs.get_size(4)
        top = min(row, mine.line_count - 1)
        bottom = min(top + lines % 3, mine.line_count - 1)
        # As when the last line is deleted: the end may be beyond it.
        ends = ((top, min(column, len(mine[top]))), (bottom + column % 2, min(column, len(mine[bottom]))))
        first, last = ends if column % 3 else ends[::-1]
        assert mine.replace_range(first, last, put) == theirs.replace_range(first, last, put)
    wrapped.wrap(0, 4)
    assert (mine.text, mine.get_size(4), mine.get_size(2)) == (theirs.text, theirs.get_size(4), theirs.get_size(2))
    assert (rows.height, rows.lines) == (wrapped.height, [sections or [""] for sections in wrapped.lines])
    for index in range(len(theirs.text) + 1):
        location = mine.get_location_from_index(index)
        assert location == theirs.get_location_from_index(index)
        assert mine.get_index_from_location(location) == index
        assert rows.location_to_offset(location) == wrapped.location_to_offset(location)
    for y in range(rows.height):
        assert rows._offset_to_line_info[y] == wrapped._offset_to_line_info[y]
        assert (rows.get_offsets(y), rows.get_tab_widths(y)) == (wrapped.get_offsets(y), wrapped.get_tab_widths(y))
        for x in range(12):
            assert rows.offset_to_location(Offset(x, y)) == wrapped.offset_to_location(Offset(x, y))


def test_a_row_that_is_not_there_is_an_error_as_in_textuals_own() -> None:
    document = LongDocument("a\nb")
    rows = Unwrapped(document, 4)
    assert [*rows._offset_to_line_info] == [(0, 0), (1, 0)]
    for row in (-1, 2):
        with pytest.raises(IndexError):
            rows._offset_to_line_info[row]
        with pytest.raises(ValueError, match="document of 2"):
            rows.get_offsets(row)
    with pytest.raises(ValueError, match="text of 3 characters"):
        document.get_location_from_index(4)


def test_whatever_is_done_each_row_is_drawn_as_it_is_now() -> None:
    keys = ("a", "(", ")", '"', "enter", "backspace", "delete", "up", "down", "left", "right", "ctrl+z", "ctrl+y",
            "ctrl+x", "shift+down", "shift+right", "pagedown", "pageup", "end", "home", "theme")  # fmt: skip
    chance = random.Random(5)

    async def steps(area: CodeArea, pilot: Pilot[None]) -> None:
        dark = True
        for _ in range(60):
            if (key := chance.choice(keys)) == "theme":
                dark = not dark
                pilot.app.theme = "textual-dark" if dark else "textual-light"
            else:
                await pilot.press(key)
            await pilot.pause()
            drawn = [area.render_line(y) for y in range(14)]
            area._strips.clear()
            assert drawn == [area.render_line(y) for y in range(14)], key

    showing((CODE + "# wide" * 20 + "\n") * 8, steps)


def test_a_row_is_drawn_anew_when_it_is_selected_or_has_the_partner_of_a_bracket() -> None:
    async def steps(area: CodeArea, pilot: Pilot[None]) -> None:
        async def looks(*keys: str) -> Strip:
            await pilot.press(*keys)
            await pilot.pause()
            return area.render_line(1)

        plain = await looks("right", "right")
        marked = await looks("left", "left")
        assert marked != plain, "it has the partner of the bracket at the cursor"
        assert await looks("right", "right") == plain
        selected = await looks("shift+down", "shift+down")
        assert selected not in (plain, marked)
        assert await looks("down") == plain

    showing("({\n})\na\nb\n", steps)


def test_a_row_that_stays_as_it_is_is_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps(_: CodeArea, pilot: Pilot[None]) -> None:
        drawn: list[int] = []
        plain = CodeArea._render_line

        def draw(area: CodeArea, y: int) -> Strip:
            drawn.append(y)
            return plain(area, y)

        monkeypatch.setattr(CodeArea, "_render_line", draw)
        await pilot.press("b")
        await pilot.pause()
        assert set(drawn) == {0}

    showing("a = 1\n" * 30, steps)


def test_a_key_makes_as_many_calls_in_a_long_text_as_in_a_short_one() -> None:
    def calls(lines: int) -> int:
        made = count()

        async def steps(area: CodeArea, _: Pilot[None]) -> None:
            area.move_cursor((lines // 2, 3), center=True)
            for key in ("a", "b"):  # the first works out what is kept
                if key == "b":
                    sys.setprofile(lambda *_: next(made) and None)
                area._replace_via_keyboard(key, *area.selection)
                area._replace_via_keyboard("\n", *area.selection)
                area.undo()
                assert area.is_changed
                assert CursorPosition.among("a", area.document.lines, *area.cursor_location).line == lines // 2
                [area.render_line(y) for y in range(14)]
                sys.setprofile(None)

        showing("a = [1]\n" * lines, steps)
        return next(made)

    few = calls(5_000)
    assert few > 1_000
    assert calls(40_000) < 1.05 * few


def test_no_key_puts_the_lines_together(monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps(area: CodeArea, pilot: Pilot[None]) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(LongDocument, "text", property(lambda _: pytest.fail("all of the text was asked for")))
            await pilot.press("a", "enter", "down", "backspace", "ctrl+z", "pagedown", "shift+up", "ctrl+x")
            await pilot.pause()
            assert area.is_changed

    showing(CODE * 5, steps)


def test_a_text_is_changed_until_it_is_what_it_was_or_is_kept() -> None:
    async def steps(area: CodeArea, pilot: Pilot[None]) -> None:
        assert not area.is_changed
        for keys in (("a", "backspace"), ("enter", "ctrl+z"), ("end", "delete", "ctrl+z")):
            await pilot.press(*keys[:-1])
            changed = area.is_changed
            await pilot.press(keys[-1])
            assert changed
            assert not area.is_changed
        await pilot.press("b")
        area.keep()
        kept = area.is_changed
        await pilot.press("ctrl+z")
        undone = area.is_changed
        area.load_text("else")
        assert (kept, undone, area.is_changed) == (False, True, False)

    showing(CODE, steps)


@pytest.mark.parametrize(("between", "found"), [(BRACKET_REACH - 2, True), (BRACKET_REACH - 1, False)])
def test_a_brackets_partner_is_looked_for_nearby(between: int, found: bool) -> None:
    text = "(" + "a" * 100 + "\n" + "b" * (between - 100) + ")"

    async def steps(area: CodeArea, _: Pilot[None]) -> None:
        end = (1, between - 100)
        assert area.find_matching_bracket("(", (0, 0)) == (end if found else None)
        assert area.find_matching_bracket(")", end) == ((0, 0) if found else None)

    showing(text, steps)


def test_what_is_open_for_long_is_not_looked_for_at_each_key() -> None:
    looked: list[int] = []

    class Watched(Colours):
        def _is_closed(self, count: int) -> bool:
            looked.append(count)
            return super()._is_closed(count)

    lines, colours = ['"""Begun', *["so on"] * 1_900], Watched("a.py")
    for row in range(1_900):
        assert colours.of(row, lines)[0][2] in String  # type: ignore[comparison-overlap]
    colours.edited(1_850)
    assert len(looked) <= 200
    assert colours.of(1_850, lines) == Colours("a.py").of(1_850, lines)
    colours.edited(150)
    assert colours.of(0, lines)[0][2] in String  # type: ignore[comparison-overlap]


def test_a_line_has_colours_up_to_a_point_and_the_next_from_its_beginning() -> None:
    lines, colours = ["a = [" + "1, " * 2_000, "b = 1"], Colours("a.py")
    assert colours.of(0, lines)[-1][1] == COLOURED + 1
    assert colours.of(1, lines) == Colours("a.py").of(0, lines[1:])


@pytest.mark.parametrize("length", [1, 300, 1_500, 5_000])
def test_of_a_place_in_a_long_document_the_same_is_asked(length: int) -> None:
    lines, chance = [f"line {number} " + "x" * (number % 7) for number in range(length)], random.Random(length)
    settings = CompletionSettings()
    for line in {0, length - 1, *(chance.randrange(length) for _ in range(40))}:
        column = chance.randrange(4)
        short, whole = (
            CursorPosition.among("a", lines, line, column),
            CursorPosition("a", "\n".join(lines), line, column),
        )
        assert (short.behind, short.ahead, short.line) == (whole.behind, whole.ahead, line)
        assert window(short, Windows()) == window(whole, Windows())
        asked, expected = (Asking(settings, _ring(place)).at(place, Limits()) for place in (short, whole))
        assert (asked.question, asked.key) == (expected.question, expected.key)
        assert len(short.text) < 3_100 * 20


def _ring(place: CursorPosition) -> Ring:
    """Return chunks of the document: near the place, far from it, and in another file."""
    ring = Ring(CompletionSettings().ring, (float(tick) for tick in count()).__next__)
    far = [f"far {number}" for number in range(9_000)]
    for other in (place, CursorPosition.among("a", far, 8_000, 0), CursorPosition("b", "\n".join(far), 500, 0)):
        ring.add(*other.noted)
    return ring


def test_what_is_written_in_a_long_document_is_asked_about_with_the_same_prompt() -> None:
    lines, asking = (
        [f"line {number}" for number in range(5_000)],
        Asking(CompletionSettings(), _ring(CursorPosition("", "", 0, 0))),
    )
    first = asking.at(CursorPosition.among("a", lines, 3_500, 4), Limits()).question.infill
    assert first is not None
    lines[3_500:3_501] = ["line", "more 3500"]
    then = asking.at(CursorPosition.among("a", lines, 3_501, 4), Limits()).question.infill
    assert then is not None
    assert (then.prefix, then.suffix, then.begun) == (first.prefix, first.suffix, "line\nmore")
    lines[10] = "changed far away, where nothing is shown of it"
    assert asking.at(CursorPosition.among("a", lines, 3_501, 4), Limits()).question.infill == then
    lines[3_499] = "changed near"
    near = asking.at(CursorPosition.among("a", lines, 3_501, 4), Limits()).question.infill
    assert near is not None
    assert near.prefix.endswith("changed near\nline\n")


def test_a_place_that_moves_on_keeps_what_is_above_it() -> None:
    lines = [f"line {number}" for number in range(5_000)]
    after = CursorPosition.among("a", lines, 3_500, 4).after("x\nyz")
    lines[3_500:3_501] = ["linex", "yz 3500"]
    assert after == CursorPosition.among("a", lines, 3_501, 2)
