"""The line that shows how far a long job is."""

import io
import os
import sys

import pytest

from app.shell.terminal import Terminal, bar, time_left


class _Screen(io.StringIO):
    """A stderr that is a terminal."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2


@pytest.mark.parametrize(
    ("done", "of", "filled"), [(0, 7, 0), (1, 24, 1), (5, 7, 17), (7, 7, 24), (2.5, 10, 6), (9, 8, 24)]
)
def test_a_bar_is_filled_by_what_is_done_and_never_runs_over(done: float, of: float, filled: int) -> None:
    assert bar(done, of) == "#" * filled + "." * (24 - filled)


def test_what_is_left_is_told_in_seconds_and_then_in_minutes() -> None:
    assert (time_left(0.4), time_left(90), time_left(91)) == ("0 s left", "90 s left", "2 min left")


def test_what_is_done_between_reading_and_readiness_has_no_share(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = _Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    Terminal().loading("big: measuring", None)
    assert screen.getvalue().endswith("big: measuring")


@pytest.mark.parametrize(
    ("columns", "shown"),
    [(20, "loading 模型-1.5..."), (31, "loading 模型-1.5b-instruct ..."), (32, "loading 模型-1.5b-instruct  45%")],
)
def test_a_line_is_never_as_long_as_its_terminal(columns: int, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes on in the next line is not taken back: each step of a load would leave a line behind."""
    # Exported by some shells, and no longer true where the terminal has changed since.
    monkeypatch.setenv("COLUMNS", "200")
    assert _shown("loading 模型-1.5b-instruct  45%", columns, monkeypatch) == shown


def test_a_terminal_that_does_not_say_how_wide_it_is_has_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _shown("." * 79, 0, monkeypatch) == "." * 79
    assert len(_shown("." * 80, 0, monkeypatch)) == 79


def _shown(text: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what is shown of a progress line on a terminal with so many columns."""
    screen = _Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm-256color")
    sizes = {screen.fileno(): os.terminal_size((columns, 24))}
    monkeypatch.setattr(os, "get_terminal_size", sizes.__getitem__)
    Terminal().progress(text)
    return screen.getvalue().removeprefix("\r\x1b[K")
