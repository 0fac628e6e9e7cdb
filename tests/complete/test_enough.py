"""An answer that is stopped as soon as enough was said: the same is shown as of all of it, whatever else comes."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.complete.enough import is_enough
from app.complete.place import CursorPosition, Windows, window
from app.complete.tidy import Around, shown

CODE = "|a|b()|x = 1|return x|    a|    b()|    return x|        y|}|    }|)|b)|f(a|else:|    else|els|end|done()"
ODD = "</p>|<|  |\t|\ta|it's)|`)|`|'|\"a)\"|é\r|\ufffd|    a\ufffd"
LINES = st.sampled_from([*CODE.split("|"), *ODD.split("|")])
ENDS = st.sampled_from(["\n", "\n", "\n", "\r\n"])
BLANKS = st.sampled_from(["", "", " ", "    ", "        ", "\t"])
LOOSE = st.text(alphabet="ab \n\r\t()]}'\"`:<el\ufffd", max_size=24)


@st.composite
def texts(draw: st.DrawFn, most: int = 7) -> str:
    lines = draw(st.lists(LINES, max_size=most))
    again = draw(st.sampled_from([1, 1, 1, 2, 3]))
    return draw(BLANKS) + "".join(line + draw(ENDS) for line in lines * again) + draw(LINES)


TEXTS = texts() | LOOSE
BEHIND = st.sampled_from(["", "", "    ", "  ", "def f():", "x = ", "    if a:", "f(", "    f(g(", "a", "\t", "{`"])
AHEAD = st.sampled_from(["", "", "", ")", "))", "):", " # why", "}", '")', "`"])


def around(behind: str, ahead: str, above: str = "", below: str = "") -> Around:
    prefix = f"{above}\n{behind}" if above else behind
    return Around.of(window(CursorPosition.between("", prefix, ahead + "\n" + below), Windows()))


def settled(said: str, place: Around) -> int | None:
    """Return after how many characters enough is said; None: never."""
    return next((size for size in range(len(said) + 1) if is_enough(said[:size], place)), None)


@settings(max_examples=250, deadline=None)
@given(BEHIND, AHEAD, texts(3), texts(3), TEXTS, st.data())
def test_what_is_shown_does_not_depend_on_when_it_was_enough(
    behind: str, ahead: str, above: str, below: str, said: str, data: st.DataObject
) -> None:
    place = around(behind, ahead, above, below)
    pieces = sorted(data.draw(st.sets(st.integers(0, len(said)), max_size=8), label="pieces"))
    for size in (*pieces, len(said)):
        if is_enough(said[:size], place):
            stopped = shown(said[:size], place, broken_off=False)
            assert stopped == shown(said, place, broken_off=False)
            assert stopped == shown(said, place, broken_off=True)
            return


ITEMS = st.sampled_from(
    ['    "apple",', '    "banana",', '    "cherry",', '    "elder",', '"elder",', "    @cached", "]", ""]
)
LISTS = st.lists(ITEMS, max_size=7).map("\n".join)


@settings(max_examples=250, deadline=None)
@given(st.sampled_from(["", "    ", "items = ["]), LISTS, LISTS, LISTS, LISTS)
@example("items = [", "", ']\n    "apple",\n    "apple",\n]', "", '    "apple",\n    "apple",\n]\n    "banana",')
@example("items = [", "", '    "banana",' + 3 * '\n    "apple",', 3 * '    "apple",\n' + '\n    "apple",', "")
def test_lines_that_follow_end_an_answer_at_the_same_place_however_it_goes_on(
    behind: str, above: str, below: str, said: str, more: str
) -> None:
    place = around(behind, "", above, below)
    whole = f"{said}\n{more}"
    if (size := settled(whole, place)) is not None:
        stopped = shown(whole[:size], place, broken_off=False)
        for broken_off in (False, True):
            assert shown(whole, place, broken_off=broken_off) == stopped


def test_an_answer_that_repeats_what_follows_is_enough_with_the_lines_that_tell() -> None:
    place = around("    ", "", "[", '    "cherry",\n    "date",\n    "elder",\n]')
    assert is_enough('    "cherry",\n', place)
    assert is_enough('    "banana",\n    "cherry",\n    "date",\n', place)
    assert is_enough('    "banana",\n    "date",\n    "elder",\n]\n', place)
    assert not is_enough('    "banana",\n    "date",\n    "elder",\n', place)
    assert not is_enough('    "banana",\n    "blackberry",\n', place)


@settings(max_examples=150, deadline=None)
@given(BEHIND, AHEAD, texts(3), texts(3), TEXTS, st.lists(TEXTS, min_size=1, max_size=6))
@example("", "", "", "", " \na", ["a"])
def test_enough_is_enough_however_it_goes_on(
    behind: str, ahead: str, above: str, below: str, said: str, more: list[str]
) -> None:
    place = around(behind, ahead, above, below)
    if (size := settled(said, place)) is not None:
        stopped = shown(said[:size], place, broken_off=False)
        for rest in more:
            for broken_off in (False, True):
                assert shown(said[:size] + rest, place, broken_off=broken_off) == stopped
            assert is_enough(said[:size] + rest, place)


STOPS = [
    ("def f(a):\n    |\n\nf(1)", "    return a\n\nd", "ef g():\n"),
    ("def f():|", "\n    return 1\n\nde", "f g():\n    pass"),
    ("f() {|", "\n  y();\n}\n\ng", "() {\n}"),
    ("if x:|", "\n    y()\nelse:\n    z()\nw", "()"),
    ("    |", "\nd", "ef g():"),
    ("        |", "  d", "ef other(self):"),
    ("|\n    return x", "y = 1\n    return x\n", "    z"),
    ("print(|)\n", '"a", b)\n', 'print("c")\n'),
    ("f(|x)", "a,\n", "b"),
    ("|", "a\nb\na\nb\n", "a"),
    ("|", "x\na\na\na\n", "a"),
    ("while True:\n    |", "    a()\n    a()\n    a()\n", "    a()"),
]
"""A document with the cursor, what is enough, and what is not waited for."""
GOES_ON = [
    ("|", "a = 1\nb = 2\nc = 3\n"),
    ("|", "a\na\n"),
    ("if x:|", "\n    y()\nels"),
    ("if x:|", "\n    y()\nelse"),
    ("p|", "\n  y\n<"),
    ("|\n}", "a\n}\n"),
    ("f(|)", "a)"),
    ("f(|)", "`a)\n"),
    ("f(|)\n}\nx)", "a\n}\nx)\n"),
    ("        |", "  "),
    ("f(|x)", "a"),
    ("|\n    return x", "y = 1\n    return x"),
    ("def f():\n    |", "\n\n"),
]
"""A document with the cursor, and what may be shown otherwise when more is said."""


def at(document: str) -> Around:
    prefix, suffix = document.split("|")
    return Around.of(window(CursorPosition.between("", prefix, suffix), Windows()))


@pytest.mark.parametrize(("document", "enough", "rest"), STOPS)
def test_it_is_enough_at_the_first_sign(document: str, enough: str, rest: str) -> None:
    assert settled(enough + rest, at(document)) == len(enough)


@pytest.mark.parametrize(("document", "said"), GOES_ON)
def test_it_is_not_enough_while_it_may_be_shown_otherwise(document: str, said: str) -> None:
    assert settled(said, at(document)) is None
