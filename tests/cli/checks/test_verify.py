"""`localspec verify`: certificates, forks of both kinds, failures, Ctrl-C."""

import hashlib
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
from rounding import with_amplitude
from run_here import Done, localspec_here
from run_localspec import ROOT, environment, localspec, shared_folder
from tiny_gguf import CHATML_TEMPLATE, write_llama, write_recurrent

from app.engine.decoding import speculate
from app.engine.decoding.verify import Verdict
from app.engine.runtime import load
from models.errors import LocalspecError

SHORT = ("verify", "toy", "-c", "2048", "-n", "24", "--class", "chat,math", "--draft", "toy")


def certificate(home: Path, *arguments: str) -> dict[str, Any]:
    done = localspec_here(*SHORT, "--json", *arguments, home=home)
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_clean_certificate_goes_to_stdout_and_ends_with_its_verdict(tmp_path: Path) -> None:
    done = localspec(*SHORT, home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Certificate of localspec ")
    verdict = " ".join(done.stdout.split("\n\n")[-1].split())
    assert verdict.startswith("Exact: all ")
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_json_has_every_count_and_the_arms_and_temperatures_that_were_asked_for(tmp_path: Path) -> None:
    found = certificate(tmp_path, "--temp", "0,0.7", "--temp", "1", "--vs", "auto,model:2,suffix:6")
    assert (found["schema"], found["outcome"], found["forks"]) == (1, "exact", [])
    assert found["arms"] == ["off", "auto", "model:2", "suffix:6"]
    assert [sampling["temperature"] for sampling in found["sampling"]] == [0, 0.7, 1]
    assert [(one["temperature"], one["arm"]) for one in found["results"]] == [
        (temperature, arm) for temperature in (0, 0.7, 1) for arm in ("auto", "model:2", "suffix:6")
    ]
    assert found["tokens_compared"] == sum(one["tokens"] for one in found["results"]) > 200
    assert all(one["drafted"] > 0 for one in found["results"] if one["arm"] == "model:2")
    assert (found["model"]["name"], found["model"]["sha256"], found["settings"]) == ("toy-0", "", None)


def test_what_shows_nothing_is_no_success(tmp_path: Path) -> None:
    # The only token of an answer comes with the prompt: nothing is left to be drafted.
    done = localspec_here(*SHORT, "-n", "1", "--json", home=tmp_path)
    assert (done.returncode, json.loads(done.stdout)["outcome"]) == (1, "nothing")


def test_limit_and_prompts_choose_what_is_asked(tmp_path: Path) -> None:
    assert certificate(tmp_path)["prompts"] == ["chat/1", "math/1"]
    assert certificate(tmp_path, "--limit", "2")["prompts"] == ["chat/1", "chat/2", "math/1", "math/2"]
    file = tmp_path / "mine.jsonl"
    file.write_text('{"id": "one", "class": "mine", "turns": ["the sea the sea"]}\n')
    done = localspec_here("verify", "toy", "--predict", "9", "--prompts", str(file), "--json", home=tmp_path)
    found = json.loads(done.stdout)
    assert (found["prompts"], found["predict"]) == (["one"], 9)


def takes_every_draft_token(rows: Any, draft: Any, sampler: Any, tokens: Any) -> Verdict:
    """Accept whatever is drafted: the lie of a loop that changes the text."""
    return Verdict(len(draft.tokens), sampler.pick(rows[-1], tokens, draft.tokens), is_bonus=True)


def check_it_ends_with_6_after_the_certificate(done: Done) -> None:
    assert done.returncode == 6
    assert "differ from plain decoding, and not by rounding" in done.stderr
    assert "is the first that differs" in done.stderr
    assert "BUG: " in done.stdout.split("\n\n")[-1]


def test_a_loop_that_changes_the_text_is_a_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = (*SHORT, "--vs", "lookup:3", "--temp", "1")
    with monkeypatch.context() as patch:
        patch.setattr(speculate, "verify", takes_every_draft_token)
        check_it_ends_with_6_after_the_certificate(localspec_here(*arguments, home=tmp_path))
    with caught():
        check_it_ends_with_6_after_the_certificate(localspec_here(*arguments, home=tmp_path))


def test_a_bug_stays_one_where_rounding_is_allowed_or_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "ToyModel", with_amplitude(0.001))
    monkeypatch.setattr(speculate, "verify", takes_every_draft_token)
    for flags in (("--allow-rounding",), ()):
        done = localspec_here(*SHORT, "--vs", "lookup:3", "--temp", "1", "--json", *flags, home=tmp_path)
        assert done.returncode == 6
        found = json.loads(done.stdout)
        assert found["outcome"] == "bug"
        assert {fork["kind"] for fork in found["forks"]} >= {"bug"}


@pytest.mark.parametrize("flags", [(), ("--allow-rounding",)])
def test_near_ties_are_explained_and_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    monkeypatch.setattr(load, "ToyModel", with_amplitude(0.15))
    done = localspec_here(*SHORT, "--json", *flags, home=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    found = json.loads(done.stdout)
    assert found["outcome"] == "rounding"
    assert {fork["kind"] for fork in found["forks"]} == {"near-tie"}
    assert all(0 < fork["gap"] <= fork["floor"] for fork in found["forks"])
    assert found["largest_explained_gap"] == max(fork["gap"] for fork in found["forks"])


def test_ctrl_c_prints_what_is_done_and_leaves_with_130(tmp_path: Path) -> None:
    leader, terminal = pty.openpty()
    command = [sys.executable, "-m", "app", "verify", "toy", "-c", "4096", "-n", "400", "--vs", "lookup:3"]
    program = subprocess.Popen(
        command, cwd=ROOT, env={**environment(tmp_path), "TERM": "xterm"}, stdout=subprocess.PIPE, stderr=terminal
    )
    os.close(terminal)
    shown = b""
    # Two arms have held the first conversation, of two turns, when the fifth answer begins.
    while b" 4/" not in shown:
        shown += os.read(leader, 1024)
    program.send_signal(signal.SIGINT)
    text = program.communicate(timeout=60)[0].decode()
    os.close(leader)
    assert program.returncode == 130
    assert b"chat, lookup:3" in shown
    assert "stopped      only the prompts" in text
    assert "Exact: all " in text or "Nothing was checked" in text


FAILURES = {
    "an unknown class": (["--class", "chat,poetry"], 2, "Classes: chat, code, edit, fim, math, qa, rag,"),
    "an unknown arm": (["--vs", "fast"], 2, "Unknown arm fast"),
    "a drafter for a draft model": (["--draft", "lookup"], 2, "arms go in --vs"),
    "no number": (["--temp", "0,warm"], 2, "'0,warm' is not a list of numbers"),
    "a prompt file that is not there": (["--prompts", "nope.jsonl"], 2, "nope.jsonl can't be read"),
    "another rule above temperature 0": (["--accept", "block"], 2, "--statistics"),
    "an approximate rule": (["--accept", "typical"], 2, "approximate: nothing to certify"),
    "a model and a server": (["--audit", "http://127.0.0.1:9"], 2, "toy is a model"),
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
    done = localspec_here("verify", "toy", "-n", "9", "--class", "fim", "-q", home=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no fill-in-the-middle tokens" in done.stderr


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a target and a draft model that is much like it."""
    folder = tmp_path_factory.mktemp("pair")
    target = write_llama(folder / "target.gguf", chat_template=CHATML_TEMPLATE)
    return target, write_llama(folder / "draft.gguf", noise=0.02)


def test_the_certificate_of_a_gguf_pair_names_files_build_and_settings(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    mine = tmp_path / "mine.jsonl"
    mine.write_text('{"id": "one", "class": "mine", "turns": ["the sea the sea", "again"]}\n')
    arguments = ("--draft", str(pair[1]), "--prompts", str(mine), "-n", "24", "-c", "512", "-t", "1", "--json", "-q")
    done = localspec_here("verify", str(pair[0]), *arguments, "--vs", "auto,model:2,lookup:4", home=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["outcome"], found["forks"]) == ("exact", [])
    assert found["tokens_compared"] > 200
    hashes = [hashlib.sha256(file.read_bytes()).hexdigest() for file in pair]
    assert [found[name]["sha256"] for name in ("model", "draft_model")] == hashes
    assert found["build"].startswith("llama-cpp-python 0.3.36, llama.cpp ")
    assert (found["settings"]["threads"], found["settings"]["batch_threads"], found["context_size"]) == (1, 1, 512)
    assert {found["settings"][f"cache_type_{part}"] for part in "kv"} <= {"f16", "bf16", "q8_0"}
    assert all(one["drafted"] > 0 for one in found["results"] if one["arm"] == "model:2")


def test_a_pair_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    draft = write_recurrent(tmp_path / "recurrent.gguf")
    done = localspec_here("verify", "toy", "--draft", str(draft), "-t", "1", "-c", "512", home=tmp_path)
    assert (done.returncode, done.stdout) == (4, "")
    assert "Traceback" not in done.stderr


@pytest.mark.starter
def test_the_starter_says_the_same_with_every_drafter(tmp_path: Path) -> None:
    mine = tmp_path / "mine.jsonl"
    turns = ["Repeat this: the cat sat on the mat, the cat sat on the hat."]
    mine.write_text(json.dumps({"id": "one", "class": "mine", "turns": turns}))
    arguments = ("--prompts", str(mine), "-n", "12", "-c", "512", "-t", "1", "--json", "-q", "--temp", "0")
    done = localspec(
        "verify",
        "starter",
        *arguments,
        "--vs",
        "lookup:2,suffix:5",
        home=tmp_path,
        extra={"XDG_CACHE_HOME": shared_folder("measured")},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["outcome"], found["forks"]) == ("exact", [])
    assert (len(found["model"]["sha256"]), found["draft_model"]) == (64, None)
    assert sum(one["accepted"] for one in found["results"]) > 0


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
