"""An answer that is cut into blocks while it is said comes out as when it is read as a whole."""

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.style import Style

from app.ui.drawing.marks import Marks
from app.ui.drawing.origin_styles import Palette
from app.ui.transcript.blocks import Block, Growing, blocks_of, code_blocks_of
from app.ui.transcript.entries import Answer
from app.ui.transcript.look import Look
from models.text.thoughts import divided

LOOK = Look(Palette.DARK, "github-dark", " ", *(Style.null(),) * 11)
_PARTS = (
    *("word", " ", "\n", "\n\n", "\n\n\n", "    ", "  ", "\t", "- ", "* ", "1. ", "2) ", "- - -", "---", "===", "> "),
    *("# ", "## x\n", "```", "```py\n", "~~~\n", "`", "``", "a | b\n", "-|-\n", "|", "[x]: http://y\n", "[x][x]", "**"),
    *("<div>\n", "&amp;", "\\", "!", "-\n", "é", "日本", "def f():\n    return 1\n"),
)
_texts = st.lists(st.sampled_from(_PARTS), max_size=40).map("".join)


def _closed(blocks: list[Block]) -> list[Block]:
    return [Block(b.source, b.code, b.language, b.number, b.follows, False, b.too_deep) for b in blocks]


@settings(max_examples=400, deadline=None)
@given(_texts, st.data())
def test_what_was_said_so_far_is_cut_as_a_whole_would_be(text: str, data: st.DataObject) -> None:
    growing, certain, at = Growing(), [], 0
    while at < len(text):
        step = data.draw(st.integers(1, 12))
        growing.feed(text[at : at + step])
        at += step
        done, still = growing.take()
        certain += done
        assert _closed([*certain, *still]) == blocks_of(text[:at])


def test_an_item_that_would_be_a_table_by_itself_stays_an_item() -> None:
    growing = Growing()
    growing.feed("-\n- a | b\n-|-\n")
    certain, _ = growing.take()
    growing.feed("word")
    done, still = growing.take()
    assert _closed([*certain, *done, *still]) == blocks_of("-\n- a | b\n-|-\nword")


def test_blocks_become_certain_while_an_answer_grows() -> None:
    growing = Growing()
    growing.feed("One.\n\nTwo.\nStill two.\n\n- a\n- b\n  more\n- c\nd")
    done, still = growing.take()
    assert [block.source for block in done] == ["One.", "Two.\nStill two.", "- a", "- b\n  more"][: len(done)]
    assert len(done) == 3
    assert not growing.take()[0]
    assert still[-1].source == "- c\nd"


def test_items_of_a_list_are_blocks_with_their_own_numbers() -> None:
    blocks = blocks_of("3. a\n3. b\n\n3. c")
    assert [(block.number, block.follows) for block in blocks] == [(3, False), (4, True), (5, True)]


def test_numbers_go_on_when_the_list_is_cut() -> None:
    growing = Growing()
    numbers = []
    for line in ["1. a\n", "1. b\n", "1. c\n", "1. d\n", "1. e\n"]:
        growing.feed(line)
        done, still = growing.take()
        numbers += [block.number for block in done]
    assert [*numbers, *(block.number for block in still)] == [1, 2, 3, 4, 5]


def test_code_blocks_are_exact_wherever_they_are() -> None:
    text = "```py\na  = 1\n\n\tb\n```\n\n- x\n  ~~~\n  <i>\n  ~~~\n\n> ```\n> q\n> ```\n\n    four\n"
    assert code_blocks_of(text) == ["a  = 1\n\n\tb", "<i>", "q", "four"]


def test_a_line_end_in_two_parts_is_one() -> None:
    answer = Answer(1)
    for part in ("a\r", "\nb\r", "c"):
        answer.append(part, (), ())
        (piece,) = answer.pieces(marks=Marks.OFF, thoughts=False)
    assert piece.body.block.source == "a\nb\u240dc"


def test_an_open_fence_is_code_already() -> None:
    growing = Growing()
    growing.feed("```python\nx = 1\n")
    _, (block,) = growing.take()
    assert (block.code, block.language, block.is_open) == ("x = 1\n", "python", True)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["", "<think>", "<think>\n"]),
    st.lists(st.sampled_from([*_PARTS, "\r\n", "\r", "\x1b[31m", "</think>", "</thi"]), max_size=25),
    st.sampled_from(Marks),
    st.booleans(),
)
def test_a_finished_answer_has_the_pieces_of_a_whole_one(
    begun: str, parts: list[str], marks: Marks, thoughts: bool
) -> None:
    growing, whole, parts = Answer(1), Answer(1), [begun, *parts]
    for part in parts:
        growing.append(part, (), ())
        growing.pieces(marks=marks, thoughts=thoughts)
    growing.finish("")
    whole.append("".join(parts), (), ())
    whole.finish("")
    assert growing.text == whole.text == "".join(parts)
    assert growing.body == whole.body == divided(whole.text).answer
    for form, wanted in product(Marks, (False, True)):
        mine, other = growing.pieces(marks=form, thoughts=wanted), whole.pieces(marks=form, thoughts=wanted)
        assert [piece.above for piece in mine] == [piece.above for piece in other]
        assert [piece.body.lines(60, LOOK) for piece in mine] == [piece.body.lines(60, LOOK) for piece in other]
