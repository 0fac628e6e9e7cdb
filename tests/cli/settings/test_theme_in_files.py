"""The theme of the first picture: read from the settings files before the commands are imported."""

import subprocess
import sys
from pathlib import Path

import pytest
from run_localspec import ROOT

from app.config.places import theme_in_files

HEAVY = {"click", "numpy", "llama_cpp", "huggingface_hub", "markdown_it", "pygments", "jinja2", "psutil"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("LOCALSPEC_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "localspec").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("user", "project", "theme"),
    [
        (None, None, "auto"), ('theme = "nord"', None, "nord"), ('[run]\ntheme = "nord"', None, "nord"),
        ('theme = "nord"\n[run]\ntheme = "dark"', None, "dark"), ('theme = "nord"', 'theme = "light"', "light"),
        ('theme = "nord"', "temp = 1", "nord"), ("theme = ", None, "auto"), ("theme = 7", None, "auto"),
        ("run = 3", None, "auto"), ("\ufefftheme = 'nord'", None, "nord"),
    ],
)  # fmt: skip
def test_the_theme_is_that_of_run(folder: Path, user: str | None, project: str | None, theme: str) -> None:
    for path, text in (("localspec/config.toml", user), (".localspec.toml", project)):
        if text is not None:
            (folder / path).write_text(text, encoding="utf-8")
    assert theme_in_files() == theme


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        (["app.command_line.first_screen", "app.ui.start.app"], HEAVY),
        (["app.command_line.cli", "app.command_line.start", "app.ui.chat.opening"], HEAVY - {"click"}),
        (["app.ui.chat.chat_screen"], {"llama_cpp", "huggingface_hub", "tomlkit"}),
    ],
)  # fmt: skip
def test_the_first_picture_waits_for_no_library_that_it_does_not_need(modules: list[str], heavy: set[str]) -> None:
    code = f"import sys, {', '.join(modules)}; print(*sorted({heavy!r} & {{*sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
