"""A vocabulary as its file spells it; tests/gguf compares it with the one that llama.cpp loads."""

from pathlib import Path

import pytest
from raw_gguf import Array, text, write_raw

from models.errors import ModelFileError
from models.gguf.header import read_model
from models.gguf.model_info import model_info
from models.gguf.vocab import HeaderVocab
from models.text.fim_markers import FAMILIES


def vocab(tmp_path: Path, *tokens: str, **values: object) -> HeaderVocab:
    about = {f"tokenizer.ggml.{key}": value for key, value in values.items()}
    path = write_raw(tmp_path / "v.gguf", {"tokenizer.ggml.tokens": Array(tokens or ["a", "b", "c"]), **about})  # type: ignore[arg-type, dict-item]
    return HeaderVocab(read_model(path))


def test_tokens_are_found_by_their_spelling(tmp_path: Path) -> None:
    found = vocab(tmp_path, "a", "ab", "é", "")
    assert [found.find(spelling) for spelling in ("a", "ab", "é", "b", "abc")] == [0, 1, 2, None, None]
    assert [found.text(token) for token in range(4)] == ["a", "ab", "é", "[EMPTY_3]"]


def test_a_token_that_looks_like_another_in_the_file_is_not_that_one(tmp_path: Path) -> None:
    disguised = "x" + text("ab").decode() + "x"
    assert vocab(tmp_path, disguised, "c").find("ab") is None
    assert vocab(tmp_path, disguised, "ab").find("ab") == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_markers_of_a_infill_count_when_all_are_there(tmp_path: Path, family: tuple[str, str, str]) -> None:
    assert vocab(tmp_path, "a", *family).fim_markers() == family
    assert vocab(tmp_path, "a", *family[:2]).fim_markers() == ()


def test_only_tokens_that_exist_have_a_role(tmp_path: Path) -> None:
    roles = {"bos_token_id": 1, "eos_token_id": 3, "fim_pre_token_id": 2}
    assert vocab(tmp_path, **roles).special() == {"bos": 1, "fim_pre": 2}


@pytest.mark.parametrize(
    ("values", "first"),
    [
        ({}, None),
        ({"bos_token_id": 1}, None),
        ({"bos_token_id": 1, "add_bos_token": True}, 1),
        ({"pre": "llama-bpe", "bos_token_id": 1}, 1),
        ({"pre": "llama-bpe", "bos_token_id": 1, "add_bos_token": False}, None),
        ({"model": "llama"}, 1),
        ({"model": "llama", "bos_token_id": 2}, 2),
        ({"model": "llama", "add_bos_token": False}, None),
        ({"model": "gemma4", "bos_token_id": 2, "add_bos_token": False}, 2),
        ({"add_bos_token": True}, -1),
        ({"add_bos_token": True, "bos_token_id": 99}, -1),
    ],
)
def test_the_first_token_is_what_the_file_or_its_family_says(
    tmp_path: Path, values: dict[str, object], first: int | None
) -> None:
    assert vocab(tmp_path, **values).bos == first


def test_the_first_difference_is_found_wherever_it_is(tmp_path: Path) -> None:
    tokens = ["a", "b", "c", "d"]
    one = vocab(tmp_path / "one", *tokens)
    for place in range(4):
        other = vocab(tmp_path / "other", *[f"{token}!" if i == place else token for i, token in enumerate(tokens)])
        assert one.first_difference(other) == other.first_difference(one) == place
    assert one.first_difference(vocab(tmp_path / "more", *tokens, "e")) is None
    assert vocab(tmp_path / "less", "a").first_difference(one) is None
    assert vocab(tmp_path / "less", "b").first_difference(one) == 0


@pytest.mark.parametrize(
    ("tokens", "alike"),
    [
        (["a", "b", "c"], None),
        (["a", "b", "a"], (0, 2)),
        (["a", "b", "b\0c"], (1, 2)),
        (["", "a", "", "\0"], None),
        (["[EMPTY_1]", ""], (0, 1)),
    ],
)
def test_two_tokens_of_one_spelling_are_found(tmp_path: Path, tokens: list[str], alike: tuple[int, int] | None) -> None:
    found = vocab(tmp_path, *tokens)
    assert found.spelled_alike() == alike
    if alike:
        with pytest.raises(ModelFileError, match="vocabulary is damaged"):
            model_info(tmp_path / "v.gguf")
    else:
        assert model_info(tmp_path / "v.gguf").vocabulary == len(tokens)
