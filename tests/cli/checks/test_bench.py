"""`localspec bench`: tables, JSON, a plot, failures, Ctrl-C, and an arm that lies."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench_fakes import failing_at_the_second_prompt
from checking import caught
from run_here import Done, localspec_here
from run_localspec import ROOT, environment, localspec, shared_folder

from app.engine.decoding import speculate
from app.engine.decoding.verify import Verdict
from models.errors import LocalspecError

FULL = Path("/dev/full")
SHORT = ("bench", "toy", "-c", "2048", "-n", "24", "--class", "chat,math", "--limit", "2")


def measured(home: Path, *arguments: str) -> dict[str, Any]:
    done = localspec_here(*SHORT, "--json", *arguments, home=home)
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_table_goes_to_stdout_and_ends_with_a_verdict_for_each_class(tmp_path: Path) -> None:
    done = localspec(*SHORT, "--vs", "lookup:3", home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Temperature 0" in done.stdout
    # A long verdict goes on in an indented line.
    lines = done.stdout.split("Verdict\n")[1].split("\n\n")[0].splitlines()
    verdicts = [line for line in lines if not line.startswith(" ")]
    assert [line.split()[:2] for line in verdicts] == [["chat", "lookup:3"], ["math", "lookup:3"]]


def test_json_carries_every_answer_of_every_arm_and_all_say_the_same(tmp_path: Path) -> None:
    found = measured(tmp_path, "--draft", "toy", "--vs", "auto,lookup,model:2", "--temp", "0,0.7")
    assert found["arms"] == ["off", "auto", "lookup:3", "model:2"]
    texts: dict[tuple[object, ...], set[str]] = {}
    for answer in found["answers"]:
        texts.setdefault((answer["temperature"], answer["prompt"], answer["turn"]), set()).add(answer["text"])
    # Both chat prompts together have three turns.
    assert len(texts) == 2 * (3 + 2)
    assert all(len(said) == 1 for said in texts.values())
    assert len(found["answers"]) == 4 * len(texts)
    assert all(result["forks"] == [] for result in found["results"])


def test_the_same_seed_gives_the_same_texts(tmp_path: Path) -> None:
    one, other, third = (
        [answer["text"] for answer in measured(tmp_path, "--temp", "1", "--vs", "off", "--seed", seed)["answers"]]
        for seed in ("4", "4", "5")
    )
    assert one == other != third


def test_a_prompt_file_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text('{"id": "one", "class": "mine", "turns": ["the sea the sea"]}\n')
    done = localspec_here("bench", "toy", "-n", "9", "--prompts", str(file), "--json", home=tmp_path)
    assert {answer["prompt"] for answer in json.loads(done.stdout)["answers"]} == {"one"}


def test_what_is_drawn_is_a_file_and_said_on_stderr(tmp_path: Path) -> None:
    done = localspec_here(*SHORT, "--plot", str(tmp_path / "figures.svg"), home=tmp_path)
    assert done.returncode == 0
    assert "figures.svg" in done.stderr
    assert (tmp_path / "figures.svg").read_text().startswith("<?xml")


def takes_every_draft_token(rows: Any, draft: Any, sampler: Any, tokens: Any) -> Verdict:
    """Accept whatever is drafted: the lie of a loop that changes the text."""
    return Verdict(len(draft.tokens), sampler.pick(rows[-1], tokens, draft.tokens), is_bonus=True)


def bench_of_the_loop(home: Path, *flags: str) -> Done:
    return localspec_here(*SHORT, "--vs", "lookup:3", "--temp", "1", *flags, home=home)


def check_it_ends_with_6_after_the_table(done: Done) -> None:
    assert done.returncode == 6
    # Plain decoding's own answers are none of those that could differ.
    assert "of 5 drafted answers differ from plain decoding" in done.stderr
    assert "is the first that differs" in done.stderr
    assert "answers differ" in done.stdout.split("Verdict\n")[1]


def test_a_loop_that_changes_the_text_is_reported_as_diverged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(speculate, "verify", takes_every_draft_token)
        check_it_ends_with_6_after_the_table(bench_of_the_loop(tmp_path))
    with caught():
        check_it_ends_with_6_after_the_table(bench_of_the_loop(tmp_path))


def test_where_rounding_is_allowed_a_fork_is_a_figure_and_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speculate, "verify", takes_every_draft_token)
    done = bench_of_the_loop(tmp_path, "--allow-rounding")
    assert done.returncode == 0
    assert "answers differ" in done.stdout


def test_ctrl_c_prints_what_is_done_and_leaves_with_130(tmp_path: Path) -> None:
    leader, terminal = pty.openpty()
    command = [sys.executable, "-m", "app", "bench", "toy", "-c", "4096", "-n", "400", "--vs", "lookup:3"]
    program = subprocess.Popen(
        command, cwd=ROOT, env={**environment(tmp_path), "TERM": "xterm"}, stdout=subprocess.PIPE, stderr=terminal
    )
    os.close(terminal)
    shown = b""
    # Two arms have answered the first turn when the third answer begins.
    while b" 2/" not in shown:
        shown += os.read(leader, 1024)
    program.send_signal(signal.SIGINT)
    text = program.communicate(timeout=60)[0].decode()
    os.close(leader)
    assert program.returncode == 130
    assert b"chat, lookup:3" in shown
    assert "Stopped: only the prompts" in text
    assert "chat       off" in text


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("diverged", [False, True])
def test_a_disk_that_is_full_when_it_is_drawn_is_told_after_the_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, diverged: bool
) -> None:
    (tmp_path / "figures.svg").symlink_to(FULL)
    if diverged:
        monkeypatch.setattr(speculate, "verify", takes_every_draft_token)
    done = bench_of_the_loop(tmp_path, "--plot", str(tmp_path / "figures.svg"))
    assert "off" in done.stdout
    assert done.returncode == (6 if diverged else 1)
    assert diverged or "figures.svg can't be drawn." in done.stderr


FAILURES = {
    "an unknown class": (["--class", "chat,poetry"], 2, "Classes: chat, code, edit, fim, math, qa, rag,"),
    "an unknown arm": (["--vs", "fast"], 2, "Unknown arm fast"),
    "a model arm without a model": (["--vs", "model:3"], 2, "--draft FILE"),
    "a drafter for a draft model": (["--draft", "lookup"], 2, "arms go in --vs"),
    "no number": (["--temp", "0,warm"], 2, "'0,warm' is not a list of numbers"),
    "a temperature that can't be": (["--temp", "0.0001"], 2, "temperature"),
    "a prompt file that is not there": (["--prompts", "nope.jsonl"], 2, "nope.jsonl can't be read"),
    "a prompt file of nobody's": (["--prompts", "~nobody-of-this-name/x"], 2, "--prompts ~nobody-of-this-name/x can't"),
    "a plot of nobody's": (["--plot", "~nobody-of-this-name/x.svg"], 2, "--plot ~nobody-of-this-name/x.svg can't be"),
    "a plot of another kind": (["--plot", "x.pdf"], 2, "neither .svg nor .png"),
    "a plot nowhere": (["--plot", "no/such/x.svg"], 2, "no folder no/such"),
    "a second model": (["-m", "nope.gguf"], 2, "toy and -m nope.gguf name two models"),
    "a missing draft": (["--draft", "nope.gguf"], 3, "no file nope.gguf"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_bad_input_has_its_exit_code_and_a_sentence(tmp_path: Path, name: str) -> None:
    arguments, code, words = FAILURES[name]
    done = localspec_here(*SHORT, *arguments, home=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_class_that_the_model_cannot_be_asked_is_named_and_fails(tmp_path: Path) -> None:
    done = localspec_here("bench", "toy", "-n", "9", "--class", "fim", "-q", home=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no fill-in-the-middle tokens" in done.stderr


@pytest.mark.starter
def test_the_starter_says_the_same_with_every_arm(tmp_path: Path) -> None:
    mine, turns = tmp_path / "mine.jsonl", ("Repeat: the cat sat on the mat, the cat sat on the hat.", "Who are you?")
    mine.write_text("".join(json.dumps({"id": turn, "class": "mine", "turns": [turn]}) + "\n" for turn in turns))
    arguments = ("--prompts", str(mine), "-n", "8", "-c", "512", "-t", "1", "--json", "-q", "--draft", "starter")
    done = localspec("bench", "starter", *arguments, home=tmp_path, extra={"XDG_CACHE_HOME": shared_folder("measured")})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["arms"] == ["off", "auto", "lookup:3", "model:3"]
    assert len(found["answers"]) == 2 * 4
    assert all(answer["fork"] is None for answer in found["answers"])


@pytest.mark.parametrize("error", [LocalspecError("The disk is gone."), KeyboardInterrupt()])
def test_what_was_done_before_an_error_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    asked = failing_at_the_second_prompt(monkeypatch, error)
    done = localspec_here(*SHORT, "--json", home=tmp_path)
    assert done.returncode == (1 if isinstance(error, LocalspecError) else 130)
    found = json.loads(done.stdout)
    assert found["interrupted"] is True
    assert asked[0] in done.stdout
