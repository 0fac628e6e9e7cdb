"""Models that think, and conversations that outgrow the context, on the command line."""

import json
from pathlib import Path
from typing import Any

import pytest
from run_here import localspec_here
from thinking_toy import MarkingToy, ThinkingToy

from app.engine.runtime import load
from models.text.thoughts import divided


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_script_gets_the_answer_without_its_thoughts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "ToyModel", ThinkingToy)
    arguments = ("run", "toy", "the sea the sea", "-n", "60", "--temp", "0")
    done = localspec_here(*arguments, home=tmp_path)
    end = records(localspec_here(*arguments, "--json", home=tmp_path).stdout)[-1]
    assert end["thoughts"]
    assert done.stdout == end["answer"] + "\n"
    assert end["thoughts"] in done.stderr
    rounds = records(localspec_here(*arguments, "--json", home=tmp_path).stdout)[1:]
    text = "".join(line["text"] for line in rounds)
    assert text.startswith("<think>\n")
    assert text.endswith(end["answer"])
    assert end["thoughts"] not in localspec_here(*arguments, "--think", "off", home=tmp_path).stderr
    refused = localspec_here(*arguments, "--think", "high", home=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "It knows: auto, on, off." in refused.stderr


def test_thoughts_are_kept_and_shown_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "ToyModel", ThinkingToy)
    first = localspec_here("run", "toy", "the sea the sea", "-n", "60", "--temp", "0", home=tmp_path)
    assert first.returncode == 0
    (conversation,) = records(localspec_here("history", "export", "--json", home=tmp_path).stdout)
    _, answer = conversation["messages"]
    parts = divided(answer["text"])
    assert parts.answer == first.stdout.removesuffix("\n")
    shown = localspec_here("history", "show", home=tmp_path).stdout
    assert parts.answer.strip() in shown
    assert " · thought " in shown
    assert parts.thoughts not in shown
    folded = f"<details><summary>Thoughts</summary>\n\n{parts.thoughts}\n\n</details>\n\n{parts.answer.strip()}"
    assert folded in localspec_here("history", "export", home=tmp_path).stdout


def test_an_answer_to_a_bare_prompt_is_kept_and_shown_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "ToyModel", MarkingToy)
    asked = ("run", "toy", "the sea the sea", "-n", "14", "--temp", "0", "--raw")
    answer = localspec_here(*asked, home=tmp_path).stdout
    assert divided(answer).thoughts
    for command in (("show",), ("export",)):
        shown = localspec_here("history", *command, home=tmp_path).stdout
        assert answer.strip() in shown
        assert "thought" not in shown.lower()


def test_a_chat_and_a_script_are_told_how_much_a_model_can_be_asked_to_think(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "ToyModel", ThinkingToy)
    note = "The model thinks before it answers. /set think takes auto, on, off."
    assert note in localspec_here("run", "toy", home=tmp_path, typed="").stderr
    assert note not in localspec_here("run", "toy", "--raw", home=tmp_path, typed="").stderr
    start = records(localspec_here("run", "toy", "a", "-n", "2", "--json", home=tmp_path).stdout)[0]
    assert start["efforts"] == ["auto", "on", "off"]


def test_a_quiet_run_has_no_thoughts_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "ToyModel", ThinkingToy)
    done = localspec_here("run", "toy", "the sea the sea", "-n", "60", "--temp", "0", "-q", home=tmp_path)
    assert done.stdout.strip()
    assert done.stderr == ""


def test_a_conversation_goes_on_without_its_oldest_messages_unless_that_is_not_wanted(tmp_path: Path) -> None:
    asked = ("run", "toy", "-c", "256", "-n", "20", "--temp", "0")
    for word in ("a", "b"):
        done = localspec_here(*asked, *(["-C"] if word == "b" else []), "-p", word * 90, home=tmp_path)
        assert "left out" not in done.stderr
    stopped = localspec_here(*asked, "-C", "-p", "c" * 90, "--overflow", "stop", home=tmp_path)
    assert (stopped.returncode, stopped.stdout) == (1, "")
    assert "The context is full" in stopped.stderr
    done = localspec_here(*asked, "-C", "-p", "c" * 90, home=tmp_path)
    assert done.returncode == 0
    assert "oldest 4 messages left out" in done.stderr, "a quarter of the context at once"
