"""What is shown of an answer: a table for each rule, and what holds for all of them together."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.complete import tidy
from app.complete.place import CursorPosition, Windows, window
from app.complete.tidy import RULES, Around, shown

Row = tuple[str, str, str]
"""A document with the cursor, an answer, and what is left of it."""

COMPLETE_LINES = [
    ("|", "a = 1\nb = ", "a = 1"),
    ("|", "a = 1\nb = 2\n", "a = 1\nb = 2"),
    ("|", "a = ", "a = "),
    ("x:|", "\n    a = ", "\n    a = "),
    ("x:|", "\n    a = 1\n    b", "\n    a = 1"),
    ("|", "", ""),
]
ONE_LINE = [
    ("f(|x)", "a,\nb", "a,"),
    ("f(|x)", "a", "a"),
    ("f(|x)", "\nb", ""),
    ("f(|)", "a,\nb", "a,\nb"),
    ("f(|):", "a,\nb", "a,\nb"),
    ("s = '|';", "a\nb", "a\nb"),
    ("|\nx", "a\nb", "a\nb"),
    ("|   ", "a\nb", "a\nb"),
    ("| # why", "a\nb", "a"),
]
NO_LOOP = [
    ("|", "a\na\na\na", "a"),
    ("|", "a\na", "a\na"),
    ("|", "x\na\nb\na\nb\na", "x\na\nb"),
    ("|", "a\nb\na\nc", "a\nb\na\nc"),
    ("|", "\n\n\n\na", "\n\n\n\na"),
    ("|", "a\n\nb\n\nb\n\nb", "a\n\nb"),
    ("    |", "a\n    a\n    a", "a"),
    ("|", "a\nb\nc\na\nb\nc", "a\nb\nc"),
]
IN_SCOPE = [
    ("def f():\n    |", "return 1\n\ndef g():\n    pass", "return 1\n"),
    ("def f():\n    |", "x = 1\n    return x\nf()", "x = 1\n    return x"),
    ("def f():\n    |", "if x:\n        y()\n    return 1", "if x:\n        y()\n    return 1"),
    ("def f():|", "\n    return 1\n\ndef g():\n    pass", "\n    return 1\n"),
    ("if x:|", "\n    y()\nelse:\n    z()\nw()", "\n    y()\nelse:\n    z()"),
    ("f() {|", "\n  y();\n}\n\ng() {\n}", "\n  y();\n}\n"),
    ("f(|", "\n    a,\n    b,\n)\ng()", "\n    a,\n    b,\n)"),
    ("x = 1|", "\ny = 2\nz = 3", "\ny = 2\nz = 3"),
    ("\tif x:\n\t\t|", "y()\n\tz()", "y()"),
    ("\tif x:\n\t\t|", "y()\n\t\tz()", "y()\n\t\tz()"),
    ("def f():\n|", "    x = 1\n    return x\nf()", "    x = 1\n    return x"),
    ("def f():\n|", "\n    x = 1\nf()", "\n    x = 1"),
    ("    |", "\ndef g():", ""),
    ("|", "def f():\n    pass\n\ndef g():\n    pass", "def f():\n    pass\n"),
    ("    a|", "\n\n\n    b\n\nc", "\n\n\n    b\n"),
    ("do|", "\n  x\nend\ny", "\n  x\nend"),
    ("do|", "\n  x\nendpoint()", "\n  x"),
]
NO_FOLLOWING_LINES = [
    ("|\n    return x", "y = 1\n    return x\n    z", "y = 1"),
    ("|\n\n    return x", "y = 1\n    return x", "y = 1"),
    ("|\n  return x", "y = 1\n    return x", "y = 1\n    return x"),
    ("|\n}", "a\n}\nb", "a\n}\nb"),
    ("|\n}", "a\n}", "a"),
    ("|\n}\nelse", "a\n}\nelse\n", "a"),
    ("|", "a\nb", "a\nb"),
    ("|\nnumber", "number", "number"),
]
FRUIT = '[\n    "apple",\n    |\n    "cherry",\n    "date",\n    "elder",\n]'
NO_REPEATED_LINES = [
    (FRUIT, '"cherry",\n    "date",\n    "fig",', ""),
    (FRUIT, '"cherry",\n    "fig",', ""),
    (FRUIT, '"banana",\n    "cherry",\n    "date",\n    "fig",', '"banana",'),
    (FRUIT, '"banana",\n\n    "cherry",\n    "date",\n    "fig",', '"banana",\n'),
    (FRUIT, '"banana",\n    "date",\n    "elder",\n]\nmore = 1', '"banana",'),
    (FRUIT, '"banana",\n"cherry",\n"date",\n"elder",\n"fig",', '"banana",'),
    (FRUIT, '"banana",\n    "blackberry",', '"banana",\n    "blackberry",'),
    (FRUIT, '"elder",\n    "fig",', '"elder",\n    "fig",'),
    ('[\n    "ap|"\n    "cherry",\n]', 'ple",\n    "fig",', 'ple",\n    "fig",'),
    ("if a:\n    |\n}\n)", "x\n}\n)\ny", "x\n}\n)\ny"),
    ("@cached\ndef f():\n    pass\n\n|\n@cached\ndef g():", "@cached\ndef h():", "@cached\ndef h():"),
    ("|\n@cached\ndef g():", "@cached\ndef h():", "@cached\ndef h():"),
    ("print()\n|\nprint()", "print()\nprint(1)", "print()\nprint(1)"),
    ("return x\n|\n    return x", "if y:\n        return x", "if y:\n        return x"),
]
NO_REPEATED_REST = [
    ('["apple", |"cherry", "date"]', '"cherry", "date", "fig"]', ""),
    ('["apple", |"cherry", "date"]', '"banana", "cherry", "date", "fig"]', '"banana", '),
    ("f(|first, second, third)", "zero, first, second, third, fourth", "zero, "),
    ("f(|first, second)", "zero, ", "zero, "),
    ("f(|x)", "x, y, x", "x, y, x"),
    ("g(|) + h(b)", "f(a) + h(b)", "f(a) + h(b)"),
    ("|", "a", "a"),
]
NO_CLOSING = [
    ("f(|)", "a)", "a"),
    ("f(|)", "g(a)", "g(a)"),
    ("f(|)", "g(a))", "g(a)"),
    ("f(g(|)", "a))", "a)"),
    ("f(g(|))", "a))", "a"),
    ("f(|", "a)", "a)"),
    ("x = [|]", "1, 2]\ny = 3", "1, 2"),
    ('f("|")', 'a")', 'a"'),
    ("f(|)", '")"', '")"'),
    ("f(|);", "a);", "a"),
    ("f(a, |)", "b) + g(c)", "b"),
    ("{|}", "a: {b: 1}}", "a: {b: 1}"),
    (r'f("\"(\""|)', "a)", "a"),
]
NO_ECHO = [
    ("def f(|):", "a, b):", "a, b"),
    ("x = |  # why", "1  # why", "1  "),
    ("| = 5", "number = 5", "number "),
    ("|\n    y = 2\n    z", "x = 1\n    y = 2", "x = 1"),
    ("|\n    y = 2", "x = 1\n", "x = 1\n"),
    ("|\ny = 2", "x = 1\n", "x = 1"),
    ("|\n    x = 2", "return x", "return x"),
    ("f(|x)", "a, x", "a, "),
    ("f(|)", "g(a)", "g(a)"),
    ("f(g(|)", "a)", "a)"),
    ('print("hel|")', 'lo"', "lo"),
    ('"|"', "it's", "it's"),
    ("f() {|\n}", "\n  y;\n}", "\n  y;"),
    ("  f() {|\n}", "\n    y;\n  }", "\n    y;\n  }"),
    ("|lo()", "hello()", "hello()"),
    ("a|.b", "[0].b", "[0]"),
    ("g(|) + h(b)", "f(a) + h(b)", "f(a) + h(b)"),
    ("|.é = 1", "ñ.é = 1", "ñ"),
]
NO_REPEAT = [
    ("|\n    return x", "    return x", ""),
    ("    |\n    return x\n    y", "return x\n    y", ""),
    ("    |\n    return x", "return y", "return y"),
    ("    ret|\n    return x", "urn x", ""),
    ("x.add(1)\n|", "x.add(1)", ""),
    ("x.add(1)\nx.|", "add(1)", ""),
    ("x.add(1)\n|", "x.add(1)\nx.add(2)", "x.add(1)\nx.add(2)"),
    ("first = 1\nsecond = 2\n\n|", "first = 1\nsecond = 2", ""),
    ("  }\n|", "  }", "  }"),
    ("  return x\n|", "    return x", "    return x"),
    ("|", "a = 1", "a = 1"),
]
TRIMMED = [
    ("|", "a \n\n", "a"),
    ("f(|)", "a ", "a"),
    ("a|b", "c ", "c "),
    ("a|b", "c \n", "c "),
    ("f(|(x))", "a, ", "a, "),
    ("a| b", "c ", "c"),
    ("|", "  a", "  a"),
]
NOT_BLANK = [("|", " \n\t", ""), ("|", "", ""), ("|", " a", " a")]

TABLES = {
    tidy.complete_lines: COMPLETE_LINES,
    tidy.one_line: ONE_LINE,
    tidy.no_loop: NO_LOOP,
    tidy.in_scope: IN_SCOPE,
    tidy.no_following_lines: NO_FOLLOWING_LINES,
    tidy.no_repeated_lines: NO_REPEATED_LINES,
    tidy.no_repeated_rest: NO_REPEATED_REST,
    tidy.no_closing: NO_CLOSING,
    tidy.no_echo: NO_ECHO,
    tidy.no_repeat: NO_REPEAT,
    tidy.trimmed: TRIMMED,
    tidy.not_blank: NOT_BLANK,
}

TOGETHER = [
    (FRUIT, '"cherry",\n    "date",\n    "apple",\n    "cherry",\n    "date",\n    "apple",', ""),
    (FRUIT, '"banana",\n    "blueberry",\n    "cherry",\n    "date",\n    "fi', '"banana",\n    "blueberry",'),
    ("def f(a):\n    |\n\nf(1)", "return a\n\nf(1)\n", "return a"),
    ("    if x:|\n        y()\n", "\n        y()\n", ""),
    ("function f() {\n  |\n}\n", "return 1;\n}\n\nfunction g() {\n}\n", "return 1;"),
    ("print(|)\n", '"a", b)\nprint("c")\n', '"a", b'),
    ('print("hel|")', 'lo", "world")', 'lo", "world'),
    ("x = {\n    'a': 1,\n    |\n}", "'b': 2,\n}\n\ny = 1\n", "'b': 2,"),
    ("while True:\n    |", "a()\n    a()\n    a()\n    a()\n", "a()"),
    ("|", "\n\n   \n", ""),
    ("def f(|x):\n    pass", "a, ", "a, "),
    ("import |\nimport sys\n", "os\nimport sys\n", "os"),
]


def around(document: str) -> Around:
    prefix, suffix = document.split("|")
    return Around.of(window(CursorPosition.between("", prefix, suffix), Windows()))


def named(rows: dict[tidy.Rule, list[Row]]) -> list[pytest.param]:  # type: ignore[valid-type]
    return [
        pytest.param(rule, *row, id=f"{rule.__name__}-{number}")
        for rule, table in rows.items()
        for number, row in enumerate(table)
    ]


@pytest.mark.parametrize(("rule", "document", "answer", "left"), named(TABLES))
def test_each_rule(rule: tidy.Rule, document: str, answer: str, left: str) -> None:
    assert rule(answer, around(document)) == left


def test_no_rule_is_without_a_table() -> None:
    assert set(RULES) | {tidy.complete_lines} == set(TABLES)


@pytest.mark.parametrize(("document", "answer", "left"), TOGETHER)
def test_all_together(document: str, answer: str, left: str) -> None:
    assert tidy.tidy(answer, around(document)) == left


def test_a_last_line_is_dropped_only_where_a_limit_cut_it() -> None:
    nowhere = around("|")
    assert tidy.tidy("a = 1\nb = 2", nowhere, broken_off=True) == "a = 1"
    assert tidy.tidy("a = 1\nb = 2", nowhere) == "a = 1\nb = 2"


def test_a_line_that_was_cut_is_no_reason_to_keep_an_echo() -> None:
    assert tidy.tidy("x = 1\n    y = 2\n    yel", around("    |\n    y = 2\n    yellow()"), broken_off=True) == "x = 1"


CODE = st.text(alphabet="ab1 \n\t()[]{}'\",:;=#.é", max_size=40)


@given(CODE, CODE, CODE, st.booleans())
def test_a_rule_cuts_and_adds_nothing(prefix: str, suffix: str, answer: str, broken_off: bool) -> None:
    place = Around.of(window(CursorPosition.between("", prefix, suffix), Windows()))
    left = tidy.tidy(answer, place, broken_off=broken_off)
    assert answer.startswith(left)
    assert left == "" or left.strip()
    assert not (place.in_a_line and "\n" in left)
    for rule in TABLES:
        assert answer.startswith(rule(answer, place))


def test_a_long_answer_in_a_long_file_is_soon_tidied() -> None:
    lines = "".join(f"    call_{number % 7}(value_{number}, [{number}])\n" for number in range(400))
    assert tidy.tidy(lines[:4000], around(f"def f():\n{lines}    |\n{lines}"))


def test_a_cursor_in_a_long_string_of_json_is_soon_tidied() -> None:
    place = Around(r'x = f("{' + r"\"a\": {}, " * 6000, '")', (), ())
    begun = time.process_time()
    assert tidy.no_closing('2}")', place) == '2}"'
    assert time.process_time() - begun < 1


@pytest.mark.parametrize(
    ("behind", "said", "wanted"),
    [
        ("", "    x = 1", "    x = 1"),
        ("        ", "        return x", "return x"),
        ("        ", "        if x:\n            y()", "if x:\n            y()"),
        ("    ", "        x = 1", "    x = 1"),
        ("        ", "    def other(self):", ""),
        ("        ", "x", ""),
        ("        ", "\n    x = 1", ""),
        ("\t", "\tx", "x"),
        ("x = ", " 5", "5"),
        ("x = ", "5", "5"),
        ("x =", " 5", " 5"),
        ("a  ", "  b", "b"),
        ("def g():", " \n    pass", "\n    pass"),
        ("def g():", "\t\r\n    pass", "\n    pass"),
        ("def g():", "  # why\n    pass", "  # why\n    pass"),
        ("def g():", " ", ""),
    ],
)
def test_blanks_that_are_written_are_not_written_again(behind: str, said: str, wanted: str) -> None:
    around = Around(behind, "", ("class A:", "    def f(self, x):"), ())
    assert shown(said, around, broken_off=False) == wanted


def test_without_tidying_all_is_shown_but_the_blanks_that_are_there() -> None:
    around = Around("        ", "", (), ())
    assert shown("    def f():\n\n", around, broken_off=True, tidies=False) == "def f():\n\n"
    assert shown("        x  \r\n", around, broken_off=True, tidies=False) == "x  \n"
    assert shown(" \n x", Around("a", "", (), ()), broken_off=True, tidies=False) == " \n x"
