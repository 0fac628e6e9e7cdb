"""Models of other programs whose folder was chosen by the user, in those programs' own settings and variables."""

import json
from pathlib import Path

import pytest
from raw_gguf import write_raw

from models.library.catalog import find_model
from models.library.stores import hub_folder, lm_studio_folders, lm_studio_models


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("variable", "named"), [("HF_HUB_CACHE", "$HOME/hub"), ("HF_HUB_CACHE", "${HOME}/hub"), ("HF_HOME", "$HOME")]
)
def test_a_variable_in_a_variable_is_what_it_stands_for(
    home: Path, monkeypatch: pytest.MonkeyPatch, variable: str, named: str
) -> None:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, named)
    assert hub_folder() == home / "hub"


@pytest.mark.parametrize("moved", [True, False])
def test_the_folder_chosen_in_lm_studio_comes_first(home: Path, moved: bool) -> None:
    program = home / ("elsewhere" if moved else ".lmstudio")
    if moved:
        (home / ".lmstudio-home-pointer").write_text(f"{program}\n")
    usual, chosen = write_raw(program / "models/a/b/c.gguf"), write_raw(home / "disk/d/e/f.gguf")
    (program / "settings.json").write_text(json.dumps({"downloadsFolder": str(home / "disk"), "language": "de"}))
    assert list(lm_studio_models()) == [("lmstudio:d/e/f.gguf", chosen), ("lmstudio:a/b/c.gguf", usual)]
    assert [find_model(f"lmstudio:{name}") for name in ("d/e/f", "d/e", "a/b/c.gguf")] == [chosen, chosen, usual]


@pytest.mark.parametrize("said", ["{", "[]", "{}", '{"downloadsFolder": 5}', '{"downloadsFolder": "models"}', "\udcff"])
def test_settings_that_choose_no_folder_change_nothing(home: Path, said: str) -> None:
    before = lm_studio_folders()
    (home / ".lmstudio").mkdir()
    (home / ".lmstudio/settings.json").write_bytes(said.encode(errors="surrogateescape"))
    assert lm_studio_folders() == before
