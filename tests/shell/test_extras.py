"""What brings the optional parts."""

from importlib import metadata
from pathlib import Path

import pytest

from app.shell import extras
from models.system import installing


def test_the_command_names_the_libraries_and_their_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["click>=8", "a>=1.2 ; extra == 'one'", 'b==3; extra == "two"', "c; extra == 'one'"]
    monkeypatch.setattr(metadata, "requires", lambda _: wanted)
    assert extras.extras() == {"one": ["a>=1.2", "c"], "two": ["b==3"]}
    assert 'pip install "a>=1.2" "c"' in extras.install_command("one")


def test_where_localspec_is_not_installed_the_command_names_the_part(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: str) -> None:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "requires", unknown)
    assert 'pip install "localspec[one]"' in extras.install_command("one")


@pytest.mark.parametrize(
    ("python", "pip", "command"),
    [
        ("/tools/localspec/bin/python", None, "uv pip install a --python /tools/localspec/bin/python"),
        ("/env/bin/python", "pip", "/env/bin/python -m pip install a"),
        ("/an env/bin/python", "pip", '"/an env/bin/python" -m pip install a'),
    ],
)
def test_a_command_changes_the_environment_that_localspec_runs_in(
    monkeypatch: pytest.MonkeyPatch, python: str, pip: str | None, command: str
) -> None:
    monkeypatch.setattr(installing.sys, "executable", python)
    monkeypatch.setattr(installing, "find_spec", lambda _: pip)
    assert installing.pip_command("install", "a") == command


def test_the_engine_is_built_anew_by_uv_where_a_checkout_has_its_own_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installing, "_CHECKOUT", tmp_path)
    monkeypatch.setattr(installing.sys, "prefix", str(tmp_path / ".venv"))
    anew = "pip install --force-reinstall --no-deps --no-cache-dir llama-cpp-python==1.2"
    assert anew in installing.rebuild_command("1.2")
    (tmp_path / "pyproject.toml").touch()
    assert installing.rebuild_command("1.2") == "uv sync --reinstall-package llama-cpp-python"
    monkeypatch.setattr(installing.sys, "prefix", "/env")
    assert anew in installing.rebuild_command("1.2")
