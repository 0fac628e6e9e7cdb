"""Chunks of files that were visited: how many, how often, in which order, and never what is on show already."""

from itertools import pairwise

from app.complete.ring import Ring, RingSize, chunks_of
from models.text.fim import Chunk

SMALL = RingSize(chunks=4, lines=4, characters=10_000)


class Watch:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def file(name: str, lines: int = 8) -> str:
    return "".join(f"{name} says {number}\n" for number in range(lines))


def filled(names: str, size: RingSize = SMALL) -> tuple[Ring, Watch]:
    watch = Watch()
    ring = Ring(size, watch)
    for name in names:
        ring.add(name, file(name), 0)
        watch.now += 1
    return ring, watch


def names(ring: Ring, path: str = "", first: int = 0, last: int = 0) -> str:
    return "".join(chunk.filename for chunk in ring.around(path, first, last))


def test_a_chunk_is_the_lines_around_a_line() -> None:
    ring, _ = filled("")
    ring.add("a", file("a").replace("\n", "\r\n"), 4)
    assert ring.around("", 0, 0) == (Chunk("a", "a says 2\na says 3\na says 4\na says 5"),)


def test_a_chunk_at_an_edge_of_a_file_is_as_long() -> None:
    for line, first in ((0, 0), (1, 0), (7, 4)):
        ring, _ = filled("")
        ring.add("a", file("a"), line)
        assert ring.around("", 0, 0)[0].text.split("\n") == [f"a says {first + number}" for number in range(4)]


def test_an_empty_file_gives_none() -> None:
    ring, _ = filled("")
    ring.add("a", "\n  \n\n", 1)
    ring.add("b", "", 0)
    assert ring.around("", 0, 0) == ()


def test_what_is_new_comes_last_and_the_rest_stays() -> None:
    ring, watch = filled("")
    seen = []
    for name in "abcdefghij":
        ring.add(name, file(name), 0)
        seen.append(names(ring))
        watch.now += 1
    assert seen[:4] == ["a", "ab", "abc", "abcd"]
    assert seen[4:7] == ["cde", "cdef", "efg"], "a quarter goes at once, so that the beginning stays for a while"
    assert all(len(shown) <= 4 for shown in seen)
    assert sum(not after.startswith(before) for before, after in pairwise(seen)) == 3


def test_one_a_second_and_none_is_lost() -> None:
    ring, watch = filled("")
    for name in "abc":
        ring.add(name, file(name), 0)
    assert names(ring) == "a"
    watch.now += 0.9
    assert names(ring) == "a"
    watch.now += 0.1
    assert names(ring) == "ab"
    watch.now += 50
    assert names(ring) == "abc"


def test_a_long_pause_does_not_let_several_in_at_once() -> None:
    ring, watch = filled("a")
    watch.now += 1000
    for name in "bcd":
        ring.add(name, file(name), 0)
    assert names(ring) == "ab"


def test_a_crowd_that_waits_is_bounded() -> None:
    ring, watch = filled("")
    for number in range(1000):
        ring.add(f"f{number}", file(f"f{number}"), 0)
    watch.now += 1000
    ring.around("", 0, 0)
    assert len(ring.around("", 0, 0)) <= 4


def test_a_near_copy_takes_the_place_of_the_older_one() -> None:
    size = RingSize(chunks=4, lines=20, characters=10_000)
    ring, watch = filled("", size)
    text = file("a", 20)
    ring.add("a", text, 0)
    watch.now += 1
    ring.add("b", file("b", 20), 0)
    watch.now += 1
    ring.add("a", text.replace("a says 7\n", "else\n"), 0)
    assert names(ring) == "ab"
    assert "else" in ring.around("", 0, 0)[0].text
    watch.now += 1
    ring.add("a", text.replace("says 1", "asks 1"), 0)
    assert names(ring) == "aba", "eleven of twenty lines differ"


def test_nothing_of_what_is_on_show_already() -> None:
    ring, watch = filled("")
    text = file("a", 40)
    for line in (2, 20, 38):
        ring.add("a", text, line)
        watch.now += 1
    assert len(ring.around("b", 0, 40)) == 3
    kept = ring.around("a", 10, 21)
    assert [chunk.text.split("\n")[0] for chunk in kept] == ["a says 0", "a says 36"]
    assert names(ring, "a", 3, 36) == ""
    assert names(ring, "a", 4, 17) == "aaa"


def test_characters_are_bounded_too() -> None:
    size = RingSize(chunks=16, lines=4, characters=200)
    ring, _ = filled("abcdefgh", size)
    shown = ring.around("", 0, 0)
    assert 0 < sum(len(chunk.text) for chunk in shown) <= 200
    assert shown[-1].filename == "h"


def test_a_ring_of_none_keeps_none() -> None:
    ring, _ = filled("abc", RingSize(chunks=0))
    assert names(ring) == ""


def test_a_whole_file_in_chunks() -> None:
    chunks = chunks_of("a", file("a", 10), 4)
    assert [chunk.text.count("\n") + 1 for chunk in chunks] == [4, 4, 2]
    assert "\n".join(chunk.text for chunk in chunks) + "\n" == file("a", 10)
    assert chunks_of("a", " \n\n", 4) == ()
