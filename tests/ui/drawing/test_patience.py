"""Drawing waits for library code up to a limit, and then does without it."""

import threading
import time

import pytest
from rich.segment import Segment
from rich.style import Style

from app.ui.drawing.origin_styles import Palette
from app.ui.drawing.patience import at_most
from app.ui.editor import colours as edit_colours
from app.ui.editor.colours import Colours
from app.ui.transcript import code_lines
from app.ui.transcript.code_lines import CodeLines
from app.ui.transcript.look import Look

LOOK = Look(Palette.DARK, "github-dark", " ", *(Style.null(),) * 11)
OPTIONS = "".join(rf"\033[1m-{letter}\033[0m " for letter in "abcdef")
FISH = ["function usage", f'    echo -e "{OPTIONS}$argv[1]"', "end"]
"""For each escape of the string Pygments' lexer takes four times as long."""


def test_colours_that_would_take_for_ever_are_none_after_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edit_colours, "_PATIENCE", 0.2)
    colours, begun = Colours("a.fish"), time.thread_time()
    assert [bool(colours.of(row, FISH)) for row in range(3)] == [True, False, False]
    colours.edited(1)
    assert colours.of(0, FISH) == []
    assert time.thread_time() - begun < 2


def test_a_block_that_would_take_for_ever_is_shown_without_colours_and_so_are_others_of_its_language(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(code_lines, "_PATIENCE", 0.2)
    monkeypatch.setattr(code_lines, "_TOO_SLOW", set())
    begun = time.thread_time()
    plain = [segments(language, "echo $x") for language in ("fish", "")]
    assert plain[0] != plain[1]
    assert segments("fish", FISH[1]) == segments("", FISH[1])
    assert segments("fish", "echo $x") == plain[1]
    assert time.thread_time() - begun < 2


def segments(language: str, code: str) -> list[list[Segment]]:
    return [list(line) for line in CodeLines(language, LOOK, 40).lines(code)[1:]]


def work(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_what_is_done_in_time_is_not_disturbed_and_neither_is_what_comes_after_it() -> None:
    with at_most(0.1):
        pass
    work(0.3)
    with pytest.raises(TimeoutError), at_most(0.1):
        work(5)
    work(0.3)


def test_beside_the_main_thread_there_is_no_bound() -> None:
    done: list[bool] = []

    def patient() -> None:
        with at_most(0.0):
            work(0.2)
            done.append(True)

    thread = threading.Thread(target=patient)
    thread.start()
    thread.join()
    assert done == [True]
