"""Lines written in an editor that asks `/infill`, as llama.vim does: what is read of each prompt."""

from pathlib import Path
from typing import Any

import pytest
from serving import Served, served

FILE = [f"n = {number}\n" for number in range(90)]
WINDOW, BELOW = 40, 10


def ask(server: Served, lines: list[str], row: int, **more: Any) -> dict[str, Any]:
    """Ask in a row that is being written, before those that are below it."""
    window = "".join(lines[max(0, row - WINDOW) : row])
    return dict(server.post("/infill", **{"input_prefix": window, "prompt": "ne", "n_predict": 4, **more}))


def write(server: Served, row: int, lines: int, ahead: int | None = None, **more: Any) -> list[dict[str, Any]]:
    """Write lines from a row on, and ask in each new one, then as if so many were accepted; return the replies."""
    text, replies = FILE[:], []
    for place in range(row, row + lines):
        asked = {**more, "input_suffix": "\n" + "".join(text[place : place + BELOW])}
        replies.append(ask(server, text, place, **asked))
        if ahead is not None:
            proposed = [f"guess {place} {number}\n" for number in range(ahead)]
            replies.append(ask(server, [*text[:place], *proposed], place + ahead, **asked))
        text.insert(place, f"new = {place}\n")
    return replies


def read_by(replies: list[dict[str, Any]]) -> list[int]:
    return [reply["timings"]["prompt_n"] for reply in replies]


@pytest.mark.parametrize("row", [20, 60])
def test_a_client_that_wants_its_prompt_kept_has_new_lines_read_alone(tmp_path: Path, row: int) -> None:
    longest = len("new = 99\nne")
    with served(tmp_path, "toy-fim", "-c", "4096") as server:
        first, second, *later = read_by(write(server, row, 11, cache_prompt=True))
        # Where the window slides, the second request shows it, and begins at another line.
        assert (second <= longest) == (row < WINDOW)
        assert all(number <= longest for number in later)
        assert first > 10 * longest


@pytest.mark.parametrize("row", [20, 60])
@pytest.mark.parametrize("ahead", [1, 3])
@pytest.mark.parametrize("slots", ["1", "2"])
def test_what_is_asked_ahead_has_nothing_else_read_again(tmp_path: Path, row: int, ahead: int, slots: str) -> None:
    longest = (ahead + 1) * len("guess 99 9\n") + len("new = 99\nne")
    with served(tmp_path, "toy-fim", "-c", "4096", "-np", slots) as server:
        replies = write(server, row, 7, ahead, cache_prompt=True)
        # Where the window slides, the second shows it; for the third, what is below is read again.
        assert max(read_by(replies)[3 if row > WINDOW else 1 :]) <= longest
        around = "".join(FILE[max(0, row - WINDOW * 3 // 4) : row + BELOW])
        assert all(reply["tokens_evaluated"] > len(around) for reply in replies)


def test_who_asks_where_another_wrote_is_asked_as_it_asks(tmp_path: Path) -> None:
    below = "\n" + "".join(FILE[30 : 30 + BELOW])
    with served(tmp_path, "toy-fim", "-c", "4096") as server:
        read = []
        for client, row in (("one", 20), ("another", 25), ("another", 26)):
            server.client.headers["User-Agent"] = client
            reply = ask(server, FILE, row, input_suffix=below, cache_prompt=True)
            read.append(reply["timings"]["prompt_n"])
    assert read[1] > len(below) > read[2]


def test_what_is_refused_is_not_remembered(tmp_path: Path) -> None:
    infill = {"input_prefix": "".join(FILE[:20]), "input_suffix": "\n", "cache_prompt": True}
    with served(tmp_path, "toy-fim", "-c", "4096") as server:
        for wrong in ({"n_indent": "deep"}, {"response_fields": [5]}, {"top_k": "many"}):
            assert server.refused("/infill", **infill, **wrong)[0] == 400
        assert not server.service.prompt_reuse._clients


@pytest.mark.parametrize("more", [{}, {"cache_prompt": False}])
def test_others_are_asked_as_they_ask(tmp_path: Path, more: dict[str, Any]) -> None:
    with served(tmp_path, "toy-fim", "-c", "4096") as server:
        replies = write(server, 20, 3, **more)
        assert all(number > len("".join(FILE[:BELOW])) for number in read_by(replies))


def test_the_answer_is_that_to_the_text_in_its_new_place(tmp_path: Path) -> None:
    with served(tmp_path, "toy-fim", "-c", "4096") as server:
        last = write(server, 20, 3, cache_prompt=True)[-1]
        infill = {"input_prefix": "".join(FILE[:20]), "input_suffix": "\n" + "".join(FILE[20 : 20 + BELOW])}
        anew = server.post("/infill", **infill, prompt="new = 20\nnew = 21\nne", n_predict=4)
        assert last["content"] == anew["content"]
        assert last["tokens_evaluated"] == anew["tokens_evaluated"]


def test_a_wish_that_is_none_is_refused(tmp_path: Path) -> None:
    with served(tmp_path, "toy-fim") as server:
        status, error = server.refused("/infill", input_prefix="a", input_suffix="b", cache_prompt="yes")
        assert (status, error["param"]) == (400, "cache_prompt")
