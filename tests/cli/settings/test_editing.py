"""Changes of one setting in the user's file: comments stay, mistakes are refused before anything is written."""

import stat
import tomllib
from pathlib import Path

import pytest

from app.command_line.cli import command_line
from app.config.editing import write_setting
from app.config.files import read_all
from app.config.run_settings import origin_words, run_settings, setting_words
from models.errors import LocalspecError, UsageError

WRITTEN = """# mine
temp = 0.2  # for all

[run]
# the colours
theme = "light"

[bench]
limit = 4
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("LOCALSPEC_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "localspec" / "config.toml"


def test_the_first_setting_makes_the_file(file: Path) -> None:
    assert write_setting(command_line, "run", "theme", "nord") == file
    assert tomllib.loads(file.read_text()) == {"run": {"theme": "nord"}}


def test_comments_and_other_settings_stay(file: Path) -> None:
    file.parent.mkdir()
    file.write_text(WRITTEN)
    write_setting(command_line, "run", "theme", "dark")
    write_setting(command_line, "run", "top-k", "7")
    text = file.read_text()
    assert text.startswith('# mine\ntemp = 0.2  # for all\n\n[run]\n# the colours\ntheme = "dark"\n')
    parsed = tomllib.loads(text)
    assert parsed == {"temp": 0.2, "run": {"theme": "dark", "top-k": 7}, "bench": {"limit": 4}}


def test_a_setting_for_all_commands_is_changed_where_it_is(file: Path) -> None:
    file.parent.mkdir()
    file.write_text(WRITTEN)
    write_setting(command_line, "run", "temp", "0.5")
    assert tomllib.loads(file.read_text())["temp"] == 0.5
    assert "# for all" in file.read_text()


def test_an_empty_text_removes_a_setting(file: Path) -> None:
    file.parent.mkdir()
    file.write_text(WRITTEN)
    write_setting(command_line, "run", "theme", "")
    write_setting(command_line, "run", "vim", "")
    assert tomllib.loads(file.read_text()) == {"temp": 0.2, "run": {}, "bench": {"limit": 4}}


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("vim", "on", True), ("vim", "off", False), ("n-predict", "12", 12), ("temp", "0", 0), ("temp", "1e-1", 0.1),
        ("stop", "END", ["END"]), ("stop", '["a", "b"]', ["a", "b"]), ("system-prompt", "42", "42"),
        ("predict", "100", "100"), ("think", "low", "low"),
    ],
)  # fmt: skip
def test_values_have_the_type_that_the_file_needs(file: Path, key: str, text: str, value: object) -> None:
    write_setting(command_line, "run", key, text)
    assert tomllib.loads(file.read_text())["run"][key] == value


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("temp", "warm", "temp can't be warm."), ("vim", "maybe", "vim can't be maybe."),
        ("theme", "mauve", "theme can't be mauve."), ("threads", "-3", "threads can't be -3."),
        ("stop", "[1,", "[1, is no list."),
    ],
)  # fmt: skip
def test_a_value_that_the_flag_refuses_is_not_written(file: Path, key: str, text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        write_setting(command_line, "run", key, text)
    assert refused.value.title == said
    assert refused.value.hint or refused.value.cause
    assert not file.exists()


def test_a_file_with_a_mistake_is_left_alone(file: Path) -> None:
    file.parent.mkdir()
    file.write_text("theme = ")
    with pytest.raises(UsageError, match="not valid TOML"):
        write_setting(command_line, "run", "theme", "nord")
    assert file.read_text() == "theme = "


def test_a_file_that_can_not_be_written_is_said(file: Path) -> None:
    # Also root can make no folder below a file.
    file.parent.write_text("")
    with pytest.raises(LocalspecError):
        write_setting(command_line, "run", "theme", "nord")


def test_a_new_file_is_for_its_owner_alone(file: Path) -> None:
    write_setting(command_line, "run", "theme", "nord")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_settings_have_their_origins(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.parent.mkdir()
    file.write_text('[run]\ntheme = "nord"\n')
    (file.parents[1] / ".localspec.toml").write_text("top-k = 9\n")
    monkeypatch.setenv("LOCALSPEC_DRAFT", "lookup")
    command = command_line.commands["run"]
    with command_line.make_context("localspec", ["run"]) as group:
        group.invoked_subcommand = "run"
        defaults = read_all(command_line)["run"]
        with command.make_context("run", ["starter", "--temp", "0.3"], parent=group, default_map=defaults):
            found = {one.key: one for one in run_settings()}
    wanted = {
        "theme": ("nord", "your file"),
        "top-k": ("9", "project file"),
        "draft": ("lookup", "variable LOCALSPEC_DRAFT"),
        "temp": ("0.3", "command line"),
        "vim": ("off", "default"),
    }
    assert {key: (setting_words(found[key].value), origin_words(found[key])) for key in wanted} == wanted
    assert all(one.help.strip() for one in found.values()), "every setting is explained"
    assert {one.section for one in found.values()} >= {
        "Input",
        "Model and machine",
        "Speculation",
        "Sampling",
        "Screen",
    }
    assert found["theme"].choices[:2] == ("auto", "dark")
    assert found["vim"].choices == ("on", "off")
    assert (found["theme"].default, found["temp"].default, found["vim"].default) == ("auto", 0.8, False)


def test_outside_a_command_there_are_no_settings() -> None:
    with pytest.raises(UsageError, match="not started by a command"):
        run_settings()
