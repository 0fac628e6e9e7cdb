"""Vim's keys in the prompt: each command on a text with its cursor marked by a bar, as vim does it."""

from pathlib import Path

import pytest
from prompt_host import Host, drive, press
from textual.pilot import Pilot
from ui_chat import chatting, own_folders
from ui_chat import drive as drive_chat

from app.ui.dialogs.sessions import SessionScreen

TEXT = "one two three\nfour five\n  six seven"


def marked(host: Host) -> str:
    """Return the text with a bar before the cursor."""
    row, column = host.area.cursor_location
    lines = list(host.area.document.lines)
    lines[row] = f"{lines[row][:column]}|{lines[row][column:]}"
    return "\n".join(lines)


def begin(host: Host, text: str, at: tuple[int, int]) -> None:
    host.prompt.vim = True
    host.prompt.set_text(text)
    if host.prompt.mode == "insert":
        host.prompt.action_back()
    host.area.move_cursor(at)


COMMANDS = [
    # nothing was yanked yet
    ((0, 0), "p", "|one two three\nfour five\n  six seven"),
    # motions
    ((0, 4), "h", "one| two three\nfour five\n  six seven"),
    ((0, 4), "2l", "one tw|o three\nfour five\n  six seven"),
    ((0, 0), "wwb", "one |two three\nfour five\n  six seven"),
    ((0, 0), "2e", "one tw|o three\nfour five\n  six seven"),
    ((0, 0), "$", "one two thre|e\nfour five\n  six seven"),
    ((0, 4), "0", "|one two three\nfour five\n  six seven"),
    ((2, 8), "^", "one two three\nfour five\n  |six seven"),
    ((0, 0), "G", "one two three\nfour five\n  |six seven"),
    ((0, 0), "2G", "one two three\n|four five\n  six seven"),
    ((2, 3), "gg", "|one two three\nfour five\n  six seven"),
    ((0, 0), "3gg", "one two three\nfour five\n  |six seven"),
    ((0, 12), "j", "one two three\nfour fiv|e\n  six seven"),
    ((2, 3), "2k", "one| two three\nfour five\n  six seven"),
    ((0, 0), "fe", "on|e two three\nfour five\n  six seven"),
    ((0, 0), "2tt", "one two| three\nfour five\n  six seven"),
    ((0, 0), "fzx", "|ne two three\nfour five\n  six seven"),
    # inserting
    ((0, 4), "iX", "one X|two three\nfour five\n  six seven"),
    ((0, 4), "aX", "one tX|wo three\nfour five\n  six seven"),
    ((2, 5), "IX", "one two three\nfour five\n  X|six seven"),
    ((0, 4), "AX", "one two threeX|\nfour five\n  six seven"),
    ((0, 4), "oX", "one two three\nX|\nfour five\n  six seven"),
    ((1, 4), "OX", "one two three\nX|\nfour five\n  six seven"),
    # edits
    ((0, 4), "x", "one |wo three\nfour five\n  six seven"),
    ((0, 12), "3x", "one two thr|e\nfour five\n  six seven"),
    ((0, 4), "D", "one| \nfour five\n  six seven"),
    ((0, 4), "d$", "one| \nfour five\n  six seven"),
    ((0, 4), "CX", "one X|\nfour five\n  six seven"),
    ((1, 3), "dd", "one two three\n  |six seven"),
    ((1, 0), "2dd", "|one two three"),
    ((2, 0), "dd", "one two three\n|four five"),
    ((0, 0), "9dd", "|"),
    ((1, 3), "ccX", "one two three\nX|\n  six seven"),
    ((0, 0), "dw", "|two three\nfour five\n  six seven"),
    ((0, 0), "d2w", "|three\nfour five\n  six seven"),
    ((0, 0), "2dw", "|three\nfour five\n  six seven"),
    ((0, 8), "dw", "one two| \nfour five\n  six seven"),
    ((0, 0), "cwX", "X| two three\nfour five\n  six seven"),
    ((0, 0), "deX", "| two three\nfour five\n  six seven"),
    ((0, 8), "db", "one |three\nfour five\n  six seven"),
    ((0, 0), "dfo", "| three\nfour five\n  six seven"),
    ((0, 0), "dtt", "|two three\nfour five\n  six seven"),
    ((0, 4), "d0", "|two three\nfour five\n  six seven"),
    ((0, 0), "dj", "  |six seven"),
    ((1, 0), "dk", "  |six seven"),
    ((0, 0), "dk", "|one two three\nfour five\n  six seven"),
    ((1, 0), "dG", "|one two three"),
    ((1, 0), "dgg", "  |six seven"),
    ((0, 4), "rX", "one |Xwo three\nfour five\n  six seven"),
    ((0, 4), "3rX", "one XX|X three\nfour five\n  six seven"),
    ((0, 12), "3rX", "one two thre|e\nfour five\n  six seven"),
    # the register
    ((1, 0), "yyp", "one two three\nfour five\n|four five\n  six seven"),
    ((1, 3), "yyP", "one two three\n|four five\nfour five\n  six seven"),
    ((1, 0), "ddggP", "|four five\none two three\n  six seven"),
    ((0, 0), "xp", "n|oe two three\nfour five\n  six seven"),
    ((0, 0), "dwP", "one| two three\nfour five\n  six seven"),
    ((0, 0), "yw$p", "one two threeone| \nfour five\n  six seven"),
    ((1, 0), "yy2p", "one two three\nfour five\n|four five\nfour five\n  six seven"),
    # undoing
    ((0, 0), "xxu", "|ne two three\nfour five\n  six seven"),
    ((0, 0), "xx2u", "|one two three\nfour five\n  six seven"),
    # what means nothing does nothing
    ((0, 4), "Zd/x", "one |wo three\nfour five\n  six seven"),
    ((0, 4), "dqx", "one |wo three\nfour five\n  six seven"),
]


def test_each_command_does_what_vim_does(tmp_path: Path) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        done = []
        for at, keys, _ in COMMANDS:
            begin(host, TEXT, at)
            await press(host, pilot, *keys)
            done.append((at, keys, marked(host)))
        assert done == COMMANDS

    drive(Host(tmp_path), steps)


def test_redo_takes_back_an_undo(tmp_path: Path) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        begin(host, TEXT, (0, 0))
        await press(host, pilot, "d", "d", "u", "ctrl+r")
        assert marked(host) == "|four five\n  six seven"

    drive(Host(tmp_path), steps)


def test_in_the_chat_redo_is_vims_where_the_prompt_takes_commands(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own_folders(monkeypatch, tmp_path)

    async def steps() -> None:
        async with chatting(vim=True) as chat:
            await chat.ready()
            await chat.pilot.press(*"abc", "escape", *"xxuu", "ctrl+r")
            await chat.until(lambda: chat.screen.prompt.text == "ab")
            await chat.pilot.press("i", "ctrl+r")
            await chat.until(lambda: isinstance(chat.app.screen, SessionScreen))
            await chat.pilot.press("escape")
            await chat.until(lambda: chat.app.screen is chat.screen)

    drive_chat(steps())


def test_the_mode_is_told_and_escape_leads_out_of_insert_mode_only(tmp_path: Path) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        modes = [host.prompt.mode]
        host.prompt.vim = True
        for keys in ("ab", ["escape"], "i", ["escape"], "d", ["escape"], "x", ["escape"]):
            await press(host, pilot, *keys)
            modes.append(host.prompt.mode)
        assert modes == ["", "insert", "normal", "insert", *["normal"] * 5]
        # The one that dropped the d is the prompt's; the one with nothing left to do is the app's.
        assert host.bubbled.count("escape") == 1
        assert host.prompt.text == "b"
        host.prompt.vim = False
        await press(host, pilot, "x", "escape")
        assert (host.prompt.mode, host.prompt.text) == ("", "xb")

    drive(Host(tmp_path), steps)


def test_enter_sends_in_normal_mode_and_begins_anew_in_insert_mode(tmp_path: Path) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        begin(host, "a\\", (0, 1))
        await press(host, pilot, "enter", "b")
        assert host.texts == ["a\\"]
        assert (host.prompt.text, host.prompt.mode) == ("b", "insert")

    drive(Host(tmp_path), steps)


def test_escape_closes_the_list_before_it_leaves_insert_mode(tmp_path: Path) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        host.prompt.vim = True
        await press(host, pilot, "/", "h", "escape")
        assert (host.offered, host.prompt.mode) == ([], "insert")
        await press(host, pilot, "escape", "x")
        assert (host.prompt.mode, host.prompt.text, host.offered) == ("normal", "/", [])

    drive(Host(tmp_path), steps)


def test_k_and_j_walk_the_history_but_not_with_a_count(tmp_path: Path) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        await press(host, pilot, *"first", "enter", *"second", "enter")
        begin(host, "draft", (0, 2))
        await press(host, pilot, "9", "k")
        assert host.prompt.text == "draft"
        await press(host, pilot, "k", "k")
        assert marked(host) == "firs|t"
        await press(host, pilot, "j", "j")
        assert host.prompt.text == "draft"

    drive(Host(tmp_path), steps)


def test_no_count_is_too_large(tmp_path: Path) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        begin(host, TEXT, (0, 0))
        for keys in ("99999999999w", "99999999999b", "9999999999G", "999999gg", "9999j", "99999x", "9999k"):
            await press(host, pilot, *keys)
        assert marked(host) == "o|ne two three\nfour five\n  "
        await press(host, pilot, *"99999u99999rx")
        assert marked(host) == "one two three\nfour five\n  |six seven"

    drive(Host(tmp_path), steps)


def test_a_placeholder_that_was_yanked_is_all_of_its_text_in_the_next_prompt(tmp_path: Path) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        begin(host, "", (0, 0))
        host.area.take_paste("line\n" * 40)
        await press(host, pilot, *"yy", "enter", "escape", "P")
        assert host.texts == [("line\n" * 40).rstrip()]
        assert host.prompt.text.startswith("line\n" * 40)

    drive(Host(tmp_path), steps)
