"""An editor's settings may come with a project: they choose no model that lies in it."""

from pathlib import Path

import pytest

from app.lsp.own_files import check_outside_project
from models.errors import UsageError


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    (folder / ".git").mkdir(parents=True)
    (folder / "evil.gguf").write_bytes(b"GGUF")
    (tmp_path / "own.gguf").write_bytes(b"GGUF")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("name", ["evil.gguf", "evil", "./evil.gguf", "model:evil.gguf", "../work/evil.gguf", "{}"])
def test_a_model_of_the_project_is_refused(project: Path, name: str) -> None:
    with pytest.raises(UsageError, match="a file of this project") as caught:
        check_outside_project(name.replace("{}", str(project / "evil.gguf")))
    assert "localspec lsp" in caught.value.hint


def test_a_link_out_of_a_folder_into_the_project_is_followed(project: Path) -> None:
    (project.parent / "link.gguf").symlink_to(project / "evil.gguf")
    with pytest.raises(UsageError, match="a file of this project"):
        check_outside_project("../link.gguf")


@pytest.mark.parametrize("name", ["", "starter", "lookup", "auto", "../own.gguf", "user/repo:Q8_0", "nowhere.gguf"])
@pytest.mark.usefixtures("project")
def test_other_models_are_the_user_s(name: str) -> None:
    check_outside_project(name)


@pytest.mark.usefixtures("project")
def test_home_is_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_outside_project("own.gguf")
