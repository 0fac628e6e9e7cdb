"""Before llama.cpp sees a file: what is missing, no file, no GGUF or hardly begun is told at once."""

import os
from pathlib import Path

import pytest

from models.errors import ModelFileError
from models.gguf.file import check_file

HEAD = b"GGUF" + bytes(20)


def refusal(path: Path) -> ModelFileError:
    with pytest.raises(ModelFileError) as failure:
        check_file(path)
    assert failure.value.exit_code == 3
    assert failure.value.hint
    return failure.value


def test_a_whole_header_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(HEAD)
    check_file(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none.gguf"
    assert refusal(path).title == f"There is no file {path}."


def test_a_folder_is_no_model(tmp_path: Path) -> None:
    assert "is a folder" in refusal(tmp_path).title


def test_another_format_is_named_by_what_it_starts_with(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    assert refusal(path).title == "a.gguf is not a GGUF file: it starts with b'PK\\x03\\x04', not b'GGUF'."


@pytest.mark.parametrize("size", range(4, 24))
def test_a_header_cut_short_is_told_with_its_size(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(HEAD[:size])
    assert refusal(path).title == f"a.gguf is cut short: {size} bytes."


@pytest.mark.parametrize("size", range(4))
def test_an_empty_file_is_no_gguf(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(HEAD[:size])
    assert ("not a GGUF file" if size else "a.gguf is empty.") in refusal(path).title


def test_a_file_that_may_not_be_read_is_told_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "a.gguf"
    path.write_bytes(HEAD)
    monkeypatch.setattr(os, "open", refuse)
    error = refusal(path)
    assert "can't be read" in error.title
    assert "Permission denied" in error.cause


def test_a_name_that_is_too_long_is_that_of_no_file(tmp_path: Path) -> None:
    path = tmp_path / ("why " * 100)
    assert refusal(path).title == f"There is no file {path}."


def test_a_file_in_a_closed_folder_is_told_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "stat", closed)
    assert "Permission denied" in refusal(tmp_path / "a.gguf").cause


def test_a_part_that_can_not_be_looked_at_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "a-00001-of-00002.gguf"
    path.write_bytes(HEAD)
    (tmp_path / "a-00002-of-00002.gguf").symlink_to(tmp_path / ("b" * 300))
    assert "a-00002-of-00002.gguf is missing" in refusal(path).title
