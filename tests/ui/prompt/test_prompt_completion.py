"""Completion in the prompt: what is offered, in which order, and what each key does while the list is open."""

from pathlib import Path

import pytest
from prompt_host import DRAFTERS, Clock, Host, drive, press
from textual.pilot import Pilot

from app.ui.prompt.completion import Partial, arguments_for, commands_for, files_for, nearest_first, partial_at


@pytest.fixture
def host(tmp_path: Path) -> Host:
    (tmp_path / "src").mkdir()
    for name in ("src/main.py", "src/other.py", "main.md", "with space.txt", "notes.txt"):
        (tmp_path / name).write_text("x")
    return Host(tmp_path, tmp_path / ".hidden" / "prompts")


async def typed(host: Host, pilot: Pilot[None], *keys: str) -> list[str]:
    """Press keys, wait for files to be listed, and return what is offered."""
    await press(host, pilot, *keys)
    await host.workers.wait_for_complete()
    await pilot.pause()
    return [" ".join(row.removeprefix("▸ ").split()) for row in host.offered]


def test_a_slash_offers_the_commands_and_what_they_are_for(host: Host) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        assert await typed(host, pilot, "/") == [
            "/help these lines",
            "/draft who guesses",
            "/undo forget the last turn",
            "/quit leave",
        ]
        assert await typed(host, pilot, "u") == ["/undo forget the last turn", "/quit leave"]
        assert await typed(host, pilot, "x") == []
        assert await typed(host, pilot, "backspace", "tab") == []
        assert host.prompt.text == "/undo "

    drive(host, steps)


def test_enter_takes_what_is_chosen_and_sends_what_is_there_already(host: Host) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        await press(host, pilot, *"/un", "enter")
        assert (host.prompt.text, host.texts) == ("/undo ", [])
        await press(host, pilot, "enter", *"/help", "enter")
        assert host.texts == ["/undo", "/help"]

    drive(host, steps)


def test_an_argument_is_completed_after_its_command(host: Host) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        assert await typed(host, pilot, *"/dr", "tab") == list(DRAFTERS)
        assert await typed(host, pilot, *"ff") == ["off", "suffix"]
        assert await typed(host, pilot, "down", "tab") == []
        await press(host, pilot, "enter")
        assert host.texts == ["/draft suffix"]
        assert await typed(host, pilot, *"/undo ") == []

    drive(host, steps)


def test_a_sign_offers_files_the_nearest_first_and_takes_one_as_a_mention(host: Host) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        assert await typed(host, pilot, *"see @") == [
            "main.md",
            "notes.txt",
            "with space.txt",
            "src/main.py",
            "src/other.py",
        ]
        assert await typed(host, pilot, *"mp") == ["src/main.py"]
        await press(host, pilot, "tab", "@", "s", "p", "enter")
        assert host.prompt.text == 'see @src/main.py @"with space.txt" '
        assert host.sent == []

    drive(host, steps)


def test_a_file_can_be_completed_within_quotes_and_on_a_later_line(host: Host) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        assert await typed(host, pilot, "/", "x", "ctrl+j", *'"@"with s') == ["with space.txt"]
        await press(host, pilot, "tab")
        assert host.prompt.text == '/x\n"@"with space.txt" '

    drive(host, steps)


def test_up_and_down_choose_in_a_ring_and_a_click_takes(host: Host) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        await press(host, pilot, "/", "up")
        assert [row for row in host.offered if row.startswith("▸")] == ["▸ /quit   leave"]
        await press(host, pilot, "down", "down", "tab")
        assert host.prompt.text == "/draft "
        await press(host, pilot, "escape", "ctrl+u", "/")
        await pilot.pause()
        await pilot.click(host.popup, offset=(4, 2))
        assert host.prompt.text == "/undo "
        assert host.area.has_focus

    drive(host, steps)


def test_escape_closes_the_list_for_this_word_and_only_then_is_the_apps(host: Host) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        assert await typed(host, pilot, *"/he", "escape") == []
        assert host.bubbled == []
        assert await typed(host, pilot, "l", "escape") == []
        assert host.bubbled == ["escape"]
        await press(host, pilot, "enter")
        assert host.texts == ["/hel"]
        assert await typed(host, pilot, *"/he") == ["/help these lines"]

    drive(host, steps)


def test_the_list_closes_when_the_cursor_leaves_the_word_or_the_prompt_is_left(host: Host) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        assert await typed(host, pilot, *"/he", "home") == []
        assert await typed(host, pilot, "end", "l") == ["/help these lines"]
        host.screen.set_focus(None)
        await pilot.pause()
        assert host.offered == []

    drive(host, steps)


@pytest.mark.parametrize("text", ["a/b", "x /help", "/usr/bin is", "a@b.c", "no @main.md now", " /help"])
def test_elsewhere_nothing_is_offered(host: Host, text: str) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        assert await typed(host, pilot, *text) == []

    drive(host, steps)


def test_tab_moves_on_where_nothing_is_offered(host: Host) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        await press(host, pilot, "a", "tab", "b")
        assert host.prompt.text == "ab"
        assert "tab" in host.bubbled

    drive(host, steps)


def test_files_are_listed_anew_after_half_a_minute(tmp_path: Path) -> None:
    clock = Clock()

    async def steps(host: Host, pilot: Pilot[None]) -> None:
        (tmp_path / "first.txt").touch()
        assert await typed(host, pilot, "@") == ["first.txt"]
        (tmp_path / "second.txt").touch()
        clock.now += 29
        assert await typed(host, pilot, "s") == ["first.txt"]
        clock.now += 2
        assert await typed(host, pilot, "backspace") == ["first.txt", "second.txt"]

    drive(Host(tmp_path, tmp_path / ".hidden", clock), steps)


def test_files_that_come_late_are_offered_only_while_they_are_waited_for(host: Host) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        host.area.type_text("@")
        host.area.type_text(" ")
        await host.workers.wait_for_complete()
        await pilot.pause()
        assert host.offered == []

    drive(host, steps)


def test_names_are_never_interpreted(tmp_path: Path) -> None:
    (tmp_path / "[bold]x[").touch()

    async def steps(host: Host, pilot: Pilot[None]) -> None:
        host.prompt.sources.commands = {"odd": "[red]\x1b help"}
        assert await typed(host, pilot, "@") == ["[bold]x["]
        assert await typed(host, pilot, "backspace", "/") == ["/odd [red] help"]

    drive(Host(tmp_path, tmp_path / ".hidden"), steps)


def test_the_list_is_above_the_prompt_with_eight_rows_at_most(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number}.txt").touch()

    async def steps(host: Host, pilot: Pilot[None]) -> None:
        await typed(host, pilot, "a", "ctrl+j", "@")
        assert host.popup.region.bottom == host.prompt.region.y
        assert host.popup.size.height == 8
        await press(host, pilot, "ctrl+j", "@")
        await pilot.resize_terminal(20, 6)
        await typed(host, pilot, "1")
        assert host.popup.region.bottom == host.prompt.region.y == host.popup.size.height == 3

    drive(Host(tmp_path, tmp_path / ".hidden"), steps)


@pytest.mark.parametrize(
    ("line", "row", "partial"),
    [
        ("/", 0, Partial("command", "", 0)),
        ("/he", 0, Partial("command", "he", 0)),
        ("/he", 1, None),
        ("/a b c", 0, Partial("argument", "b c", 3, "a")),
        ("/save @x", 0, Partial("file", "x", 6)),
        ('(@"a b', 2, Partial("file", "a b", 1)),
        ("\u201c@a", 0, Partial("file", "a", 1)),
        ('@"a" ', 0, None),
        ("x@y", 0, None),
    ],
)
def test_what_is_completed_is_what_is_before_the_cursor(line: str, row: int, partial: Partial | None) -> None:
    assert partial_at(line + "zzz", len(line), row) == partial


def shown(query: str, *files: str) -> list[str]:
    return [candidate.shown for candidate in files_for(query, nearest_first(files))]


def test_the_best_file_is_the_one_whose_name_begins_with_what_was_typed() -> None:
    files = ("main/x.py", "a/remain.py", "a/b/main.py", "m/a/i/n.py", "Main.py", "unrelated.py")
    assert shown("main", *files) == ["Main.py", "a/b/main.py", "main/x.py", "a/remain.py", "m/a/i/n.py"]
    assert shown("bmp", *files) == ["a/b/main.py"]
    assert shown("MAIN.PY", *files) == ["Main.py", "a/b/main.py", "a/remain.py", "main/x.py", "m/a/i/n.py"]
    assert shown("zz", *files) == []


def test_characters_that_were_typed_are_marked() -> None:
    (candidate,) = files_for("smp", ["src/main.py"])
    assert "".join(candidate.shown[place] for place in candidate.matched) == "smp"
    (command,) = commands_for("dr", {"draft": ""})
    assert [command.shown[place] for place in command.matched] == ["d", "r"]
    assert arguments_for("İ", ["İx"])[0].matched == (0,)


def test_a_name_made_to_be_slow_is_not() -> None:
    # Every way to place these would be more than can be tried in a lifetime.
    assert shown("a" * 30 + "c", "a/" * 2000 + "b") == []
    assert len(shown("a" * 30, *(f"{'a/' * 500}{number}" for number in range(500)))) == 50


def test_a_whole_name_is_found_among_very_many_that_fit_too() -> None:
    many = [f"m/a/i/n{number}" for number in range(5000)]
    assert shown("main", *many, "x/y/z/deep/main")[0] == "x/y/z/deep/main"
