"""`localspec tune`: tables and a plot on stdout, JSON, what is stored, exit codes, Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from run_here import localspec_here
from run_localspec import ROOT, environment, localspec
from tiny_gguf import write_llama

from app.tune.measuring.draft_model import KINDS
from models.system.remembered import Remembered

QUICK = ("-t", "1", "--seconds", "2")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_llama(tmp_path / "tiny.gguf")


def memory(home: Path) -> dict[str, object]:
    """Return what was stored about settings; results of the probe are not."""
    (path,) = home.rglob("machine.json")
    return {key: value for key, value in json.loads(path.read_text()).items() if key.startswith("tuned")}


def test_more_threads_than_there_are_cores_are_told(tmp_path: Path) -> None:
    done = localspec_here("tune", "toy", "-t", "1024", "--seconds", "2", home=tmp_path)
    assert (done.returncode, "1024 threads are more than" in done.stderr) == (0, True)


def test_the_toy_has_a_table_and_a_plot_and_nothing_to_store(tmp_path: Path) -> None:
    done = localspec_here("tune", "toy", *QUICK, home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "T(w) / T(1)" in done.stdout
    assert done.stdout.endswith("Nothing was stored.\n")
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_a_file_is_measured_and_stored(tmp_path: Path, model: Path) -> None:
    done = localspec("tune", str(model), *QUICK, home=tmp_path)
    assert done.returncode == 0
    assert "flash attention" in done.stdout
    assert "later runs with -t 1 use it" in done.stdout
    (record,) = memory(tmp_path).values()
    assert isinstance(record, dict)
    assert (record["setting"]["threads"], record["verify"]["1"] > 0) == (1, True)


def test_what_is_measured_with_given_threads_is_kept_beside_what_is_not(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On one core nothing that other programs do looks as if they held the others.
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    assert localspec_here("tune", str(model), *QUICK, home=tmp_path).returncode == 0
    (before,) = memory(tmp_path).items()
    done = localspec_here("tune", str(model), "--seconds", "2", home=tmp_path)
    assert "later runs use it" in done.stdout
    assert (len(memory(tmp_path)), before in memory(tmp_path).items()) == (2, True)


def test_json_is_one_object_with_every_figure(tmp_path: Path, model: Path) -> None:
    draft = write_llama(tmp_path / "draft.gguf", seed=1)
    done = localspec_here("tune", str(model), "--draft", str(draft), "--json", *QUICK, home=tmp_path)
    found = json.loads(done.stdout)
    assert (done.returncode, found["type"], found["model"]) == (0, "tune", "tiny")
    assert min(found["tuned"]["verify"].values()) > 0
    assert found["draft"]["rows"][0]["one_token"]["16"] > 0
    assert found["stored"].endswith("machine.json")
    assert len(memory(tmp_path)) == 2


def test_explain_names_tune_until_the_draft_model_was_tuned(tmp_path: Path, model: Path) -> None:
    asked = ("run", str(model), "Hi", "--draft", str(model), "-t", "1", "-n", "4", "--explain")
    advice = "model:tiny may run faster with other settings. To find them: localspec tune MODEL --draft DRAFT --keep"
    assert advice in " ".join(localspec_here(*asked, home=tmp_path).stderr.split())
    assert localspec_here("tune", str(model), "--draft", str(model), *QUICK, home=tmp_path).returncode == 0
    again = localspec_here(*asked, home=tmp_path)
    said = " ".join(again.stderr.split())
    assert (again.returncode, advice in said, "pass cost" in said) == (0, False, True)


def test_a_copy_is_kept_only_on_request(tmp_path: Path, model: Path) -> None:
    arguments = ("tune", str(model), "--draft", str(model), "-t", "1", "--json", "--seconds", "20")
    found = json.loads(localspec_here(*arguments, home=tmp_path).stdout)
    assert {row["kind"] for row in found["draft"]["rows"]} == {"", *KINDS}
    assert list(tmp_path.rglob("*Q4*")) == []
    found = json.loads(localspec_here(*arguments, "--keep", home=tmp_path).stdout)
    kept = found["draft"]["tuned"]["copy"]
    assert [str(path) for path in tmp_path.rglob("*Q4*.gguf")] == ([kept] if kept else [])


def test_a_terminal_without_block_letters_gets_plain_ones(tmp_path: Path) -> None:
    done = localspec("tune", "toy", *QUICK, home=tmp_path, extra={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert "####" in done.stdout


FAILURES = {
    "a missing file": (["tune", "nope.gguf"], 3, "no file nope.gguf"),
    "a missing draft": (["tune", "toy", "--draft", "nope.gguf"], 3, "no file nope.gguf"),
    "nothing to keep": (["tune", "toy", "--keep"], 2, "--keep keeps a copy of a draft model, but none is named"),
    "no name": (["tune", ""], 2, "the name is empty"),
    "no number of seconds": (["tune", "toy", "--seconds", "nan"], 2, "not a finite number"),
    "no time at all": (["tune", "toy", "--seconds", "0"], 2, "--seconds"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_bad_input_has_its_exit_code_and_a_sentence(tmp_path: Path, name: str) -> None:
    arguments, code, words = FAILURES[name]
    done = localspec_here(*arguments, home=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is a signal on POSIX")
def test_ctrl_c_shows_what_is_done_and_stores_nothing(tmp_path: Path) -> None:
    model = write_llama(tmp_path / "large.gguf", n_layer=24, n_embd=512)
    running = subprocess.Popen(
        [sys.executable, "-m", "app", "tune", str(model), "-t", "1", "--seconds", "600"],
        cwd=ROOT,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # The probe of the build writes the file before anything is measured.
    while not list(tmp_path.rglob("machine.json")) and running.poll() is None:
        time.sleep(0.05)
    time.sleep(1.0)
    os.kill(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "nothing was stored" in err
    assert "Traceback" not in err
    assert out == "" or out.endswith("Nothing was stored.\n")
    assert memory(tmp_path) == {}
    # The control: left alone, the same run stores something.
    assert localspec_here("tune", str(model), *QUICK, home=tmp_path).returncode == 0
    assert len(memory(tmp_path)) == 1


def test_a_memory_that_can_not_be_written_is_not_called_stored(tmp_path: Path, model: Path) -> None:
    cache = tmp_path / "cache"
    cache.touch()
    done = localspec_here("tune", str(model), *QUICK, home=tmp_path, extra={"XDG_CACHE_HOME": str(cache)})
    assert done.returncode == 0
    assert done.stdout.endswith("Nothing was stored.\n")


def test_an_older_record_is_not_taken_for_what_could_not_be_written(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Stored in" in localspec_here("tune", str(model), *QUICK, home=tmp_path).stdout
    monkeypatch.setattr(Remembered, "put", lambda *_: None)
    done = localspec_here("tune", str(model), *QUICK, home=tmp_path)
    assert done.stdout.endswith("Nothing was stored.\n")


def test_help_names_its_flags(tmp_path: Path) -> None:
    shown = localspec_here("tune", "--help", home=tmp_path).stdout
    for flag in ("--draft", "--seconds", "--keep", "--requantise-draft", "--allow-rounding", "--json", "-t,"):
        assert flag in shown
