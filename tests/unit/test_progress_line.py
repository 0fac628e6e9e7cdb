"""The line that shows how far a long job is."""

import pytest

from app.terminal import bar, time_left


@pytest.mark.parametrize(
    ("done", "of", "filled"), [(0, 7, 0), (1, 24, 1), (5, 7, 17), (7, 7, 24), (2.5, 10, 6), (9, 8, 24)]
)
def test_a_bar_is_filled_by_what_is_done_and_never_runs_over(done: float, of: float, filled: int) -> None:
    assert bar(done, of) == "#" * filled + "." * (24 - filled)


def test_what_is_left_is_told_in_seconds_and_then_in_minutes() -> None:
    assert (time_left(0.4), time_left(90), time_left(91)) == ("0 s left", "90 s left", "2 min left")
