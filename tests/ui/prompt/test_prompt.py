"""The prompt: what each key does to the text, what is sent, how pastes are shown, and how high it is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prompt_host import Host, drive, press
from textual import events
from textual._xterm_parser import XTermParser
from textual.pilot import Pilot

from app.ui.prompt.pastes import Pastes, harmless


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_enter_sends_and_empties_the_prompt(host: Host) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        await press(host, pilot, *"  hi ", "enter", "enter", " ", "enter")
        assert host.texts == ["  hi"]
        assert host.prompt.text == " "

    drive(host, steps)


@pytest.mark.parametrize("key", ["ctrl+j", "shift+enter", "alt+enter", "shift+\r"])
def test_other_ways_to_press_enter_begin_a_line(host: Host, key: str) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        await press(host, pilot, "a", key, "b", "enter")
        assert host.texts == ["a\nb"]

    drive(host, steps)


@pytest.mark.parametrize(
    ("sent", "key"),
    [("\n", "ctrl+j"), ("\x1b\r", "alt+enter"), ("\x1b[13;2u", "shift+enter"), ("\r", "enter")],
)
def test_terminals_say_them_in_these_ways(host: Host, sent: str, key: str) -> None:
    async def steps(_: Host, __: Pilot[None]) -> None:
        (event,) = XTermParser().feed(sent)
        assert isinstance(event, events.Key)
        assert event.key == key

    drive(host, steps)


def test_a_backslash_at_the_end_of_a_line_and_enter_begin_a_line(host: Host) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        await press(host, pilot, "a", "\\", "enter", "b", "\\", "left", "enter")
        assert host.texts == ["a\nb\\"]

    drive(host, steps)


def test_keys_count_in_the_order_they_were_typed_however_fast(host: Host) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        keys = [*"one", "enter", *"two", "ctrl+j", *"thx", "backspace", *"ree", "up", "home", "X", "enter", "y"]
        await press(host, pilot, *keys)
        assert host.texts == ["one", "Xtwo\nthree"]
        assert host.prompt.text == "y"

    drive(host, steps)


def test_keys_can_be_mapped_to_others(host: Host) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        host.set_keymap({"prompt.submit": "ctrl+s", "prompt.newline": "enter"})
        await press(host, pilot, "a", "enter", "b", "ctrl+s")
        assert host.texts == ["a\nb"]

    drive(host, steps)


def test_what_the_prompt_has_no_use_for_is_left_to_the_app(host: Host) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        await press(host, pilot, "escape", "ctrl+d", "pageup", "ctrl+c", "f2")
        assert host.bubbled == ["escape", "ctrl+d", "pageup", "ctrl+c", "f2"]
        await press(host, pilot, "a", "b", "left", "ctrl+d", "ctrl+g")
        assert host.bubbled[5:] == []
        assert (host.prompt.text, host.editors) == ("a", 1)

    drive(host, steps)


def test_an_undo_is_taken_back(host: Host) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        await press(host, pilot, *"ab", "backspace", "ctrl+z")
        assert host.prompt.text == "ab"
        await press(host, pilot, "ctrl+shift+z")
        assert host.prompt.text == "a"

    drive(host, steps)


def test_it_grows_with_its_text_to_ten_rows_and_half_the_screen(host: Host) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        heights = []
        for rows in (1, 3, 10, 30):
            host.prompt.set_text("\n".join(["row"] * rows))
            await pilot.pause()
            heights.append(host.prompt.size.height)
        await pilot.resize_terminal(80, 11)
        await pilot.pause()
        heights.append(host.prompt.size.height)
        assert heights == [1, 3, 10, 10, 5]
        assert host.area.cursor_screen_offset.y == 10

    drive(host, steps)


def test_typed_lines_stay_in_sight_while_it_grows(host: Host) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        await press(host, pilot, "a", "ctrl+j", "b", "ctrl+j", "c")
        await pilot.pause()
        assert host.area.scroll_offset.y == 0
        assert host.prompt.size.height == 3

    drive(host, steps)


@pytest.mark.parametrize("size", [(20, 5), (20, 24), (200, 5), (40, 3)])
def test_it_works_at_every_size(host: Host, size: tuple[int, int]) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        await press(host, pilot, "/")
        assert host.popup.region.bottom <= host.prompt.region.y
        assert host.popup.region.width <= size[0]
        await press(host, pilot, "escape", *"word word word word word", "ctrl+j", "x")
        assert host.prompt.size.height <= max(1, size[1] // 2)
        await press(host, pilot, "enter")
        assert host.texts == ["/word word word word word\nx"]

    drive(host, steps, size)


def paste(host: Host, text: str) -> None:
    host.area.post_message(events.Paste(text))


def test_a_short_paste_is_text(host: Host) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        await press(host, pilot, "<", ">", "left")
        paste(host, "one\r\ntwo\rthree")
        await press(host, pilot, "enter")
        assert host.texts == ["<one\ntwo\nthree>"]
        assert host.sent[0].pasted == ("one\ntwo\nthree",)

    drive(host, steps)


def test_a_long_paste_is_a_placeholder_that_is_sent_as_it_was(host: Host) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        first, second = "line\n" * 1234, "x" * 2001
        paste(host, first)
        await press(host, pilot, " ")
        paste(host, second)
        await pilot.pause()
        assert host.prompt.text == "[pasted 1,234 lines #1] [pasted 2,001 characters #2]"
        assert host.prompt.full_text == f"{first} {second}"
        await press(host, pilot, "enter")
        assert host.texts == [f"{first} {second}"]
        assert host.sent[0].pasted == (first.strip(), second)

    drive(host, steps)


def test_a_placeholder_is_deleted_as_one_and_comes_back_as_one(host: Host) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        await press(host, pilot, "a")
        paste(host, "line\n" * 30)
        await press(host, pilot, "backspace")
        assert host.prompt.text == "a"
        await press(host, pilot, "ctrl+z")
        assert host.prompt.full_text == "a" + "line\n" * 30
        await press(host, pilot, "left", "backspace")
        assert host.prompt.full_text == host.prompt.text == "a[pasted 30 lines #]"

    drive(host, steps)


def test_a_placeholder_inside_a_paste_is_text(host: Host) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        tricky = "[pasted 1 lines #1]\n[pasted 31 lines #1]\n" + "x\n" * 29
        paste(host, tricky)
        await press(host, pilot, "enter")
        assert host.texts == [tricky.rstrip()]

    drive(host, steps)


def test_a_binary_megabyte_is_one_harmless_placeholder(host: Host) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        paste(host, "\x00\x1b[31m\u202e\x9b\u2028é" * 100_000)
        await press(host, pilot, "enter")
        assert host.texts == ["␀␛[31m��\né" * 99_999 + "␀␛[31m��\né"]

    drive(host, steps)


def test_a_placeholder_that_was_cut_is_all_of_its_text(host: Host) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        for select in ([], ["shift+home"]):
            paste(host, "line\n" * 40)
            await press(host, pilot, *select, "ctrl+x")
            assert (host.prompt.text, host.clipboard.strip()) == ("", ("line\n" * 40).strip())
            await press(host, pilot, "a", "enter", "ctrl+v")
            assert host.prompt.full_text.strip() == ("line\n" * 40).strip()
            host.prompt.set_text("")

    drive(host, steps)


def test_what_was_copied_in_the_app_is_pasted_the_same_way(host: Host) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        host.copy_to_clipboard("line\n" * 30)
        await press(host, pilot, "ctrl+v")
        assert host.prompt.text == "[pasted 30 lines #1]"

    drive(host, steps)


def test_a_text_from_elsewhere_has_the_cursor_at_its_end_and_a_huge_one_is_a_placeholder(host: Host) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        host.prompt.set_text("/help\x1b me")
        await press(host, pilot, "!")
        assert (host.prompt.text, host.offered) == ("/help␛ me!", [])
        huge = "line\n" * 5000
        host.prompt.text = huge
        assert host.prompt.text == "[pasted 5,000 lines #1]"
        assert host.prompt.full_text == huge

    drive(host, steps)


def test_what_could_not_be_sent_comes_back_above_what_was_typed_since(host: Host) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        await press(host, pilot, "@", "x", " ")
        paste(host, "line\n" * 30)
        await press(host, pilot, "enter")
        host.prompt.restore()
        assert host.prompt.text == "@x [pasted 30 lines #1]"
        await press(host, pilot, "enter")
        assert host.texts == ["@x " + ("line\n" * 30).rstrip()] * 2
        await press(host, pilot, "a")
        host.prompt.restore()
        assert host.prompt.text == "@x " + "line\n" * 30 + "a"

    drive(host, steps)


def test_pastes_are_told_apart_from_what_was_typed() -> None:
    pastes = Pastes()
    pastes.take("@one line")
    pastes.take("two\nlines\n")
    pastes.take("\n \n")
    pastes.take("gone\nlines")
    assert pastes.in_text("say two\nlines @one line") == ("two\nlines",)


def test_plain_text_is_harmless_as_it_is() -> None:
    text = "a\tb\n👩‍👧 می‌خواهم 雨 é\n"
    assert harmless(text) == text


def edits(monkeypatch: pytest.MonkeyPatch, run: Callable[[str], str]) -> None:
    monkeypatch.setattr("app.ui.prompt.external_editor.edit_text", run)


def test_an_editor_gets_all_of_the_text_and_gives_it_back(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def run(text: str) -> str:
        seen.append(text)
        return "edited\x1b\nmore"

    async def steps(host: Host, pilot: Pilot[None]) -> None:
        host.suspend = suspended  # type: ignore[method-assign]
        edits(monkeypatch, run)
        paste(host, "line\n" * 30)
        await pilot.pause()
        host.prompt.edit_externally(host)
        assert seen == ["line\n" * 30]
        assert host.prompt.text == "edited␛\nmore"

    drive(host, steps)


class suspended:  # noqa: N801
    """The terminal given away, as far as a test has one; what happens inside must not fail."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, *_: Any) -> None:
        assert kind is None


@pytest.mark.parametrize("command", ["no-such-program", "false", "sh -c 'exit 3'", "'open quote"])
def test_a_failing_editor_is_told_of_and_the_text_stays(
    host: Host, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        host.suspend = suspended  # type: ignore[method-assign]
        monkeypatch.setenv("VISUAL", command)
        await press(host, pilot, "a")
        host.prompt.edit_externally(host)
        await pilot.pause()
        assert host.prompt.text == "a"
        (told,) = host._notifications
        assert told.severity == "error"
        assert told.title
        assert not told.markup

    drive(host, steps)


def test_what_was_written_in_an_editor_that_fails_is_above_the_prompt(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        host.suspend = suspended  # type: ignore[method-assign]
        monkeypatch.setenv("VISUAL", """sh -c 'echo written >> "$0"; exit 1'""")
        await press(host, pilot, "a")
        host.prompt.edit_externally(host)
        assert host.prompt.text == "a"
        await pilot.pause()
        (told,) = host._notifications
        assert "Up brings back" in told.message
        await press(host, pilot, "up")
        assert host.prompt.text == "awritten"
        await press(host, pilot, "down")
        assert host.prompt.text == "a"

    drive(host, steps)


def test_where_the_app_can_not_be_suspended_that_is_told(host: Host) -> None:
    async def steps(host: Host, pilot: Pilot[None]) -> None:
        host.prompt.edit_externally(host)
        await pilot.pause()
        assert [told.title for told in host._notifications] == ["An editor can't be opened from this terminal."]

    drive(host, steps)
