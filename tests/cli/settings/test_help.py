"""Help and completion: complete, quick, and printed without loading anything heavy."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from run_here import localspec_here
from run_localspec import ROOT, environment, localspec

from app.command_line.cli import command_line, run
from app.flags.declaring import ModelName

FLAGS = "-m -p -f -c -t -tb -ngl -n -sys --temp --top-k --top-p --min-p --seed --draft --draft-max"
HEAVY = ("importlib.metadata", "llama_cpp", "textual", "rich", "numpy", "jinja2", "huggingface_hub")


LIGHT = [
    ["--help"],
    ["run", "--help"],
    ["bench", "--help"],
    ["tune", "--help"],
    ["verify", "--help"],
    ["complete", "--help"],
    ["doctor", "--help"],
    ["serve", "--help"],
    ["lsp", "--help"],
    ["drafter", "--help"],
    ["history", "--help"],
    ["completions", "--help"],
    ["help", "--help"],
    ["help", "drafting"],
    ["--version"],
]
"""Commands that have to answer at once."""


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys; from app.command_line.cli import command_line\n"
        f"for command in {LIGHT!r}:\n"
        "    try: command_line(command)\n"
        "    except SystemExit: pass\n"
        f"    print('HEAVY', command, [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True, check=True
    )
    found = [line for line in done.stdout.splitlines() if line.startswith("HEAVY")]
    assert found == [f"HEAVY {command} []" for command in LIGHT]
    assert len(done.stdout.splitlines()) > 10 * len(LIGHT)


def test_manual_and_help_name_the_same_flags(tmp_path: Path) -> None:
    shown = localspec("run", "--help", home=tmp_path).stdout
    assert f"`{FLAGS.partition(' --draft ')[0]}`" in (ROOT / "app" / "manual" / "scripts.md").read_text(
        encoding="utf-8"
    )
    for flag in FLAGS.split():
        assert f"{flag}," in shown or f"{flag} " in shown, flag


@pytest.mark.parametrize("command", ["run", "bench", "tune", "verify", "completions", "help"])
def test_the_examples_stand_one_a_line(tmp_path: Path, command: str) -> None:
    shown = localspec_here(command, "--help", home=tmp_path).stdout
    assert "\\b" not in shown
    examples = [line for line in shown.splitlines() if f"localspec {command} " in line and "Usage" not in line]
    assert len(examples) > 2
    assert all(line.replace("as `localspec", "").count("localspec ") == 1 for line in examples)


@pytest.mark.parametrize("group", ["", "models", "history", "drafter", "config"])
def test_no_summary_of_a_command_is_cut_off(group: str) -> None:
    command: click.Command = command_line.commands[group] if group else command_line
    assert isinstance(command, click.Group)
    shown = command.get_help(click.Context(command, terminal_width=80))
    listed = shown.partition("Commands:")[2]
    assert all(f"  {name} " in listed for name in command.commands)
    assert "..." not in listed


@pytest.mark.parametrize("command", ["run", "bench", "verify", "tune", "complete", "serve", "lsp"])
def test_every_command_takes_the_same_numbers_of_threads(tmp_path: Path, command: str) -> None:
    refused = localspec_here(command, "-t", "1025", home=tmp_path)
    assert (refused.returncode, "0<=x<=1024" in refused.stderr) == (2, True)


@pytest.mark.parametrize("command", ["bench", "verify"])
def test_predict_is_a_file_and_no_number_of_tokens(tmp_path: Path, command: str) -> None:
    refused = localspec_here(command, "--predict", "answer.txt", home=tmp_path)
    assert (refused.returncode, "--predict" in refused.stderr) == (2, True)
    assert "not a valid integer" not in refused.stderr


def test_every_exit_code_is_documented(tmp_path: Path) -> None:
    from models import errors

    codes = {
        kind.exit_code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.LocalspecError)
    }
    shown = localspec_here("--help", home=tmp_path).stdout
    manual = (ROOT / "app" / "manual" / "scripts.md").read_text(encoding="utf-8")
    for code in codes:
        assert f" {code} " in shown.replace("\n", " ")
        assert f"| {code} |" in manual


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_each_shell_gets_a_script(tmp_path: Path, shell: str) -> None:
    done = localspec_here("completions", shell, home=tmp_path)
    assert done.returncode == 0
    assert "_LOCALSPEC_COMPLETE" in done.stdout


def test_bash_completes_commands_flags_and_drafters(tmp_path: Path) -> None:
    for words, expected in (
        ("localspec ru", "run"),
        ("localspec run --dra", "--draft-max"),
        ("localspec run --draft lo", "lookup"),
        ("localspec ver", "verify"),
        ("localspec verify --accept re", "residual"),
    ):
        extra = {"_LOCALSPEC_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        assert expected in localspec(home=tmp_path, extra=extra).stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="asks a real bash")
@pytest.mark.parametrize(
    ("line", "words", "offered"),
    [
        ("localspec run st", ["localspec", "run", "st"], ["starter", r"start\ here.gguf"]),
        ("localspec run 'st", ["localspec", "run", r"\'st"], ["starter", "start here.gguf"]),
        ("localspec run own/m", ["localspec", "run", "own/m"], [r"own/my\ model.gguf", "own/mine.txt"]),
        (r"localspec run own/my\ ", ["localspec", "run", r"own/my\\\ "], [r"own/my\ model.gguf"]),
        ("localspec run pair:b", ["localspec", "run", "pair", ":", "b"], ["big"]),
        ("localspec run pair:", ["localspec", "run", "pair", ":"], ["big"]),
        ("localspec run --draft=lo", ["localspec", "run", "--draft", "=", "lo"], ["lookup", "lookahead"]),
    ],
)
def test_a_real_bash_offers_names_with_colons_and_files_with_spaces_too(
    tmp_path: Path, line: str, words: list[str], offered: list[str]
) -> None:
    pairs = tmp_path / "settings" / "localspec" / "pairs"
    pairs.mkdir(parents=True)
    (pairs / "big.toml").write_text("")
    here = tmp_path / "here"
    (here / "own").mkdir(parents=True)
    for name in ("start here.gguf", "own/my model.gguf", "own/mine.txt"):
        (here / name).write_text("")
    program = tmp_path / "localspec"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m app "$@"\n')
    program.chmod(0o755)
    asked = (
        f'eval "$({program} completions bash)"; COMP_LINE="{line}"; COMP_POINT=${{#COMP_LINE}}; '
        f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; "
        f"_localspec_completion {program} 2> {os.devnull}; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    variables = environment(tmp_path, {"XDG_CONFIG_HOME": str(tmp_path / "settings"), "LOCALSPEC_MODELS": "own"})
    done = subprocess.run(
        ["bash", "--norc", "-c", asked], cwd=here, env=variables, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == offered


def test_models_of_this_machine_are_completed(tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    for name in ("boats.gguf", "broken.gguf", "other.gguf", "notes.txt"):
        (models / name).write_bytes(b"GGUF")
    wanted = f"{models}/b"
    asked = {"COMP_WORDS": f"localspec run {wanted}", "COMP_CWORD": wanted}
    extra = {"LOCALSPEC_MODELS": str(models), "_LOCALSPEC_COMPLETE": "fish_complete", **asked}
    lines = localspec(home=tmp_path, extra=extra).stdout.splitlines()
    assert lines == [f"plain,{wanted}oats.gguf", f"plain,{wanted}roken.gguf", f"file,{wanted}"]


def test_pair_cards_are_completed_and_a_store_that_fails_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "big.toml").write_text("")
    monkeypatch.setattr("app.catalog.pairs.pairs_folder", lambda: tmp_path)
    context = click.Context(run)
    names = [item.value for item in ModelName().shell_complete(context, run.params[0], "pair:")]
    assert names == ["pair:big", "pair:"]
    monkeypatch.setattr("models.library.local.own_folders", lambda: 1 // 0)
    names = [item.value for item in ModelName("starter").shell_complete(context, run.params[0], "s")]
    assert names == ["starter", "s"]


def test_an_old_flag_before_what_is_completed_is_not_told(tmp_path: Path) -> None:
    extra = {"_LOCALSPEC_COMPLETE": "bash_complete", "LOCALSPEC_LINE": "localspec run --color -ub 512 --draft-n 3 --vi"}
    done = localspec(home=tmp_path, extra=extra)
    assert (done.stdout, done.stderr) == ("plain,--vim\n", "")


@pytest.mark.parametrize(
    ("before", "word", "offered"),
    [
        ([], "ru", ["plain\trun\t"]),
        (["run", "-sys", "Explain --accept"], "st", ["plain\tstarter\t", "file\tst\t"]),
        (["run", "--draft"], "C:\\my models\\ti", ["file\tC:\\my models\\ti\t"]),
    ],
)
def test_powershell_completes_after_words_in_quotes_too(
    tmp_path: Path, before: list[str], word: str, offered: list[str]
) -> None:
    words = {"LOCALSPEC_WORDS": "\x1f".join(["localspec", *before])} | ({"LOCALSPEC_WORD": word} if word else {})
    done = localspec(home=tmp_path, extra={"_LOCALSPEC_COMPLETE": "powershell_complete", **words})
    assert all(each in done.stdout for each in offered), done.stdout


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-m", "app", "completions", "bash"],
        cwd=ROOT,
        env=environment(tmp_path),
        stdout=write_end,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("command", [["--version"], ["run", "toy", "hi"], ["models", "ls"]])
def test_a_user_without_a_home_folder_is_told_so_and_gets_help(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    refused = localspec_here(*command, home=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "This user has no home folder." in refused.stderr
    assert "Set HOME" in refused.stderr
    assert localspec_here("run", "--help", home=tmp_path).returncode == 0
