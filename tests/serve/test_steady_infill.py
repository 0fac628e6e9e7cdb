"""Lines written in an editor that asks `/infill`, as llama.vim does: what is read of each prompt."""

from pathlib import Path
from typing import Any

import pytest
from serving import Served, served

FILE = [f"n = {number}\n" for number in range(90)]
WINDOW, BELOW = 40, 10


def write(server: Served, row: int, lines: int, **more: Any) -> list[dict[str, Any]]:
    """Write lines from a row on, and ask in each new one; return the replies."""
    text, replies = FILE[:], []
    for place in range(row, row + lines):
        asked = {
            "input_prefix": "".join(text[max(0, place - WINDOW) : place]),
            "input_suffix": "\n" + "".join(text[place : place + BELOW]),
            "prompt": "ne",
        }
        replies.append(server.post("/infill", **asked, n_predict=4, **more))
        text.insert(place, f"new = {place}\n")
    return replies


def read_by(replies: list[dict[str, Any]]) -> list[int]:
    return [reply["timings"]["prompt_n"] for reply in replies]


@pytest.mark.parametrize("row", [20, 60])
def test_a_client_that_wants_its_prompt_kept_has_new_lines_read_alone(tmp_path: Path, row: int) -> None:
    longest = len("new = 99\nne")
    with served(tmp_path, "toy-fim", "-c", "4096") as server:
        first, second, *later = read_by(write(server, row, 12, cache_prompt=True))
        # Where the window slides, the second request shows it, and begins at another line.
        assert (second <= longest) == (row < WINDOW)
        assert all(number <= longest for number in later)
        assert first > 10 * longest


@pytest.mark.parametrize("more", [{}, {"cache_prompt": False}])
def test_others_are_asked_as_they_ask(tmp_path: Path, more: dict[str, Any]) -> None:
    with served(tmp_path, "toy-fim", "-c", "4096") as server:
        replies = write(server, 20, 3, **more)
        assert all(number > len("".join(FILE[:BELOW])) for number in read_by(replies))


def test_the_answer_is_that_to_the_text_in_its_new_place(tmp_path: Path) -> None:
    with served(tmp_path, "toy-fim", "-c", "4096") as server:
        last = write(server, 20, 3, cache_prompt=True)[-1]
        hole = {"input_prefix": "".join(FILE[:20]), "input_suffix": "\n" + "".join(FILE[20 : 20 + BELOW])}
        anew = server.post("/infill", **hole, prompt="new = 20\nnew = 21\nne", n_predict=4)
        assert last["content"] == anew["content"]
        assert last["tokens_evaluated"] == anew["tokens_evaluated"]


def test_a_wish_that_is_none_is_refused(tmp_path: Path) -> None:
    with served(tmp_path, "toy-fim") as server:
        status, error = server.refused("/infill", input_prefix="a", input_suffix="b", cache_prompt="yes")
        assert (status, error["param"]) == (400, "cache_prompt")
