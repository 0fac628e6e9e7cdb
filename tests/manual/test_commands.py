"""The commands of the manual and of the README: each runs here, or is marked as one that needs more than localspec."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import click
import pytest
from manual_blocks import MARKS, Block, blocks
from run_here import localspec_here
from run_localspec import shared_folder

from app.command_line.cli import command_line

FILES = {"notes.txt": "It was a dark night. The ship went down in 1912.\n"}
"""Files that commands of the manual name."""


def titled(block: Block) -> str:
    first = block.text.splitlines()[0].strip()
    return f"{block.page.stem}: {first[:50]}"


RUN = [block for block in blocks() if not block.mark]
STARTER = [block for block in RUN if re.search("localspec doctor| starter", block.text)]
"""Blocks that need the dependency group "starter"."""


def test_every_block_that_is_not_run_has_a_known_mark() -> None:
    assert {block.mark for block in blocks()} <= {"", *MARKS}
    assert len(RUN) >= 10
    # A mark is for what a test can't do: there is a model of one's own in a block marked so, and so on.
    wanted = {
        "needs a model": ("gguf", "user/repo", "ollama:", "NAME", "127.0.0.1", "pair:"),
        "needs the network": ("pull",),
        "for developers": ("tests/support/run.py", "repeat-last"),
        "changes the machine": ("install", "uv ", "rm ", "--clean", "completions"),
    }
    marked = [block for block in blocks() if block.mark]
    assert [titled(block) for block in marked if not any(word in block.text for word in wanted[block.mark])] == []


def run(block: Block, home: Path, extra: Mapping[str, str] | None = None) -> None:
    """Run the commands of a block, pipes included; each has to succeed and show something."""
    for pipe in block.commands:
        text = ""
        for program in pipe:
            if program[0] == "echo":
                text = " ".join(program[1:]) + "\n"
                continue
            assert program[0] == "localspec", f"{titled(block)}: no test runs {program[0]}; mark the block"
            done = localspec_here(*program[1:], home=home, stdin=text, extra=extra)
            assert done.returncode == 0, f"{' '.join(program)}\n{done.stderr}"
            text = done.stdout or done.stderr
            assert text.strip(), program


@pytest.mark.parametrize("block", [each for each in RUN if each not in STARTER], ids=titled)
def test_a_block_of_the_manual_runs(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, folder = tmp_path / "home", tmp_path / "here"
    home.mkdir()
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name, text in FILES.items():
        (folder / name).write_text(text)
    run(block, home)


@pytest.mark.starter
@pytest.mark.parametrize("block", STARTER, ids=titled)
def test_a_block_with_the_starter_model_runs(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(block, tmp_path, {"XDG_CACHE_HOME": shared_folder("measured")})


def words_of(block: Block) -> list[list[str]]:
    """Return the words after `localspec` of each of its commands, up to a redirection."""
    found = []
    for pipe in block.commands:
        for program in pipe:
            words = program[2:] if program[:2] == ["uv", "run"] else program
            if words and words[0] == "localspec":
                ends = [place for place, word in enumerate(words) if set(word) <= {"<", ">", "&", ";"}]
                found.append(words[1 : min(ends, default=len(words))])
    return found


def parsed(words: list[str]) -> None:
    """Parse the flags of a command without running it; raises click.UsageError for a flag that is not there."""
    command, rest, context = command_line, list(words), click.Context(command_line, info_name="localspec")
    while isinstance(command, click.Group):
        assert rest[:1] != [], f"no command is named: {words}"
        if command.name == "forge" and rest[0] not in command.commands:
            # A target in place of a command is to be made a drafter for.
            rest.insert(0, "make")
        assert rest[0] in command.commands, f"there is no command {rest[0]}"
        command = command.commands[rest.pop(0)]
        context = click.Context(command, info_name=command.name, parent=context)
    command.make_parser(context).parse_args(rest)


@pytest.mark.parametrize("block", [block for block in blocks() if words_of(block)], ids=titled)
def test_the_flags_of_each_command_exist(block: Block) -> None:
    for words in words_of(block):
        parsed(words)


def test_a_command_that_is_not_there_is_seen() -> None:
    parsed(["run", "big.gguf", "--draft", "tiny.gguf"])
    with pytest.raises(click.UsageError):
        parsed(["run", "big.gguf", "--drafts", "tiny.gguf"])
    with pytest.raises(AssertionError):
        parsed(["runs", "big.gguf"])


@pytest.mark.skipif(shutil.which("bash") is None, reason="asks a real bash")
@pytest.mark.parametrize("block", blocks(), ids=titled)
def test_a_block_is_valid_shell(block: Block) -> None:
    subprocess.run(["bash", "-n", "-c", block.text], check=True, capture_output=True)
