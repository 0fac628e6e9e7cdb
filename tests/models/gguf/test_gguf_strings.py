"""Vocabularies that many models share are gone through once; what is read by that is what reading it all would give."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from raw_gguf import Array, text, write_raw

from models.errors import ModelFileError
from models.gguf import strings as gguf_strings
from models.gguf.header import read_model
from models.gguf.header_bytes import HeaderBytes
from models.gguf.model_info import glance, model_info
from models.gguf.strings import KnownStrings
from models.gguf.vocab import HeaderVocab

MARKERS = ["<fim_prefix>", "<fim_suffix>", "<fim_middle>"]
WORDS = [f"word {number}" for number in range(9000)] + MARKERS
MERGES = [f"{number} x" for number in range(8000)]


def model(path: Path, tokens: Sequence[str] = WORDS, **values: object) -> Path:
    """Write a model with a vocabulary of thousands of tokens."""
    arrays = {"tokenizer.ggml.tokens": Array(tokens), "tokenizer.ggml.merges": Array(MERGES)}
    return write_raw(path, {**arrays, "after": 7, **values})  # type: ignore[dict-item]


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the lengths of the arrays that are gone through string by string."""
    counts: list[int] = []
    through = HeaderBytes._skip_strings

    def skip(self: HeaderBytes, count: int) -> None:
        counts.append(count)
        through(self, count)

    monkeypatch.setattr(HeaderBytes, "_skip_strings", skip)
    return counts


def test_what_models_share_is_gone_through_once(tmp_path: Path, walked: list[int]) -> None:
    known = KnownStrings()
    paths = [model(tmp_path / f"{name}.gguf", **{"general.name": "x" * name}) for name in (1, 50, 3)]
    infos = [glance(path, known) for path in paths]
    assert walked == [len(WORDS), len(MERGES)]
    assert infos == [model_info(path) for path in paths]
    assert infos[0].fim == tuple(MARKERS)


def test_a_header_read_by_the_known_is_the_header(tmp_path: Path) -> None:
    known = KnownStrings()
    read_model(model(tmp_path / "a.gguf"), known)
    path = model(tmp_path / "b.gguf", **{"general.name": "another"})
    assert read_model(path, known) == read_model(path)
    assert HeaderVocab(read_model(path, known)).find("word 8999") == 8999


@pytest.mark.parametrize(
    ("place", "word"),
    [(0, "!ord 0"), (0, "word"), (4500, "a longer word"), (4500, "w"), (-1, "<fim_middl!>"), (-1, "")],
)
def test_a_vocabulary_that_differs_is_not_taken_for_the_known_one(tmp_path: Path, place: int, word: str) -> None:
    known, tokens = KnownStrings(), list(WORDS)
    glance(model(tmp_path / "a.gguf"), known)
    tokens[place] = word
    path = model(tmp_path / "b.gguf", tokens)
    assert read_model(path, known) == read_model(path)
    assert glance(path, known) == model_info(path)


def test_what_was_found_is_found_again_and_in_the_right_one(tmp_path: Path) -> None:
    known = KnownStrings()
    one = model(tmp_path / "a.gguf")
    other = model(tmp_path / "b.gguf", [f"sort {number}" for number in range(len(WORDS))])
    for _ in range(2):
        assert [glance(path, known).fim for path in (one, other)] == [tuple(MARKERS), ()]


def test_a_file_that_is_cut_is_told_though_its_vocabulary_is_known(tmp_path: Path) -> None:
    known = KnownStrings()
    whole = model(tmp_path / "a.gguf")
    glance(whole, known)
    data = whole.read_bytes()
    for size in range(1000, len(data), 9973):
        whole.write_bytes(data[:size])
        with pytest.raises(ModelFileError, match="cut short"):
            glance(whole, known)


@pytest.mark.parametrize(("place", "bit"), [(0, 1), (0, 2), (1, 1), (4, 1), (7, 128)])
def test_a_length_that_is_damaged_where_nobody_looked_is_told_when_the_vocabulary_is_read(
    tmp_path: Path, place: int, bit: int
) -> None:
    known, path = KnownStrings(), model(tmp_path / "b.gguf")
    read_model(model(tmp_path / "a.gguf"), known)
    data = bytearray(path.read_bytes())
    data[data.index(text("word 500")) + place] ^= bit
    path.write_bytes(data)
    vocab = HeaderVocab(read_model(path, known))
    for ask in (vocab.spelled_alike, lambda: vocab.text(3), lambda: vocab.find("word 8999")):
        with pytest.raises(ModelFileError, match=r"b\.gguf is damaged"):
            ask()


def test_short_arrays_and_one_too_many_are_not_remembered(
    tmp_path: Path, walked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gguf_strings, "_MOST_KNOWN", 1)
    known = KnownStrings()
    path = model(tmp_path / "a.gguf", short=Array(["a", "b"]))
    for _ in range(2):
        glance(path, known)
    assert walked == [len(WORDS), len(MERGES), 2, len(MERGES), 2]


def test_tokens_of_one_spelling_are_left_to_who_looks_at_one_model(tmp_path: Path) -> None:
    path = model(tmp_path / "a.gguf", [*WORDS, WORDS[0]])
    assert glance(path, KnownStrings()).vocabulary == len(WORDS) + 1
    with pytest.raises(ModelFileError, match="vocabulary is damaged"):
        model_info(path)
