"""Lines of a transcript: right widths, nothing obeyed, nothing lost, whatever a model says."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from app.engine.decoding.origins import Origin
from app.shell.safe_text import shown
from app.ui.drawing.origin_styles import Palette, legend, origin_style
from app.ui.drawing.wrapping import Line, plain_lines, wrap
from app.ui.transcript.blocks import blocks_of
from app.ui.transcript.bodies import BlockBody, PlainBody, TokenBody
from app.ui.transcript.code_lines import CodeLines
from app.ui.transcript.look import Look
from app.ui.transcript.markdown_lines import markdown_lines

_NONE = Style.null()
_BACK = Style(bgcolor="#222222")
LOOK = Look(Palette.DARK, "github-dark", " ", _BACK, _BACK, *(_NONE,) * 9)
_ODD = "日本語 👩‍👩‍👧 ❤️ é e\u0301 \u200d \u202eabc \x1b[31m \x00 \x9b1m \u2028 a\tb \x7f"


def _texts(lines: list[Line]) -> list[str]:
    return ["".join(part.text for part in line) for line in lines]


def _markdown(text: str, width: int = 60) -> list[str]:
    return [row.rstrip() for block in blocks_of(shown(text)) for row in _texts(BlockBody(block).lines(width, LOOK))]


def _words(rows: list[str]) -> str:
    return "".join("".join(rows).split())


@given(st.text(max_size=60), st.integers(2, 20), st.booleans())
@example("000000 ", 2, True)
def test_wrapped_lines_fit_and_lose_nothing_but_spaces(text: str, width: int, words: bool) -> None:
    line = shown(text).replace("\n", " ").replace("\t", " ")
    pieces = [line[start:end] for start, end in wrap(line, width, words=words)]
    assert all(cell_len(piece) <= width for piece in pieces)
    assert _words(pieces) == _words([line])
    if not words:
        assert "".join(pieces) == line


def test_words_are_kept_whole_where_they_fit() -> None:
    assert _texts(plain_lines("one two three, averylongword", 8, _NONE)) == ["one two", "three,", "averylon", "gword"]


def test_output_keeps_its_columns() -> None:
    assert _texts(PlainBody("a    b\n  1    2", words=False).lines(20, LOOK)) == ["a    b", "  1    2"]


def test_tabs_reach_the_next_stop() -> None:
    assert _texts(plain_lines("a\tb\n\tc", 20, _NONE)) == ["a   b", "    c"]


@pytest.mark.parametrize("width", [1, 3, 7, 40])
def test_odd_characters_have_their_widths(width: int) -> None:
    table = f"| {_ODD} | b |\n|--|--|\n| c | {_ODD} |"
    for text in (_ODD, f"- {_ODD}", f"> > 1. {_ODD}", f"```\n{_ODD}\n```", table, f"# {_ODD}", f"- - - - - - {_ODD}"):
        rows = _markdown(text, width)
        assert rows
        assert all(cell_len(row) <= max(3, width) for row in rows)


@pytest.mark.parametrize("sign", ["\x1b", "\x00", "\u202e", "\x9b", "\x7f", "\x08", "\r", "\u2028"])
@pytest.mark.parametrize("place", ["a{}b", "`a{}b`", "```\na{}b\n```", "[x](http://a{}b)", "| a{}b |\n|-|", "    a{}b"])
def test_no_character_is_obeyed(sign: str, place: str) -> None:
    rows = _markdown(place.format(sign))
    assert sign not in "".join(rows)
    assert any("a" in row and "b" in row for row in rows)


def test_entities_cannot_bring_a_character_that_is_obeyed() -> None:
    rows = _markdown("a &#x202e; &#27;[31m b [x](http://h/&#x202e;) ![&#x202e;](u)")
    assert not set("".join(rows)) & {"\u202e", "\x1b"}


def test_markup_html_and_links_are_text() -> None:
    segments = [
        part
        for block in blocks_of(
            "[red]a[/red] <b>b</b> <kbd>c</kbd></kbd> [d](https://e.f) <https://g.h>\n\n<div>\ni\n</div>"
        )
        for line in markdown_lines(block, 200, LOOK)
        for part in line
    ]
    text = "".join(part.text for part in segments)
    assert "[red]a[/red] <b>b</b> <kbd>c</kbd></kbd> d (https://e.f) https://g.h" in text
    assert "<div>" in text
    assert all(part.style is None or part.style.link is None for part in segments)


def test_definitions_of_links_are_not_hidden() -> None:
    assert _markdown("See [1].\n\n[1]: https://e.f") == ["See [1].", "[1]: https://e.f"]


def test_what_is_too_deep_or_too_wide_is_shown_as_it_stands() -> None:
    deep = "> " * 40 + "deep"
    assert "deep" in _words(_markdown(deep))
    columns = "|" + "|".join(f"c{n}" for n in range(30)) + "|"
    rows = _markdown(columns + "\n|" + "-|" * 30 + "\n" + columns, 40)
    assert all(_words(rows).count(f"c{n}|") == 2 for n in range(30))


@pytest.mark.parametrize("piece", ["[", "*a ", "`a ", "![](", "<", "| a ", "> ", "_a", "&", "word "])
def test_a_huge_block_is_drawn_as_plain_text(piece: str) -> None:
    rows = _markdown(piece * (100_000 // len(piece)))
    assert _words(rows).count(piece.strip()[0]) >= 100_000 // len(piece) // 2


def test_bullets_and_numbers_stand_out() -> None:
    assert _markdown("- a\n- b\n\n9. c\n9. d\n   - e") == [" • a", " • b", " 9. c", "10. d", "     • e"]


def test_code_is_padded_and_highlighted() -> None:
    lines = CodeLines("python", LOOK, 20).lines("def f(): # a long comment\n\n\tpass\n")
    rows = _texts(lines)
    assert [len(row) for row in rows] == [20] * len(rows)
    assert rows[0].strip() == "python"
    assert _words(rows[1:]) == "deff():#alongcommentpass"
    assert all(part.style and part.style.bgcolor == _BACK.bgcolor for line in lines for part in line)
    assert len({part.style.color for part in lines[1] if part.style}) > 1


def test_a_language_nobody_knows_is_plain_code() -> None:
    assert _texts(CodeLines("no such", LOOK, 12).lines("x = 1"))[1] == " x = 1      "


@pytest.mark.parametrize(
    ("language", "start", "end"), [("python", "", ""), ("python", '"""', '"""'), ("html", "<script>\n", "</script>\n")]
)
def test_growing_code_reads_as_the_whole(language: str, start: str, end: str) -> None:
    signs = {5: start, 60: end}
    code = "".join(f"{signs.get(n, '')}x{n} = f({n})  # {n}\n\n" for n in range(80))
    growing = CodeLines(language, LOOK, 40)
    for stop in range(0, len(code), 97):
        whole = CodeLines(language, LOOK, 40).lines(code[:stop])
        assert _texts(growing.lines(code[:stop], is_open=True)) == _texts(whole)
    assert growing.lines(code) == CodeLines(language, LOOK, 40).lines(code)


def test_growing_code_highlights_its_last_lines_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    growing, seen = CodeLines("python", LOOK, 40), []
    plain = CodeLines._highlighted
    monkeypatch.setattr(CodeLines, "_highlighted", lambda self, code: seen.append(len(code)) or plain(self, code))
    for n in range(200):
        growing.lines("x = 1\n" * n, is_open=True)
    assert max(seen) < 40 * len("x = 1\n")


def _spans(lines: list[Line]) -> list[tuple[str, Style | None]]:
    return [(part.text, part.style) for line in lines for part in line]


def test_every_token_is_marked_by_where_it_came_from() -> None:
    body = TokenBody("Hello, wide\nworld", [5, 7, 12, 15], [Origin.PLAIN, Origin.MODEL, Origin.BONUS, Origin.LOOKUP])
    model, bonus, lookup = (origin_style(each, LOOK.palette) for each in (Origin.MODEL, Origin.BONUS, Origin.LOOKUP))
    expected = [("Hello", origin_style(Origin.PLAIN, LOOK.palette)), (", ", model), ("wide", bonus)]
    assert _spans(body.lines(40, LOOK)) == [*expected, ("wor", lookup), ("ld", _NONE)]


def test_tokens_may_run_ahead_of_the_text_and_may_be_empty() -> None:
    body = TokenBody("ab", [1, 1, 9], [Origin.MODEL, Origin.PLAIN, Origin.SUFFIX])
    assert [text for text, _ in _spans(body.lines(9, LOOK))] == ["a", "b"]
    assert _spans(body.lines(9, LOOK))[1][1] == origin_style(Origin.SUFFIX, LOOK.palette)


def test_a_token_that_ends_within_a_sign_does_not_tear_it() -> None:
    text = "a❤️b👩‍👩‍👧c"
    ends = list(range(1, len(text) + 1))
    rows = TokenBody(text, ends, [Origin.MODEL] * len(ends)).lines(40, LOOK)
    assert sum(cell_len(part.text) for part in rows[0]) == cell_len(text)


@settings(max_examples=100)
@given(st.text(max_size=80), st.lists(st.integers(0, 9), max_size=20), st.integers(2, 30))
def test_marked_text_is_the_text(text: str, lengths: list[int], width: int) -> None:
    ends = [sum(lengths[: n + 1]) for n in range(len(lengths))]
    lines = TokenBody(text, ends, [Origin.MODEL] * len(ends)).lines(width, LOOK)
    assert _words(_texts(lines)) == _words([shown(text.replace("\r", "\u240d"))])


def _text_style(style: Style) -> tuple[bool | None, ...]:
    return style.bold, style.italic, style.underline, style.dim, style.strike


@pytest.mark.parametrize("colours", Palette)
def test_origins_differ_without_any_colour(colours: Palette) -> None:
    styles = [_text_style(origin_style(origin, colours)) for origin in Origin]
    assert len({tuple(map(bool, style)) for style in styles}) == len(Origin)


def test_the_palette_without_colour_has_none() -> None:
    assert all(origin_style(origin, Palette.NONE).color is None for origin in Origin)


def test_the_legend_names_every_origin_in_its_look() -> None:
    text = legend(Palette.ANSI)
    assert [name.strip().replace("\u00a0", " ") for name in text.plain.split(" ")] == list(Origin)
    marked = {text.plain[span.start : span.end].strip().replace("\u00a0", " "): span.style for span in text.spans}
    assert marked == {origin: origin_style(origin, Palette.ANSI) for origin in Origin if origin != Origin.PLAIN}


def test_segments_are_never_control_codes() -> None:
    lines = [line for block in blocks_of(shown(_ODD + "\n\n```\n" + _ODD)) for line in BlockBody(block).lines(30, LOOK)]
    assert all(isinstance(part, Segment) and not part.control for line in lines for part in line)
