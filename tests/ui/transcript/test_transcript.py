"""The transcript as a widget: what is drawn, what stays where it is, what the keys do, and what can't break it."""

import asyncio
from random import Random

import pytest
from textual.app import ComposeResult
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.selection import SELECT_ALL, Selection
from transcript_app import CODE, Host, drawn, drive, quiet, rows

from app.engine.decoding.origins import Origin
from app.ui.drawing.marks import Marks
from app.ui.transcript.transcript import Transcript


def words(number: int, seed: int = 0) -> str:
    random = Random(seed)
    return " ".join(random.choice(["a", "word", "longer", "speculation"]) for _ in range(number))


def long_chat(transcript: Transcript, messages: int = 30) -> None:
    for n in range(messages):
        transcript.add_user(2 * n, f"Question {n}")
        transcript.add_answer(2 * n + 1, f"Answer {n}. {words(60, n)}\n\n- {words(9)}\n- b\n\n{words(50, n)}", "footer")


def test_a_chat_is_drawn() -> None:
    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        transcript.add_user(1, "Hi\nthere")
        transcript.add_answer(2, f"**Bold** [red]x[/red]\n\n{CODE}", "9 tokens")
        transcript.add_note("a note", "note")
        transcript.add_note("no", "error")
        transcript.add_note("a    b", "output")
        await quiet(transcript, pilot)
        seen = [row for row in rows(transcript) if row]
        assert seen[:3] == [" ┃ Hi", " ┃ there", "   Bold [red]x[/red]"]
        assert [row.strip() for row in seen[3:]] == ["python", "x = 1", "9 tokens", "· a note", "! no", "a    b"]

    drive(script)


def test_an_empty_transcript_greets() -> None:
    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        transcript.greeting = "Ask [b]something[/b]."
        await quiet(transcript, pilot)
        assert rows(transcript)[1] == "   Ask [b]something[/b]."
        transcript.add_note("No chat template.", "note")
        await quiet(transcript, pilot)
        assert rows(transcript)[1:4] == ["   Ask [b]something[/b].", "", " · No chat template."]
        transcript.add_user(1, "Hi")
        await quiet(transcript, pilot)
        assert "Ask" not in "".join(rows(transcript))

    drive(script)


def test_what_was_said_before_there_was_a_screen_is_drawn() -> None:
    class Early(Host):
        def compose(self) -> ComposeResult:
            transcript = Transcript()
            transcript.add_answer(1, "early")
            yield transcript

    async def run() -> None:
        async with Early().run_test() as pilot:
            await quiet(pilot.app.query_one(Transcript), pilot)
            assert rows(pilot.app.query_one(Transcript))[1] == "   early"

    asyncio.run(run())


def test_streaming_ends_as_the_whole_text_drops_nothing_and_follows() -> None:
    text = f"# Title\n\n{words(80)}\n\n1. a\n2. b\n\n{CODE}\n\n" * 4 + "The end."

    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        transcript.add_answer(1, text)
        await quiet(transcript, pilot)
        whole = rows(transcript)
        transcript.truncate(1)
        transcript.begin_answer(2)
        for at in range(0, len(text), 7):
            transcript.append(2, text[at : at + 7])
            if at % 5 == 0:
                await pilot.pause()
        await quiet(transcript, pilot)
        assert rows(transcript) == whole
        assert transcript.text_of(2) == text
        transcript.finish(2, "footer")
        await quiet(transcript, pilot)
        assert rows(transcript)[-1] == "   footer"
        assert rows(transcript)[:-2] == whole[2:]

    drive(script)


def test_drawing_is_coalesced() -> None:
    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        drawn = 0
        real = transcript.reflow

        def counted() -> None:
            nonlocal drawn
            drawn += 1
            real()

        transcript.reflow = counted  # type: ignore[method-assign]
        transcript.begin_answer(1)
        for _ in range(500):
            transcript.append(1, "word ")
        await quiet(transcript, pilot)
        assert drawn <= 3
        assert "".join(rows(transcript)).count("word") > 100

    drive(script)


def test_the_reader_who_scrolled_up_is_left_alone() -> None:
    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        long_chat(transcript)
        await quiet(transcript, pilot)
        assert transcript.following
        await pilot.press("pageup", "pageup")
        before = rows(transcript)
        transcript.begin_answer(1000)
        for n in range(50):
            transcript.append(1000, f"Line {n}.\n\n")
        await quiet(transcript, pilot)
        assert rows(transcript) == before
        assert not transcript.following
        await pilot.press("end")
        await quiet(transcript, pilot)
        assert rows(transcript)[-1] == "   Line 49."
        transcript.append(1000, "More.")
        await quiet(transcript, pilot)
        assert rows(transcript)[-1] == "   More."

    drive(script)


def test_only_what_is_seen_is_drawn_at_first() -> None:
    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        transcript._is_measuring = True
        long_chat(transcript, 100)
        await drawn(transcript, pilot)
        assert len(transcript.column.undrawn(0)) > 400
        assert rows(transcript)[-1] == "   footer"
        await pilot.press("home")
        assert rows(transcript)[1] == " ┃ Question 0"
        assert len(transcript.column.undrawn(0)) > 400
        transcript._is_measuring = False
        transcript._measure_soon()

    drive(script)


def test_scrolling_up_into_what_was_never_drawn_moves_line_by_line() -> None:
    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        transcript._is_measuring = True
        for key in range(30):
            # Lines that are joined, or that take two rows with their padding: no height is guessed right.
            transcript.add_answer(key, f"Line {key}.\n" * 12 + f"\n```\n{key}\n```\n\n| {key} |\n|-|\n| x |")
        await drawn(transcript, pilot)
        for _ in range(20):
            before = rows(transcript)
            transcript.scroll_relative(y=-3, animate=False)
            await pilot.pause()
            assert rows(transcript)[3:] == before[:-3]
        transcript._is_measuring = False
        transcript._measure_soon()

    drive(script)


def test_heights_that_become_certain_move_nothing_that_is_seen() -> None:
    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        transcript._is_measuring = True
        long_chat(transcript, 60)
        await drawn(transcript, pilot)
        transcript.scroll_to(y=transcript.max_scroll_y // 2, animate=False)
        await pilot.pause()
        before, height = rows(transcript), transcript.virtual_size.height
        transcript._is_measuring = False
        transcript._measure_soon()
        await quiet(transcript, pilot)
        assert rows(transcript) == before
        assert transcript.virtual_size.height != height

    drive(script)


@pytest.mark.parametrize("key", ["Answer 7.", "Question 20"])
def test_another_width_keeps_the_text_at_the_top(key: str) -> None:
    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        long_chat(transcript)
        await quiet(transcript, pilot)
        pieces = transcript.column.pieces
        index = next(
            n for n, piece in enumerate(pieces) if key in str(piece.lines(transcript.text_width, transcript.look))
        )
        transcript.scroll_to(y=transcript.column.top(index) + 1, animate=False)
        await pilot.pause()
        assert key in rows(transcript)[0]
        for width in (33, 100, 60):
            await pilot.resize_terminal(width, 20)
            await quiet(transcript, pilot)
            assert key in "".join(rows(transcript)[:2])

    drive(script)


def test_the_end_stays_the_end_at_every_size() -> None:
    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        long_chat(transcript, 5)
        for size in ((20, 5), (10, 9), (140, 40), (60, 20)):
            await pilot.resize_terminal(*size)
            await quiet(transcript, pilot)
            assert transcript.following
            assert rows(transcript)[-1].strip() == "footer"

    drive(script)


def test_keys_select_messages_with_a_bar() -> None:
    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        long_chat(transcript, 5)
        await quiet(transcript, pilot)
        await pilot.press("up")
        assert transcript.selected == 9
        assert all(row.startswith("▌") for row in rows(transcript)[-6:])
        await pilot.press("k", "k")
        assert transcript.selected == 7
        assert any(row.startswith("▌  Answer 3") for row in rows(transcript))
        await pilot.press("up")
        assert "▌┃ Question 3" in rows(transcript)
        await pilot.press(*["up"] * 9)
        assert transcript.selected == 0
        await pilot.press("j", "down")
        assert transcript.selected == 2
        assert "▌┃ Question 1" in rows(transcript)

    drive(script)


def test_keys_tell_what_is_wanted_of_the_selected_message() -> None:
    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        await pilot.press("y", "e", "r", "b")
        transcript.add_user(1, "[b]Hi[/b]\r\n\x1b")
        transcript.add_answer(2, "Well")
        await quiet(transcript, pilot)
        await pilot.press("y", "up", "up", "y", "e", "b", "down", "r")

    heard = drive(script).heard
    assert heard[0] == Transcript.Copied("[b]Hi[/b]\r\n\x1b", "message")
    wanted = [Transcript.EditWanted(1), Transcript.BranchWanted(1), Transcript.ReplayWanted(2)]
    assert [(type(each), each.key) for each in heard[1:]] == [(type(each), each.key) for each in wanted]


def test_keys_jump_between_code_blocks_and_copy_them() -> None:
    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        transcript.add_answer(1, f"{words(200)}\n\n```\none\n```\n\n- a\n\n  ```\n  two\n  ```\n\n{words(200)}")
        transcript.add_user(2, "```\nnot code\n```")
        transcript.add_answer(3, f"{words(200)}\n\n```sh\nthree\n\n```\n\n{words(200)}")
        await quiet(transcript, pilot)
        await pilot.press("home")
        for _ in range(4):
            await pilot.press("n", "y")
        assert [row for row in rows(transcript) if row.startswith("█")][1].split() == ["█", "three"]
        assert transcript.selected == 3
        await pilot.press("p", "y", "p", "p", "y", "down", "y")

    texts = [(each.text, each.what) for each in drive(script).heard]
    ordered = [(text, "code block") for text in ("one", "two", "three\n", "three\n", "two", "one")]
    assert texts[:-1] == ordered
    assert texts[-1] == ("```\nnot code\n```", "message")


def test_a_code_block_stays_selected_at_another_width() -> None:
    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        transcript.add_answer(1, f"1. {words(20)}\n\n   ```\n   one\n   ```\n\n   ```\n   two\n   ```")
        await quiet(transcript, pilot)
        await pilot.press("home", "n", "n", "y")
        before = [row.startswith("█") for row in rows(transcript)].index(True)
        await pilot.resize_terminal(30, 40)
        await quiet(transcript, pilot)
        marked = [row for row in rows(transcript) if row.startswith("█")]
        assert [row.startswith("█") for row in rows(transcript)].index(True) > before
        assert "two" in "".join(marked)
        assert "one" not in "".join(marked)
        await pilot.press("y")

    assert [each.text for each in drive(script).heard] == ["two", "two"]


def test_code_blocks_are_exact() -> None:
    async def script(transcript: Transcript, _: "Pilot[None]") -> None:
        transcript.add_answer(1, "```\n\ta \x1b[b]\n```\n> ~~~\n> q\n> ~~~")
        assert transcript.code_blocks(1) == ["\ta \x1b[b]", "q"]

    drive(script)


def test_taking_back_removes_what_came_after() -> None:
    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        long_chat(transcript, 3)
        transcript.add_note("gone too", "note")
        transcript.selected = 3
        transcript.truncate(2)
        assert transcript.message_keys() == [0, 1]
        assert transcript.selected is None
        transcript.append(3, "late")
        transcript.finish(3, "late")
        await quiet(transcript, pilot)
        assert not any("Question 1" in row or "gone" in row or "late" in row for row in rows(transcript))
        with pytest.raises(KeyError):
            transcript.text_of(3)
        transcript.clear()
        await quiet(transcript, pilot)
        assert not "".join(rows(transcript))

    drive(script)


def test_a_key_is_for_one_message() -> None:
    async def script(transcript: Transcript, _: "Pilot[None]") -> None:
        transcript.add_user(1, "a")
        with pytest.raises(ValueError, match="message 1 already"):
            transcript.begin_answer(1)

    drive(script)


def test_provenance_shows_the_raw_text_marked_also_while_it_streams() -> None:
    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        transcript.marks = Marks.ORIGINS
        transcript.begin_answer(1)
        transcript.append(1, "**a", [2, 1, 2], [Origin.PLAIN, Origin.MODEL, Origin.BONUS])
        await quiet(transcript, pilot)
        transcript.append(1, "**", [], [])
        transcript.finish(1, "footer")
        await quiet(transcript, pilot)
        strip = transcript.render_line(1)
        marks = [(part.text, bool(part.style.underline), bool(part.style.bold)) for part in strip if part.text.strip()]
        assert marks == [("**", False, False), ("a", True, False), ("**", False, True)]
        transcript.marks = Marks.OFF
        await quiet(transcript, pilot)
        assert rows(transcript)[1] == "   a"

    drive(script)


def test_provenance_keeps_the_message_at_the_top() -> None:
    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        long_chat(transcript)
        await quiet(transcript, pilot)
        transcript.selected = 21
        await pilot.press("down", "up")
        await quiet(transcript, pilot)
        assert any("Answer 10" in row for row in rows(transcript))
        transcript.marks = Marks.ORIGINS
        await quiet(transcript, pilot)
        assert any("Answer 10" in row for row in rows(transcript))

    drive(script)


def test_selected_text_is_what_is_seen() -> None:
    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        transcript.add_user(1, "日本 one\ntwo")
        transcript.add_answer(2, "*three* four")
        await quiet(transcript, pilot)
        text, _ = transcript.get_selection(Selection(Offset(6, 1), Offset(6, 2))) or ("", "")
        assert text == "one\ntwo"
        whole, _ = transcript.get_selection(SELECT_ALL) or ("", "")
        assert whole == "\n日本 one\ntwo\n\nthree four"
        await pilot.mouse_down(transcript, offset=(3, 4))
        await pilot.hover(transcript, offset=(8, 4))
        await pilot.mouse_up(transcript, offset=(8, 4))
        assert transcript.screen.get_selected_text() == "three"

    drive(script)


def test_themes_change_what_is_drawn() -> None:
    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        transcript.add_answer(1, CODE)
        colours = []
        for theme in ("textual-dark", "textual-light", "ansi-dark"):
            transcript.app.theme = theme
            await pilot.pause()
            await quiet(transcript, pilot)
            assert "x = 1" in "".join(rows(transcript))
            colours.append({str(part.style.color) for part in transcript.render_line(2) if part.text == "x"})
        assert colours[0] != colours[1] != colours[2]
        assert rows(transcript)[2].strip() == "│x = 1"

    drive(script)


@pytest.mark.parametrize("width", [10, 11, 20, 80])
def test_nothing_breaks_it(width: int) -> None:
    bad = (
        "\x1b]8;;http://e\x07l\x1b]8;;\x07 \x00 日本語" * 3
        + " \u202e"
        + "x" * 300
        + "\n- - - - -\n> > > 1. 日\n\n|a|b|\n|-|-|\n|日|\t|\n"
    )

    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        for key, text in enumerate([bad, "", "\n\n", "```", "\r\r\n"]):
            transcript.add_user(2 * key, text)
            transcript.add_answer(2 * key + 1, text, text, [3] * 50, [Origin.MODEL] * 50)
            transcript.add_note(text, "output")
        await quiet(transcript, pilot)
        for marks in (Marks.ORIGINS, Marks.OFF):
            transcript.marks = marks
            await pilot.press("home")
            await quiet(transcript, pilot)
            for y in range(20):
                strip = transcript.render_line(y)
                assert strip.cell_length == transcript.region.width
                assert not set(strip.text) & set("\x1b\x00\u202e\x07\r\n\t")
            await pilot.press("up", "n", "p", "pagedown", "end", "k")

    drive(script, (width, 20))


def test_a_message_of_a_megabyte_is_shown_piece_by_piece() -> None:
    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        transcript._is_measuring = True
        transcript.add_user(1, (words(12) + "\n") * 15_000)
        transcript.add_answer(2, (words(100) + "\n\n") * 1_700)
        await drawn(transcript, pilot)
        assert transcript.column.height > 20_000
        assert len(transcript.column.undrawn(0)) > len(transcript.column.pieces) - 30
        await pilot.press("home")
        assert rows(transcript)[1].startswith(" ┃ ")
        transcript.clear()
        transcript._is_measuring = False

    drive(script)


def test_thoughts_are_seen_while_nothing_else_is_and_later_when_wanted() -> None:
    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        def seen() -> list[str]:
            return [row.strip(" ▌") for row in rows(transcript) if row.strip(" ▌")]

        transcript.begin_answer(1)
        transcript.append(1, "<think>\nTwo and two")
        await quiet(transcript, pilot)
        assert seen() == ["Thought 3 words (/thoughts shows or hides them)", "Two and two"]
        transcript.append(1, ".\n</think>\n\n**Fo")
        transcript.append(1, "ur.**\n\nSo it is.")
        transcript.finish(1, "9 tokens")
        await quiet(transcript, pilot)
        assert seen()[1:] == ["Four.", "So it is.", "9 tokens"]
        await pilot.press("t")
        await quiet(transcript, pilot)
        assert seen()[1:] == ["Two and two.", "Four.", "So it is.", "9 tokens"]
        transcript.marks = Marks.ORIGINS
        await quiet(transcript, pilot)
        assert seen()[0] == "<think>"
        transcript.marks = Marks.OFF
        await pilot.press("t", "up", "y")
        await quiet(transcript, pilot)
        assert seen()[1] == "Four."

    host = drive(script)
    assert [message.text for message in host.heard if isinstance(message, Transcript.Copied)] == [
        "**Four.**\n\nSo it is."
    ]


def test_long_thoughts_are_drawn_whole() -> None:
    thoughts = "\n".join(f"{n}. {words(9, n)}" for n in range(400))

    async def script(transcript: Transcript, pilot: "Pilot[None]") -> None:
        transcript.begin_answer(1)
        for start in range(0, len(thoughts), 999):
            transcript.append(1, ("" if start else "<think>") + thoughts[start : start + 999])
            await drawn(transcript, pilot)
        await quiet(transcript, pilot)
        text = " ".join("".join(part.text for part in transcript.render_line(y)) for y in range(20))
        assert "399. " in text
        pieces = transcript.pieces()[1:]
        lines = [line for piece in pieces for line in piece.lines(400, transcript.look)]
        assert ["".join(part.text for part in line) for line in lines] == thoughts.split("\n")

    drive(script)
