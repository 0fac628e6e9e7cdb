"""Drafted bytes in the target's tokens: none for half a character, and which of them may still change."""

import pytest
from other_tokens import WORDS, OtherVocab

from drafters.text.respelling import respell
from drafters.text.spelling import Spelling, whole_characters
from models.text.marks import Marks

VOCAB = OtherVocab([*WORDS, b"un", b"unt", b"hex"])


def respelled(drafted: bytes, *, is_final: bool = False) -> tuple[list[bytes], list[bytes]]:
    """Return the pieces of drafted bytes that are settled, and the others."""
    found = respell(Spelling(VOCAB, Marks.of(VOCAB)), drafted, is_final=is_final)
    pieces = [VOCAB.piece(token) for token in found.tokens]
    assert b"".join(pieces) == drafted[: whole_characters(drafted)]
    return pieces[: found.settled], pieces[found.settled :]


@pytest.mark.parametrize(
    ("drafted", "settled", "open_"),
    [
        (b"un", [], [b"un"]),
        (b"unt", [], [b"unt"]),
        (b"q un", [b"q", b" "], [b"un"]),
        (b"q. ", [b"q"], [b". "]),
        (b"z \xc3\xa9", [b"z", b" "], [b"\xc3\xa9"]),
    ],
)
def test_the_last_word_is_held_back(drafted: bytes, settled: list[bytes], open_: list[bytes]) -> None:
    assert respelled(drafted) == (settled, open_)


def test_all_is_settled_at_the_end_of_an_answer() -> None:
    assert respelled(b"q un", is_final=True) == ([b"q", b" ", b"un"], [])


@pytest.mark.parametrize("drafted", [b"\xc3", b"q\xc3"])
def test_half_a_character_is_no_token(drafted: bytes) -> None:
    settled, open_ = respelled(drafted, is_final=True)
    assert b"\xc3" not in b"".join(settled + open_)


def test_the_second_half_of_a_character_that_the_context_begins_is_a_token() -> None:
    assert respelled(b"\xa9 q", is_final=True) == ([b"\xa9", b" ", b"q"], [])


@pytest.mark.parametrize("data", [b"", b"a", "é".encode(), "€".encode(), "😀".encode()])
def test_every_cut_of_a_character_is_seen(data: bytes) -> None:
    assert whole_characters(data) == len(data)
    for size in range(1, len(data)):
        assert whole_characters(data[:size]) == 0


def test_bytes_that_are_no_characters_are_spelled_by_their_own_tokens() -> None:
    spelling = Spelling(VOCAB, Marks.of(VOCAB))
    assert b"".join(map(VOCAB.piece, spelling.tokens(b"q\xa9 \xc3q") or ())) == b"q\xa9 \xc3q"
    assert spelling.tokens(b"q\xff") is None
