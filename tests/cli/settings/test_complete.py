"""`localspec complete`, on a toy model with markers: what is printed, to the last character, and what is refused."""

import io
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pseudo_terminal import PseudoTerminal
from run_here import localspec_here
from run_localspec import ROOT, environment, localspec

from app.complete.command import run_complete
from app.complete.options import complete
from models.errors import UsageError

CODE = "def add(a, b):\n    return a\n\n\nprint(add(1, 2))\n"
ASK = ("-m", "toy-fim", "-n", "24")
Ask = Callable[..., str]
Answered = Callable[..., dict[str, Any]]
MARKED = CODE.replace("return a", "return <|cursor|>a")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let what the engine remembers of this machine fall into a folder that is thrown away."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def code(tmp_path: Path) -> Path:
    file = tmp_path / "code.py"
    file.write_text(CODE)
    return file


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Ask:
    """Return how to run the command in this process: a process of its own takes a second."""

    def run(*arguments: str, stdin: str = "") -> str:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        flags = complete.make_context("complete", [*ASK, *arguments]).params
        assert run_complete(flags.pop("at"), flags) == 0
        return capsysbinary.readouterr().out.decode()

    return run


@pytest.fixture
def answered(ask: Ask) -> Answered:
    return lambda *arguments, stdin="": json.loads(ask(*arguments, "--json", stdin=stdin))


def test_three_ways_to_name_a_place_are_one(answered: Answered, tmp_path: Path, code: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.write_text(CODE[:26])
    after.write_text(CODE[26:])
    named = answered(f"{code}:2:12")
    assert len(named["text"]) > 10
    assert answered("--prefix-file", str(before), "--suffix-file", str(after))["text"] == named["text"]
    assert answered(stdin=MARKED)["text"] == named["text"]
    other = answered("--cursor", "@@", stdin=MARKED.replace("<|cursor|>", "@@"))
    assert other["text"] == named["text"]


def test_stdout_is_what_to_insert_and_nothing_else(answered: Answered, tmp_path: Path, code: Path) -> None:
    done = localspec("complete", *ASK, f"{code}:2:12", home=tmp_path)
    assert done.returncode == 0
    assert done.stdout == answered(f"{code}:2:12")["text"]
    assert not done.stdout.endswith("\n")
    assert "24 tokens" in done.stderr
    assert localspec("complete", *ASK, f"{code}:2:12", "-q", home=tmp_path).stderr == ""


def test_without_a_column_it_is_the_end_of_the_line(answered: Answered, code: Path) -> None:
    assert answered(f"{code}:2")["answer"] == answered(f"{code}:2:13:")["answer"]


def test_columns_are_characters(answered: Answered, tmp_path: Path) -> None:
    file = tmp_path / "\u00e9:1.py"
    file.write_bytes("\ufeff\U0001f600\u00e9 = \r\n".encode())
    at_the_end = answered(f"{file}:1:6")
    assert at_the_end["answer"] == answered(stdin="\U0001f600\u00e9 = <|cursor|>\n")["answer"]
    with pytest.raises(UsageError) as refused:
        answered(f"{file}:1:7")
    assert "column 6" in refused.value.cause


def test_json_tells_how_it_went(answered: Answered) -> None:
    record = answered(stdin=MARKED)
    assert set(record) == {"text", "answer", "finish", "usage", "timings", "speculation"}
    assert record["finish"] == "length"
    assert record["usage"]["completion_tokens"] == 24
    assert record["timings"]["first_token_seconds"] > 0
    assert record["speculation"]["drafter"] == "suffix"


@pytest.mark.parametrize("drafter", ["off", "lookup", "toy"])
def test_a_drafter_changes_nothing(answered: Answered, drafter: str) -> None:
    arguments = ("-n", "60", "--seed", "3", "--temp", "0.7")
    plain = answered(*arguments, "--draft", "auto", stdin=MARKED)
    assert answered(*arguments, "--draft", drafter, stdin=MARKED)["answer"] == plain["answer"]


def test_it_is_tidied_unless_all_is_wanted(answered: Answered) -> None:
    place, hot = "x = <|cursor|> + y\n", ("--temp", "1.5", "--seed", "3", "-n", "200")
    raw = answered(*hot, "--raw-output", stdin=place)
    assert "\n" in raw["text"].strip()
    assert raw["text"] == raw["answer"]
    tidied = answered(*hot, stdin=place)
    assert tidied["text"] == raw["text"].partition("\n")[0].rstrip()
    assert tidied["finish"] == "stop"


def test_limits_on_lines_and_time(answered: Answered) -> None:
    hot = ("--temp", "1.5", "--seed", "3", "-n", "300", "--raw-output")
    whole = answered(*hot, stdin=MARKED)["text"]
    assert whole.count("\n") >= 2
    two = answered(*hot, "--max-lines", "2", stdin=MARKED)
    assert two["text"] == "\n".join(whole.split("\n")[: two["text"].count("\n") + 1])
    assert len([line for line in two["text"].split("\n") if line.strip()]) == 2
    assert two["finish"] == "stop"
    endless = answered(*hot, "-n", "-1", stdin=MARKED)
    assert endless["text"].startswith(whole)
    assert endless["usage"]["completion_tokens"] > 128
    hurried = answered(*hot, "--time-limit", "0.000001", stdin=MARKED)
    assert hurried["finish"] == "time"
    assert whole.startswith(hurried["text"].rstrip())


def test_other_files_are_read_first(answered: Answered, code: Path) -> None:
    # Room for the names, too: each is as long as the path of this test's folder.
    alone, one, both = (
        answered(f"{code}:2:12", "-c", "4096", *["--context", str(code)] * files)["usage"]["prompt_tokens"]
        for files in range(3)
    )
    assert both - one > len(CODE)
    assert one - alone > len(CODE)


FAILURES = {
    "no place": (["nowhere"], "FILE:LINE:COL"),
    "a line that is not there": (["{code}:99:1"], "has no line 99"),
    "line 0": (["{code}:0:1"], "has no line 0"),
    "a column that is not there": (["{code}:1:99"], "has no column 99"),
    "column 0": (["{code}:1:0"], "has no column 0"),
    "a file that is not there": (["nope.py:1:1"], "nope.py can't be read"),
    "a folder": (["{folder}:1:1"], "can't be read"),
    "no marker": (["--cursor", "##"], "'##' occurs 0 times"),
    "two markers": (["--cursor", "@"], "'@' occurs 2 times"),
    "an empty marker": (["--cursor", ""], "cursor marker once"),
    "two places": (["{code}:1:1", "--suffix-file", "{code}"], "give two positions"),
    "a context that is not there": (["--cursor", "@@", "--context", "nope.py"], "nope.py can't be read"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_what_makes_no_sense_is_refused(ask: Ask, tmp_path: Path, code: Path, name: str) -> None:
    arguments, words = FAILURES[name]
    with pytest.raises(UsageError, match=re.escape(words)):
        ask(*(argument.format(code=code, folder=tmp_path) for argument in arguments), stdin="x = @@\n")


def test_a_refusal_on_the_command_line(tmp_path: Path, code: Path) -> None:
    done = localspec("complete", *ASK, f"{code}:99:1", home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "has no line 99" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("flag", ["--prefix-file", "--suffix-file", "--context"])
def test_an_empty_name_of_a_file_is_no_file_left_out(tmp_path: Path, flag: str) -> None:
    done = localspec_here("complete", *ASK, flag, "", home=tmp_path, stdin=MARKED)
    assert (done.returncode, done.stdout, "the name is empty" in done.stderr) == (2, "", True)


def test_json_tells_of_a_failure_too(tmp_path: Path) -> None:
    done = localspec("complete", "-m", "toy", "--json", home=tmp_path, stdin=MARKED)
    record = json.loads(done.stdout)
    assert (done.returncode, record["type"], record["exit_code"]) == (1, "error", 1)
    assert "Qwen2.5-Coder" in record["hint"]


def test_on_a_terminal_the_figures_have_a_line_of_their_own(tmp_path: Path, code: Path) -> None:
    ask = ("-m", "app", "complete", *ASK, "--raw-output")
    for more, alone in (((), True), (("-q",), False)):
        terminal = PseudoTerminal([*ask, f"{code}:2:12", *more], tmp_path)
        try:
            assert terminal.exit_code() == 0
            assert bool(re.search(rb"^24 tokens ", terminal.bytes, re.MULTILINE)) is alone
            assert terminal.bytes.endswith(b"\n") is alone
        finally:
            terminal.close()


def test_ctrl_c_prints_what_there_is(tmp_path: Path) -> None:
    for patience in (1.5, 3, 6, 12, 24):
        status, out, told = interrupted(tmp_path, patience)
        if status == -signal.SIGINT and not out:
            # On a busy machine Python itself had not started yet.
            continue
        assert status == 130
        if len(out) > 24:
            break
    assert len(out) > 24
    assert b"Stopped." in told


def interrupted(home: Path, patience: float) -> tuple[int, bytes, bytes]:
    """Ask for very much, and stop it after a while, which may be before anything was said."""
    (home / "place").write_text(MARKED)
    arguments = [sys.executable, "-m", "app", "complete", *ASK[:-1], "1000000", "-c", "100000", "--raw-output"]
    with (home / "place").open() as place:
        process = subprocess.Popen(
            arguments, cwd=ROOT, env=environment(home), stdin=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    time.sleep(patience)
    process.send_signal(signal.SIGINT)
    out, told = process.communicate(timeout=60)
    return process.returncode, out, told


def test_an_interrupt_before_the_command_is_there_ends_like_one_after(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "app", "complete"],
        cwd=ROOT,
        env=environment(tmp_path),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert next(line for line in process.stderr if line.endswith(" click.core\n"))
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert (process.returncode, "Traceback" in said) == (130, False)
