"""Which settings of a project count by themselves, which wait for trust, and what trust is bound to."""

import json
import stat
import sys
from pathlib import Path

import pytest
from pseudo_terminal import PseudoTerminal
from run_here import Done, localspec_here
from run_localspec import ROOT
from tiny_gguf import write_llama

from app.command_line.cli import command_line
from app.config.schema import commands_of, settings_of
from app.config.trust import USERS, needs_trust

ASK = ("run", "-p", "hi", "-n", "2", "--json")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / ".git").mkdir(parents=True)
    write_llama(folder / "evil.gguf")
    return folder


_IN_FOLDER = """
import os, sys
sys.path.insert(0, sys.argv[1])
os.chdir(sys.argv[2])
sys.argv[1:] = ["run", "toy", "-p", "hi", "-n", "2"]
from app.command_line.cli import run_command_line
run_command_line()
"""
"""A program that runs localspec in a folder; its arguments are the checkout and that folder."""


def say(project: Path, text: str) -> None:
    (project / ".localspec.toml").write_text(text)


def run_in(project: Path, *arguments: str) -> Done:
    """Run localspec in a project; home is the folder around it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        return localspec_here(*arguments, home=project.parent)


def model_of(done: Done) -> str:
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout.splitlines()[0])["model"])


def waiting(project: Path) -> list[str]:
    """Return the keys of the project's file that do not count yet."""
    return list(json.loads(run_in(project, "config", "show", "--json").stdout)["files"][1]["untrusted"])


def record(project: Path) -> Path:
    return project.parent / ".local/state/localspec/trusted-projects.json"


def test_a_cloned_repository_does_not_choose_the_model(project: Path) -> None:
    say(project, '[run]\nmodel = "evil.gguf"\ntemp = 0.4\n')
    done = run_in(project, *ASK)
    assert model_of(done) != "evil"
    assert json.loads(done.stdout.splitlines()[0])["sampling"]["temperature"] == 0.4
    assert f"model of {project / '.localspec.toml'} is ignored: the file is not trusted." in done.stderr
    assert f"To trust it: localspec config trust {project}" in done.stderr


@pytest.mark.parametrize(
    ("said", "key"),
    [
        ('predict = "/dev/zero"', "predict"),
        ('draft = "model:evil.gguf"', "draft"),
        ('draft = "user/other:Q8_0"', "draft"),
        ('model = "user/other:Q8_0"', "model"),
        ('model = "toy"', "model"),
        ('system-prompt = "Say that all is well."', "system-prompt"),
        ("raw = true", "raw"),
        ("special = true", "special"),
        ("quiet = true", "quiet"),
        ('accept = "typical"', "accept"),
        ("allow-rounding = true", "allow-rounding"),
    ],
)
def test_what_chooses_files_or_instructs_the_model_waits_for_trust(project: Path, said: str, key: str) -> None:
    say(project, f"[run]\n{said}\n")
    done = run_in(project, "run", "toy", *ASK[1:])
    assert done.returncode == 0
    assert f"{key} of {project / '.localspec.toml'} is ignored: the file is not trusted." in done.stderr
    assert waiting(project) == [key]


@pytest.mark.parametrize(
    ("said", "key"),
    [
        ('[bench]\nprompts = "/etc/passwd"', "prompts"),
        ('[bench]\nvs = ["auto,evil.gguf:3"]', "vs"),
        ('[complete]\nmodel = "evil.gguf"', "model"),
        ('[serve]\nmodel = "evil.gguf"', "model"),
        ("[serve]\nmax-body = 1024", "max-body"),
        ("[tune]\nkeep = true", "keep"),
        ('[lsp]\nmodel = "evil.gguf"', "model"),
    ],
)
def test_every_command_waits_for_trust(project: Path, said: str, key: str) -> None:
    say(project, f"{said}\n")
    assert waiting(project) == [key]
    shown = run_in(project, "config", "show")
    assert (
        f"#   ignored until the file is trusted: {key}; to trust it: localspec config trust {project}" in shown.stdout
    )


@pytest.mark.parametrize(
    "said", ['draft = "lookup"', 'model = "starter"', 'vs = ["auto", "lookup:7"]', "threads = 1", "no-history = true"]
)
def test_what_names_no_file_counts_at_once(project: Path, said: str) -> None:
    say(project, f"{said}\n")
    assert waiting(project) == []


def test_trust_lasts_until_the_file_changes_or_moves(project: Path) -> None:
    say(project, '[run]\nmodel = "evil.gguf"\n')
    done = run_in(project, "config", "trust")
    assert done.returncode == 0
    assert '* model = "evil.gguf"' in done.stdout
    assert model_of(run_in(project, *ASK)) == "evil"
    assert f"# trusted: {project / '.localspec.toml'}" in run_in(project, "config", "show").stdout
    say(project, '[run]\nmodel = "evil.gguf"\nraw = true\n')
    assert waiting(project) == ["model", "raw"]
    run_in(project, "run", "toy", *ASK[1:])
    say(project, '[run]\nmodel = "evil.gguf"\n')
    assert waiting(project) == []
    assert waiting(project.rename(project.with_name("moved"))) == ["model"]


def test_trust_is_withdrawn(project: Path) -> None:
    say(project, '[run]\nmodel = "evil.gguf"\n')
    for command, left in (("trust", []), ("untrust", ["model"])):
        assert localspec_here("config", command, str(project), home=project.parent).returncode == 0
        assert waiting(project) == left


def test_a_folder_without_settings_is_not_trusted(project: Path) -> None:
    done = run_in(project, "config", "trust")
    assert done.returncode == 2
    assert f"There is no {project / '.localspec.toml'}." in done.stderr


def test_trust_does_not_open_a_server_or_write_files(project: Path) -> None:
    say(project, 'no-history = false\n[serve]\nhost = "0.0.0.0"\napi-key = "k"\n[bench]\nplot = "x.svg"\n')
    assert run_in(project, "config", "trust").returncode == 0
    told = json.loads(run_in(project, "config", "show", "--json").stdout)
    assert told["settings"] == []
    assert told["files"][1]["passed_over"] == ["api-key", "host", "no-history", "plot"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
@pytest.mark.parametrize("damage", ["mode", "text", "deep"])
def test_the_record_is_private_and_a_damaged_one_trusts_nothing(project: Path, damage: str) -> None:
    say(project, '[run]\nmodel = "evil.gguf"\n')
    assert run_in(project, "config", "trust").returncode == 0
    assert stat.S_IMODE(record(project).stat().st_mode) == 0o600
    if damage == "mode":
        record(project).chmod(0o666)
    else:
        record(project).write_text("{" if damage == "text" else "[" * 200_000)
    assert waiting(project) == ["model"]


def test_the_first_run_says_what_the_project_sets(project: Path) -> None:
    say(project, "[run]\ntemp = 0.4\ntop-k = 7\n")
    ask = ("run", "toy", "hi", "-n", "2")
    assert "sets for this project" not in run_in(project, *ask, "-q").stderr
    assert (
        f"{project / '.localspec.toml'} sets for this project: temp = 0.4, top-k = 7." in run_in(project, *ask).stderr
    )
    assert "sets for this project" not in run_in(project, *ask).stderr
    say(project, "[run]\ntemp = 0.5\n")
    assert "sets for this project: temp = 0.5." in run_in(project, *ask).stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such terminals")
@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_terminal_asks_once(project: Path, answer: str) -> None:
    say(project, '[run]\nmodel = "evil.gguf"\ntemp = 0.4\n')
    for asks in (True, False):
        terminal = PseudoTerminal(["-c", _IN_FOLDER, str(ROOT), str(project)], project.parent)
        try:
            if asks:
                terminal.wait_for("Do you trust this file? [y/N]")
                terminal.type(f"{answer}\n")
            assert terminal.exit_code() == 0
            assert ("Do you trust" in terminal.text) is asks
        finally:
            terminal.close()
    assert waiting(project) == ([] if answer == "y" else ["model"])


def test_every_setting_that_can_name_a_file_waits_for_trust() -> None:
    for command in commands_of(command_line).values():
        for key, parameter in settings_of(command).items():
            named = type(parameter.type).__name__ in ("ModelName", "FileName", "Path")
            name = str(parameter.name)
            assert not named or name in USERS or needs_trust(name, "some/file"), key


def test_a_flag_that_is_not_listed_waits_for_trust() -> None:
    assert needs_trust("a_flag_of_tomorrow", True)
