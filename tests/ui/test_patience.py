"""Whoever draws waits for the code of others for so long, and then does without."""

import threading
import time

import pytest

from app.ui import edit_colours
from app.ui.edit_colours import Colours
from app.ui.patience import at_most

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
