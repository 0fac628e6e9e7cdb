"""The bytes of a file of texts: whole ones are read, whatever became of the rest."""

import json
import random

import pytest

from drafters.history.file_format import Header, dump, from_tokens, parse, stored_bytes, to_tokens

HEADER = Header("/home/ada/engine", "0123456789abcdef", "big")
TEXTS = [from_tokens(tokens) for tokens in ([1, 2, 3], [0], [151_935, 7, 7, 7], [5] * 9)]


def ends() -> list[int]:
    """Return where each text of the file ends, the header's end before them."""
    places = [len(dump(HEADER, []))]
    for text in TEXTS:
        places.append(places[-1] + stored_bytes(text))
    return places


def test_a_file_is_read_as_it_was_written() -> None:
    assert parse(dump(HEADER, TEXTS)) == (HEADER, TEXTS, 0)
    assert [to_tokens(text) for text in TEXTS][2] == [151_935, 7, 7, 7]
    assert parse(dump(HEADER, [])) == (HEADER, [], 0)


def test_a_file_cut_anywhere_has_the_whole_texts_before_the_cut() -> None:
    data = dump(HEADER, TEXTS)
    for cut in range(len(data)):
        header, texts, rest = parse(data[:cut])
        whole = [end for end in ends() if end <= cut]
        assert (header is None) == (not whole)
        assert texts == TEXTS[: max(0, len(whole) - 1)]
        assert rest == cut - (whole[-1] if whole else 0)


def test_any_changed_byte_of_a_text_costs_that_text_and_those_after_it() -> None:
    data = dump(HEADER, TEXTS)
    for place in range(ends()[0], len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 0x41
        before = sum(end <= place for end in ends()[1:])
        assert parse(bytes(damaged))[1] == TEXTS[:before], place


def test_zeros_left_by_a_crash_are_no_texts() -> None:
    data = dump(HEADER, TEXTS) + bytes(4096)
    assert parse(data) == (HEADER, TEXTS, 4096)


def test_random_bytes_are_no_file() -> None:
    draw = random.Random(3)
    for size in [*range(40), 1000, 70_000]:
        assert parse(draw.randbytes(size)) == (None, [], size)
        assert parse(dump(HEADER, TEXTS) + draw.randbytes(size))[:2] == (HEADER, TEXTS)


FIELDS = {"localspec texts": 1, "project": "/p", "tokenizer": "k", "model": "m"}


@pytest.mark.parametrize(
    "fields",
    [
        {**FIELDS, "localspec texts": 2},
        {**FIELDS, "project": 5},
        {**FIELDS, "more": "x"},
        {key: value for key, value in FIELDS.items() if key != "tokenizer"},
        [],
        None,
    ],
)
def test_another_version_or_shape_is_no_file(fields: object) -> None:
    line = json.dumps(fields).encode() + b"\n"
    assert parse(json.dumps(FIELDS).encode() + b"\n" + dump(HEADER, TEXTS)[ends()[0] :])[1] == TEXTS
    assert parse(line + dump(HEADER, TEXTS)[ends()[0] :])[:2] == (None, [])


def test_a_path_that_is_no_text_is_kept() -> None:
    header = Header("/home/\udcff/line\nend", "k", "m")
    assert parse(dump(header, TEXTS)) == (header, TEXTS, 0)
