"""`localspec history rm` and what lies beside the conversations: what Up brings back, and what drafters remember."""

import json
import os
from pathlib import Path

import pytest
from run_here import localspec_here as localspec
from tiny_gguf import write_llama

from app.ui.prompt.prompt_history import PromptHistory

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a data folder is given by HOME alone")

TOY = ("toy", "-n", "5")


def state(home: Path) -> Path:
    """Return the folder of what was typed."""
    return home / ".local" / "state" / "localspec"


def type_prompts(home: Path, *prompts: str) -> None:
    """Leave behind what both chats do, and what one leaves that was killed while it wrote."""
    screen = PromptHistory(state(home) / "prompt-history.jsonl")
    for prompt in prompts:
        screen.add(prompt)
    (state(home) / "prompt-history").write_text("\n".join(prompts))
    (state(home) / "prompt-history.jsonlq2w3.partial").write_text("\n".join(prompts))


def ids(home: Path) -> list[str]:
    """Return the conversations that are saved."""
    listed = localspec("history", "ls", "--json", home=home).stdout
    return [conversation["id"] for conversation in json.loads(listed)["conversations"]]


def holds(home: Path, word: str) -> bool:
    """Tell whether any file below a folder has a word."""
    return any(word.encode() in path.read_bytes() for path in home.rglob("*") if path.is_file())


def test_all_takes_what_was_typed_with_it(tmp_path: Path) -> None:
    localspec("run", *TOY, "xylophone", home=tmp_path)
    type_prompts(tmp_path, "xylophone")
    done = localspec("history", "rm", "--all", home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Removed all saved conversations (1) and the prompt history.\n"
    assert not holds(tmp_path, "xylophone")
    assert localspec("history", "rm", "--all", home=tmp_path).stdout == "No conversations are saved.\n"
    type_prompts(tmp_path, "zeppelin")
    assert localspec("history", "rm", "--all", home=tmp_path).stdout == "Removed the prompt history.\n"
    assert not holds(tmp_path, "zeppelin")


def test_where_nothing_was_saved_nothing_is_made(tmp_path: Path) -> None:
    done = localspec("history", "rm", "--all", home=tmp_path)
    assert (done.returncode, done.stdout) == (0, "No conversations are saved.\n")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("typed", "removed"), [([], "the text copied last"), (["hello"], "the prompt history and the text copied last")]
)
def test_all_takes_what_was_copied_last_with_it(tmp_path: Path, typed: list[str], removed: str) -> None:
    copied = state(tmp_path) / "copied.txt"
    copied.parent.mkdir(parents=True)
    copied.write_text("xylophone")
    if typed:
        type_prompts(tmp_path, *typed)
    assert localspec("history", "rm", "--all", home=tmp_path).stdout == f"Removed {removed}.\n"
    assert not holds(tmp_path, "xylophone")


def test_one_conversation_leaves_what_was_typed(tmp_path: Path) -> None:
    localspec("run", *TOY, "xylophone", home=tmp_path)
    type_prompts(tmp_path, "xylophone")
    done = localspec("history", "rm", *ids(tmp_path), home=tmp_path)
    assert (done.returncode, done.stderr, "prompt" in done.stdout, holds(tmp_path, "xylophone")) == (0, "", False, True)


def test_what_was_typed_is_asked_for_too(tmp_path: Path) -> None:
    type_prompts(tmp_path, "xylophone")
    done = localspec("history", "rm", "--all", home=tmp_path, typed="n\n")
    assert (done.returncode, "Remove the prompt history for good?" in done.stderr) == (1, True)
    assert holds(tmp_path, "xylophone")


def test_what_drafters_remember_is_named(tmp_path: Path) -> None:
    model = str(write_llama(tmp_path / "tiny.gguf"))
    # Greedy: a random seed may draw the end of the text at once, and nothing would be remembered.
    localspec("run", model, "hello", "-n", "20", "-t", "1", "--temp", "0", home=tmp_path)
    assert "localspec drafter forget --all" in localspec("history", "rm", "--all", home=tmp_path).stderr
    localspec("drafter", "forget", "--all", home=tmp_path)
    assert localspec("history", "rm", "--all", home=tmp_path).stderr == ""


def test_what_can_not_be_removed_is_not_said_to_be(tmp_path: Path) -> None:
    localspec("run", *TOY, "hello", home=tmp_path)
    (state(tmp_path) / "prompt-history").mkdir(parents=True)
    done = localspec("history", "rm", "--all", home=tmp_path)
    assert (done.returncode, done.stdout, len(ids(tmp_path))) == (1, "", 1)
    assert str(state(tmp_path) / "prompt-history") in done.stderr
