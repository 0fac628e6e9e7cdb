"""What an editor asks line by line: the prompt stays, and says what the editor said."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.serve.requests.prompt_reuse import PromptReuse
from models.base import common_prefix
from models.text.fim import Chunk, Infill

FILE = [f"line {number} = {number % 7}\n" for number in range(400)]
WINDOW, BELOW = 100, 20
MOST = 2000
OTHERS = (Chunk("b.py", "def other(): ..."),)
Pair = tuple[Infill, Infill]
"""What was asked, and how it was put."""


def above(lines: list[str], row: int) -> str:
    """Return the window above a row."""
    return "".join(lines[max(0, row - WINDOW) : row])


def infill_at(row: int, lines: list[str], begun: str = "", chunks: tuple[Chunk, ...] = ()) -> Infill:
    """Return what an editor asks in a row: a window of the lines above, and of those below."""
    return Infill(above(lines, row), "\n" + "".join(lines[row + 1 : row + 1 + BELOW]), chunks=chunks, begun=begun)


def said(infill: Infill) -> str:
    return infill.prefix + infill.begun


def read_again(pairs: list[Pair]) -> list[int]:
    """Return how much of each prompt is not the beginning of that before it."""
    texts = [f"{put.prefix}<hole>{put.suffix}<middle>{put.begun}".encode() for _, put in pairs]
    return [len(text) - common_prefix(text, before) for before, text in pairwise(texts)]


class Editor:
    """Asks with each line that is written, and then as if lines to come were accepted, as the editors' plug-ins do."""

    def __init__(self, prompt_reuse: PromptReuse, row: int, client: str = "one", lines: list[str] = FILE) -> None:
        self.row, self.lines = row, [*lines[:row], "", *lines[row:]]
        self._reuse, self._client = prompt_reuse, client
        self._written = 0

    def write(self, lines: int, ahead: int | None = None, *, comes_true: bool = False) -> list[Pair]:
        """Write so many lines, and ask for each."""
        pairs: list[Pair] = []
        for number in range(self._written, self._written + lines):
            pairs.append(self.ask(f"new {number}"))
            if ahead is not None:
                word = "new" if comes_true else f"guess {number}"
                pairs.append(self._ask_ahead([f"{word} {number + place} = written\n" for place in range(ahead)]))
            self.lines[self.row : self.row + 1] = [f"new {number} = written\n", ""]
            self.row += 1
        self._written += lines
        return pairs

    def ask(self, begun: str) -> Pair:
        """Ask in the current row."""
        return self._put(infill_at(self.row, self.lines, begun=begun))

    def _ask_ahead(self, accepted: list[str]) -> Pair:
        row = self.row + len(accepted)
        window = above([*self.lines[: self.row], *accepted], row)
        return self._put(replace(infill_at(self.row, self.lines, begun="more"), prefix=window))

    def _put(self, asked: Infill) -> Pair:
        return asked, self._reuse.infill(self._client, asked, MOST)


def is_sound(asked: Infill, put: Infill) -> bool:
    """Tell whether it is the text that was asked about, but for a quarter at its top."""
    left_out = len(said(asked)) - len(said(put))
    return (
        said(asked).endswith(said(put))
        and (put.suffix, put.chunks) == (asked.suffix, asked.chunks)
        and 4 * left_out <= len(asked.prefix)
        and 4 * asked.prefix[:left_out].count("\n") <= asked.prefix.count("\n")
    )


def test_lines_that_are_written_begin_the_middle_and_the_prompt_stays() -> None:
    for asked, put in Editor(PromptReuse(), 50).write(20):
        assert said(put) == said(asked)
        assert (put.prefix, put.suffix) == ("".join(FILE[:50]), asked.suffix)


def test_lines_that_are_written_where_the_window_slides_let_it_begin_anew_once_in_a_quarter() -> None:
    pairs = Editor(PromptReuse(), 300).write(60)
    assert all(is_sound(*pair) for pair in pairs)
    # The second shows that it slides, and leaves lines out; 100 lines have room for 25.
    assert sum(one.prefix != other.prefix for (_, one), (_, other) in pairwise(pairs)) <= 1 + 60 // 25


@pytest.mark.parametrize("row", [40, 300])
@pytest.mark.parametrize("comes_true", [False, True])
@pytest.mark.parametrize("ahead", [0, 1, 3, 8])
def test_what_is_asked_ahead_moves_nothing(row: int, ahead: int, *, comes_true: bool) -> None:
    pairs = Editor(PromptReuse(), row).write(45, ahead, comes_true=comes_true)
    assert all(is_sound(*pair) and "guess" not in pair[1].prefix for pair in pairs)
    newest = (ahead + 2) * len("guess 44 52 = written\n")
    moved = [number for number, length in enumerate(read_again(pairs)) if length > newest]
    # In a short file once, where the middle is full. In a long one at the second, and after each quarter of a window.
    assert len(moved) <= (1 if row < WINDOW else 2 + 45 // (25 - ahead))


@pytest.mark.parametrize("step", [1, -1, 3, -3])
def test_a_cursor_that_moves_through_a_long_file_lets_the_prefix_begin_at_one_line_for_long(step: int) -> None:
    prompt_reuse = PromptReuse()
    asked = [infill_at(row, FILE) for row in range(250, 250 + 40 * step, step)]
    put = [prompt_reuse.infill("one", infill, MOST) for infill in asked]
    assert all(map(is_sound, asked, put))
    tops = [said(infill).split("\n", 1)[0] for infill in put]
    assert sum(one != next_one for one, next_one in pairwise(tops)) <= 3 + 40 * abs(step) // 25


def test_a_file_that_fits_its_window_is_never_cut() -> None:
    prompt_reuse = PromptReuse()
    for row in [*range(1, WINDOW), *range(WINDOW, 1, -1)]:
        assert said(prompt_reuse.infill("one", infill_at(row, FILE), MOST)) == "".join(FILE[:row])


def test_back_at_the_top_of_a_long_file_it_is_whole_again() -> None:
    prompt_reuse = PromptReuse()
    for row in range(150, 20, -1):
        put = prompt_reuse.infill("one", infill_at(row, FILE), MOST)
    assert said(put) == "".join(FILE[:21])


IMPORTS = ["import os\n", "import re\n", "import sys\n", "\n"]


@pytest.mark.parametrize("edited", [["import abc\n", *IMPORTS], IMPORTS[1:]])
@pytest.mark.parametrize("moved", [-1, 0, 1])
@pytest.mark.parametrize("slid", [False, True])
def test_where_lines_are_added_or_deleted_at_the_top_of_a_file_it_is_whole(
    edited: list[str], moved: int, *, slid: bool
) -> None:
    prompt_reuse = PromptReuse()
    if slid:
        Editor(prompt_reuse, 300).write(5)
    before = Infill("".join([*IMPORTS, *FILE[:40]]), FILE[40], begun="abc.")
    written = [[*edited, *FILE[: 40 + moved], *["new\n"] * number] for number in range(5)]
    after = [Infill("".join(lines), FILE[40 + moved], begun="abc.") for lines in written]
    for asked in (before, *after, before, *reversed(after)):
        assert said(prompt_reuse.infill("one", asked, MOST)) == said(asked)


def test_of_long_lines_at_the_top_no_more_than_a_quarter_of_the_text_is_left_out() -> None:
    lines = [f"{number} {'x' * 2000 if number < 210 else ''}\n" for number in range(400)]
    assert all(is_sound(*pair) for pair in Editor(PromptReuse(), 300, lines=lines).write(60))


@pytest.mark.parametrize("change", [{"chunks": OTHERS}, {"suffix": "\nelse\n"}])
def test_with_something_else_around_it_is_put_as_it_is_asked(change: dict[str, object]) -> None:
    prompt_reuse = PromptReuse()
    prompt_reuse.infill("one", infill_at(50, FILE), MOST)
    asked = replace(infill_at(60, FILE), **change)
    assert prompt_reuse.infill("one", asked, MOST) == asked


def test_what_is_too_long_to_begin_the_middle_is_prefix() -> None:
    prompt_reuse = PromptReuse()
    first = Infill("def one():\n" * 200, "\n")
    prompt_reuse.infill("one", first, MOST)
    for length, put in ((MOST, replace(first, begun="x" * MOST)), (MOST + 1, None)):
        asked = Infill(first.prefix + "x" * length, "\n")
        assert prompt_reuse.infill("one", asked, MOST) == (put or asked)


def test_a_file_that_begins_like_another_is_not_put_as_its_continuation() -> None:
    prompt_reuse = PromptReuse()
    prompt_reuse.infill("one", Infill("import os\n", "\n\n"), MOST)
    asked = Infill("import os\n" + "".join(FILE[:50]), "\n\n", begun="x")
    assert prompt_reuse.infill("one", asked, MOST) == asked


def test_several_files_by_turns_stay_each_where_it_was() -> None:
    prompt_reuse = PromptReuse()
    files = [Editor(prompt_reuse, 50, lines=[f"{name} {line}" for line in FILE]) for name in "abcd"]
    for _ in range(3):
        for editor in files:
            for asked, put in editor.write(2, 3):
                assert put.prefix == "".join(editor.lines[:50])
                assert said(put) == said(asked)


@pytest.mark.parametrize("apart", [0, 20, 80])
def test_nobodys_prompts_depend_on_who_else_asks(apart: int) -> None:
    shared = PromptReuse()
    editors = [Editor(shared, 200 + place * apart, f"{place}") for place in range(2)]
    alone = [Editor(PromptReuse(), 200 + place * apart) for place in range(2)]
    for _ in range(30):
        for one, same in zip(editors, alone, strict=True):
            assert one.write(1, 3) == same.write(1, 3)


def test_of_many_clients_the_last_are_remembered() -> None:
    prompt_reuse = PromptReuse()
    first, *others = [Editor(prompt_reuse, 50, f"{number}") for number in range(16)]
    for editor in (first, *others, first):
        editor.write(1)
    Editor(prompt_reuse, 50, "another").write(1)
    for editor, is_known in ((first, True), (others[0], False)):
        ((_, put),) = editor.write(1)
        assert (put.prefix == "".join(FILE[:50])) == is_known


@pytest.mark.parametrize("text", ["", "\n", "\n" * 1000, "x" * 300_000, "a\n" * 140_000, "no end of line"])
def test_odd_texts_are_put_as_they_are_asked(text: str) -> None:
    prompt_reuse = PromptReuse()
    for suffix in "ab":
        assert said(prompt_reuse.infill("one", Infill(text, suffix), MOST)) == text


LINES = st.lists(st.sampled_from(["a\n", "b\n", "\n", "long line of code\n"]), max_size=12).map("".join)
WINDOWS = st.builds(lambda text, top: text[top : top + 40], st.just("a\n\nb\nlong\n\n" * 20), st.integers(0, 100))
INFILLS = st.builds(Infill, LINES | WINDOWS, st.just("\n"), begun=st.text(max_size=3))


@given(asked=st.lists(INFILLS))
def test_it_never_says_what_was_not_asked(asked: list[Infill]) -> None:
    prompt_reuse = PromptReuse()
    for infill in asked:
        put = prompt_reuse.infill("one", infill, 20)
        assert is_sound(infill, put)
        assert len(put.begun.encode()) <= max(20, len(infill.begun.encode()))
