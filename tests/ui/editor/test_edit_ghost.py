"""What is proposed at the cursor, and the colours around it: the one never lies, the others never differ by history."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from ghost_app import TEXT, Host
from textual.pilot import Pilot

from app.ui.editor.colours import Colours
from app.ui.editor.ghost import first_line, first_word
from app.ui.editor.ghost_area import GhostArea

SOURCE = [
    '"""Doc', 'string."""', "import a", "", "def f(x):", "    '''in", "side'''", "    y = (", "        x,", "    )",
    "    # note", "    return y  # it", "", "class A:", "    s = \"\"\"", "    def no():", "\"\"\"", "    z = 1",
]  # fmt: skip


def drive(steps: Callable[[Host, Pilot[None]], Awaitable[None]], text: str = TEXT) -> None:
    async def run() -> None:
        host = Host(text)
        async with host.run_test(size=(40, 12)) as pilot:
            await steps(host, pilot)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("ghost", "word", "line"),
    [
        ("foo(bar)", "foo", "foo(bar)"),
        ("(bar)\n  x", "(", "(bar)"),
        ("  foo bar", "  foo", "  foo bar"),
        ("\n    x = 1\ny", "\n    x", "\n    x = 1"),
        ("\n\n  ", "\n\n  ", "\n\n  "),
        ("", "", ""),
    ],
)
def test_the_first_word_and_the_first_line(ghost: str, word: str, line: str) -> None:
    assert (first_word(ghost), first_line(ghost)) == (word, line)


def test_several_lines_stand_between_those_of_the_text_which_stays_as_it_is() -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        area = host.area
        area.move_cursor((3, 6))
        assert area.propose("2,\n  3,\n    4", area.moment)
        await pilot.pause()
        assert host.lines[:7] == ["1  def f(a):", "2      return a", "3", "4  x = f(2,", "     3,", "       41)", "5"]
        assert area.text == TEXT
        assert area.virtual_size.height == 7
        await pilot.click(GhostArea, offset=(3, 6))
        assert area.cursor_location == (4, 0)
        assert host.lines[3:5] == ["4  x = f(1)", "5"]

    drive(steps)


WIDE = "日本語" * 12


@pytest.mark.parametrize(
    ("ghost", "seen"),
    [
        ("x" * 29, ["4  x = f(" + "x" * 29 + "1)"]),
        ("x" * 30, ["4  x = f(" + "x" * 30 + "…"]),
        ("x" * 32, ["4  x = f(" + "x" * 30 + "…"]),
        (WIDE, ["4  x = f(" + WIDE[:15] + "…"]),
        ("a" + WIDE, ["4  x = f(a" + WIDE[:14] + " …"]),
        ("\t" * 9, ["4  x = f(" + " " * 30 + "…"]),
        ("2,\n" + "y" * 35, ["4  x = f(2,", "   " + "y" * 35 + "1)"]),
        ("2,\n" + "y" * 37, ["4  x = f(2,", "   " + "y" * 36 + "…"]),
        ("2,\n" + "y" * 38, ["4  x = f(2,", "   " + "y" * 36 + "…"]),
        ("2,\n" + WIDE, ["4  x = f(2,", "   " + WIDE[:18] + "…"]),
        ("z" * 40 + "\n" + WIDE + "\n3", ["4  x = f(" + "z" * 30 + "…", "   " + WIDE[:18] + "…", "   31)"]),
    ],
)
def test_what_goes_on_beyond_the_edge_says_so_and_is_taken_whole(ghost: str, seen: list[str]) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        area = host.area
        area.move_cursor((3, 6))
        area.propose(ghost, area.moment)
        await pilot.pause()
        assert host.lines[3 : 3 + len(seen)] == [line[:40] for line in seen]
        assert all(area.render_line(y).cell_length >= 40 for y in range(12))
        assert area.accept()
        assert area.text == TEXT.replace("f(1", f"f({ghost}1")

    drive(steps)


def test_the_mark_is_at_the_edge_of_what_is_seen_and_hides_no_cursor() -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        area = host.area
        area.move_cursor((0, 60))
        await pilot.pause()
        left = area.scroll_offset.x
        assert left > 0
        area.propose("b" * 60, area.moment)
        await pilot.pause()
        (last,) = area.render_line(0).crop(39, 40)
        assert (left, last.text) == (area.scroll_offset.x, "…")
        area.dismiss()
        area.propose("b", area.moment)
        await pilot.pause()
        assert "…" not in area.render_line(0).text, "it ends before the edge of what is seen"
        area.dismiss()
        area.scroll_to(60 + area.gutter_width - 39, 0, animate=False)
        await pilot.pause()
        cursor = next(iter(area.render_line(0).crop(39, 40))).style
        area.propose("b" * 60, area.moment)
        area.scroll_to(60 + area.gutter_width - 39, 0, animate=False)
        await pilot.pause()
        (last,) = area.render_line(0).crop(39, 40)
        assert last.text == "…"
        assert cursor is not None
        assert last.style is not None
        assert last.style.bgcolor == cursor.bgcolor

    drive(steps, "a" * 60 + "\n" + "c" * 200)


def test_a_click_on_it_goes_to_the_cursor_and_one_above_it_there() -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        area = host.area
        area.move_cursor((1, 12))
        area.propose(" +\n1", area.moment)
        await pilot.click(GhostArea, offset=(4, 2))
        assert area.cursor_location == (1, 12)
        await pilot.click(GhostArea, offset=(4, 0))
        assert area.cursor_location == (0, 1)

    drive(steps)


@pytest.mark.parametrize(
    ("line", "column", "ghost", "clicked", "found"),
    [
        ("foo() # it", 4, "first, second", (3 + 17, 0), (0, 4)),  # what is behind it
        ("foo() # it", 4, "first, second", (3 + 19, 0), (0, 6)),
        ("foo() # it", 4, "first, second", (3 + 35, 0), (0, 10)),
        ("foo() # it", 4, "first, second", (3 + 16, 0), (0, 4)),  # itself
        ("foo() # it", 4, "first, second", (3 + 2, 0), (0, 2)),  # what is before it
        ("foo() # it", 4, "first,\nsecond", (3 + 8, 0), (0, 4)),
        ("foo() # it", 4, "first,\nsecond", (3 + 20, 0), (0, 4)),
        ("foo() # it", 4, "first,\nsecond", (3 + 3, 1), (0, 4)),
        ("foo() # it", 4, "first,\nsecond", (3 + 8, 1), (0, 6)),
        ("foo() # it", 4, "first,\nsecond", (3 + 2, 2), (1, 2)),
        ("\t字()\t# it", 3, "語\t", (3 + 13, 0), (0, 4)),  # a tab from 13 to 16
        ("\t字()\t# it", 3, "語\t", (3 + 16, 0), (0, 5)),
        ("\t字()\t# it", 3, "語\t", (3 + 10, 0), (0, 3)),
    ],
)
def test_a_click_beside_it_goes_to_what_is_seen_there(
    line: str, column: int, ghost: str, clicked: tuple[int, int], found: tuple[int, int]
) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        area = host.area
        area.move_cursor((0, column))
        assert area.propose(ghost, area.moment)
        await pilot.click(GhostArea, offset=clicked)
        assert area.cursor_location == found

    drive(steps, f"{line}\nlast\n")


@pytest.mark.parametrize("ghost", ["first, second", "first,\nsecond, third"])
def test_on_the_widest_line_what_is_behind_it_is_seen_too(ghost: str) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        area = host.area
        area.move_cursor((0, 4))
        area.propose(ghost, area.moment)
        await pilot.pause()
        last = ghost.split("\n")[-1]
        assert f"{last}) # it" in "\n".join(host.lines)
        assert not area.show_horizontal_scrollbar

    drive(steps, "foo() # it\n")


def test_it_is_faint_and_slanted_and_the_text_is_not() -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        area = host.area
        area.move_cursor((3, 8))
        area.propose(" + one\ntwo", area.moment)
        await pilot.pause()
        for y, own, ghost in ((3, "x = f(1)", " + one"), (4, "", "two")):
            parts = [
                (part.text, bool(part.style and part.style.italic and part.style.dim)) for part in area.render_line(y)
            ]
            assert "".join(text for text, faint in parts if faint).strip() == ghost.strip()
            assert own in "".join(text for text, faint in parts if not faint)

    drive(steps)


def test_a_text_for_another_moment_is_not_shown() -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        area = host.area
        before = area.moment
        await pilot.press("a")
        assert not area.propose("bc", before)
        assert area.propose("bc", area.moment)
        shown = area.moment
        await pilot.press("b")
        assert area.ghost == "c"
        # It was still being said.
        assert area.propose("bcd", shown)
        assert area.ghost == "cd"
        assert not area.propose("xyz", shown)
        area.dismiss()
        assert not area.propose("bcde", shown)
        area.select_between(0, 1)
        assert not area.propose("x", area.moment)

    drive(steps)


def test_whatever_is_done_it_completes_the_same_text_or_is_gone() -> None:
    keys = ("a", "b", "c", "enter", "backspace", "delete", "left", "right", "up", "down", "home", "end", "ctrl+z",
            "ctrl+y", "shift+left", "ctrl+k", "word", "line", "all", *["propose"] * 5)  # fmt: skip
    chance = random.Random(7)

    async def steps(host: Host, pilot: Pilot[None]) -> None:
        area, kept, whole = host.area, 0, ""
        for _ in range(90):
            key = chance.choice(keys) if not area.ghost else chance.choice((*keys, *area.ghost[0] * 9))
            if key == "propose":
                shown = area.propose(chance.choice(("abc", "a\nb", "\n  c", "bb")), area.moment)
                whole = area.text[: host.cursor] + area.ghost + area.text[host.cursor :] if shown else whole
            elif key in ("word", "line", "all"):
                area.accept({"word": first_word, "line": first_line, "all": str}[key])
            else:
                await pilot.press({"\n": "enter", " ": "space"}.get(key, key))
            if area.ghost:
                kept += 1
                assert area.text[: host.cursor] + area.ghost + area.text[host.cursor :] == whole
        assert kept > 20

    drive(steps)


def test_below_the_last_line_the_area_scrolls_until_it_is_seen() -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        area = host.area
        area.move_cursor((30, 0))
        await pilot.pause()
        area.propose("a\nb\nc\nd", area.moment)
        await pilot.pause()
        assert [line.strip() for line in host.lines[-4:]] == ["31  a", "b", "c", "d"]
        area.dismiss()
        await pilot.pause()
        assert host.lines[-1] == "31"

    drive(steps, "\n" * 30)


def test_colours_after_any_edits_are_those_of_the_text() -> None:
    chance = random.Random(3)
    lines, colours = [*SOURCE], Colours("a.py")
    for _ in range(300):
        row = chance.randrange(len(lines))
        colours.of(chance.randrange(len(lines)), lines)
        if chance.random() < 0.5:
            lines.insert(row, chance.choice(SOURCE))
        elif len(lines) > 3:
            del lines[row]
        colours.edited(row)
        seen = chance.randrange(len(lines))
        assert colours.of(seen, lines) == Colours("a.py").of(seen, lines), (seen, lines)


def test_each_line_is_covered_from_its_beginning_to_its_end() -> None:
    colours = Colours("a.py")
    for row, line in enumerate(SOURCE):
        spans = colours.of(row, SOURCE)
        assert [start for start, _, _ in spans] == [0, *(end for _, end, _ in spans[:-1])]
        assert spans[-1][1] == len(line) + 1


@pytest.mark.parametrize("name", ["a", "a.nothing", "a.txt"])
def test_a_text_that_is_no_code_has_no_colours(name: str) -> None:
    assert Colours(name).of(0, ["def f():"]) == []
