"""`localspec verify --statistics`: text, JSON, exit codes, Ctrl-C, and a rule that is wrong."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from run_here import Done, localspec_here
from run_localspec import ROOT, environment, localspec

from app.bench.measuring.arms import BenchPrompt
from app.engine.decoding import verify
from app.verify.distribution.check import CheckProgress, DistributionCheck
from app.verify.distribution.command import TimeLeft
from models.errors import ContextFullError

SHORT = ("verify", "toy", "--statistics", "-c", "2048", "--samples", "300", "--class", "chat,qa")
FEW = ("--accept", "residual", "--samples", "100", "--class", "qa")


def found(home: Path, *arguments: str) -> dict[str, Any]:
    done = localspec_here(*SHORT, "--json", *arguments, home=home)
    assert (done.returncode, done.stderr) == (0, "")
    record: dict[str, Any] = json.loads(done.stdout)
    return record


def test_the_text_ends_with_the_bounds_and_a_verdict(tmp_path: Path) -> None:
    done = localspec(*SHORT, "--accept", "residual", home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "suffix, of 1, 2, 3 tokens in turn" in done.stdout
    assert "300 answers, seeds from 1 on" in done.stdout
    assert "place 2" in done.stdout
    *_, bound, _, verdict = done.stdout.splitlines()
    assert bound.startswith("first 3 tokens: total variation distance at most 0.")
    assert bound.endswith("with 99 % confidence")
    assert verdict.startswith("Fits: ")
    assert max(len(line) for line in done.stdout.splitlines()) <= 100


def test_json_has_every_figure_and_a_schema(tmp_path: Path) -> None:
    record = found(tmp_path, "--accept", "block", "--draft", "toy", "--seed", "7", "--temp", "0.9")
    assert (record["type"], record["schema"]) == ("distribution", 1)
    assert (record["accept"], record["approximate"]) == ("block", False)
    assert (record["drafter"], record["draft_model"], record["longest"]) == ("model", "toy-0", 3)
    assert (record["sampling"]["temperature"], record["sampling"]["seed"]) == (0.9, 7)
    assert record["found"]["samples"] == 300
    assert [bound["tokens"] for bound in record["found"]["bounds"]] == [1, 2, 3]
    # The draft model is the target itself: every guess is kept.
    assert [share["kept"] for share in record["found"]["shares"]] == [150, 150]
    assert record["deviating"] == []


def test_the_same_seeds_give_the_same_figures(tmp_path: Path) -> None:
    one, other, third = (found(tmp_path, *FEW, "--seed", seed)["found"] for seed in ("3", "3", "4"))
    assert one == other != third


def test_coupled_has_a_far_smaller_bound(tmp_path: Path) -> None:
    bounds = {
        accept: found(tmp_path, *FEW, "--accept", accept)["found"]["bounds"][0] for accept in ("coupled", "residual")
    }
    assert bounds["coupled"]["at_most"] < bounds["residual"]["at_most"] / 5


@pytest.mark.parametrize("as_json", [False, True])
def test_typical_is_called_approximate_and_never_exact(tmp_path: Path, *, as_json: bool) -> None:
    done = localspec_here(*SHORT, "--accept", "typical", *(["--json"] if as_json else []), home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Approximate" in done.stdout
    assert "total variation distance from the target's own" in " ".join(done.stdout.split())
    assert "exact" not in done.stdout.lower()
    assert "a deviation is only" not in done.stdout


def test_too_few_answers_are_not_said_to_fit(tmp_path: Path) -> None:
    done = localspec_here(*SHORT, *FEW, "--samples", "3", home=tmp_path)
    assert done.returncode == 1
    assert "No result: too few answers" in done.stdout
    assert "Fits" not in done.stdout


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Draw what follows a rejected guess from the wrong distribution."""
    monkeypatch.setattr(verify, "residual", lambda target, draft, scale=1: target)  # noqa: ARG005
    return monkeypatch


def of_the_rule(home: Path, *flags: str) -> Done:
    return localspec_here(*SHORT, *FEW, "--samples", "400", *flags, home=home)


def test_a_deviation_ends_with_6_after_the_tables(tmp_path: Path, wrong: pytest.MonkeyPatch) -> None:
    done = of_the_rule(tmp_path)
    assert done.returncode == 6
    assert "does not have the target's own distribution" in done.stderr
    assert "DEVIATES" in done.stdout
    assert "total variation distance at most" in done.stdout
    wrong.undo()
    assert of_the_rule(tmp_path).returncode == 0


@pytest.mark.usefixtures("wrong")
def test_a_deviation_is_in_the_json_too(tmp_path: Path) -> None:
    done = of_the_rule(tmp_path, "--json")
    record = json.loads(done.stdout)
    assert done.returncode == 6
    assert len(record["repeats"]) == 2
    assert set(record["deviating"]) <= set(record["suspicious"])


def test_ctrl_c_prints_what_was_drawn_and_leaves_with_130(tmp_path: Path) -> None:
    leader, terminal = pty.openpty()
    command = [sys.executable, "-m", "app", *SHORT, "--samples", "2000000", "--accept", "residual"]
    program = subprocess.Popen(
        command, cwd=ROOT, env={**environment(tmp_path), "TERM": "xterm"}, stdout=subprocess.PIPE, stderr=terminal
    )
    os.close(terminal)
    shown = b""
    while b" 200/" not in shown:
        shown += os.read(leader, 1024)
    program.send_signal(signal.SIGINT)
    text = program.communicate(timeout=60)[0].decode()
    os.close(leader)
    assert program.returncode == 130
    assert b"left" in shown
    assert "Stopped, so there is no verdict" in text
    assert "total variation distance at most" in text


FAILURES = {
    "temperature 0": (["--temp", "0"], 2, "needs a temperature above 0"),
    "two temperatures": (["--temp", "0.7,1"], 2, "checks one temperature"),
    "two drafters": (["--vs", "lookup,suffix"], 2, "one drafter at a time"),
    "no drafter": (["--vs", "off"], 2, "one drafter at a time"),
    "whatever pays": (["--vs", "auto"], 2, "one drafter at a time"),
    "a model arm without a model": (["--vs", "model"], 2, "--draft FILE"),
    "a missing draft": (["--draft", "nope.gguf"], 3, "no file nope.gguf"),
    "a model that is certain": (["--temp", "0.001"], 1, "certain everywhere"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_bad_input_has_its_exit_code_and_a_sentence(tmp_path: Path, name: str) -> None:
    arguments, code, words = FAILURES[name]
    done = localspec_here(*SHORT, *arguments, home=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_time_left_follows_the_pace_and_counts_the_places_to_come() -> None:
    clock = Clock()
    left = TimeLeft(clock)

    def at(seconds: float, done: int, places_left: int) -> float | None:
        clock.now = seconds
        return left.observe(CheckProgress("here", done, 100, places_left))

    assert at(0, 0, 1) is None
    # 2 s for 25: 6 s for the other 75, and a place like this one.
    assert at(2, 25, 1) == pytest.approx(6 + 8)
    # Rows are known by now, and it gets quicker: 50 more at .05 s, and a place of 5 s.
    assert at(2.5, 50, 1) == pytest.approx(2.5 + 5)
    at(3.5, 100, 1)
    assert at(3.5, 0, 0) is None
    # The first place took 3.5 s, of which there is none to come.
    assert at(4.5, 50, 0) == pytest.approx(1.0)


def test_an_error_in_the_middle_shows_what_was_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = DistributionCheck.run

    def broken(self: DistributionCheck, prompts: Sequence[BenchPrompt]) -> Iterator[CheckProgress]:
        for number, progress in enumerate(whole(self, prompts)):
            if number == 3:
                raise ContextFullError("The context is full.")
            yield progress

    monkeypatch.setattr(DistributionCheck, "run", broken)
    done = localspec_here(*SHORT, *FEW, "--samples", "4000", home=tmp_path)
    assert (done.returncode, "The context is full." in done.stderr) == (1, True)
    assert "Stopped, so there is no verdict" in done.stdout
