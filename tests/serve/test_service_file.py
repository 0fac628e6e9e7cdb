"""`serve --print-service`: a file that starts the server with the flags of the command line."""

import configparser
import os
import plistlib
import shlex
import signal
import subprocess
from itertools import pairwise
from pathlib import Path

import click
import pytest
from run_localspec import ROOT, environment, localspec
from tiny_gguf import write_llama

from app.serve.options import serve
from app.serve.service_file import how_to_use, service_file


def printed(*arguments: str, system: str = "linux") -> str:
    return service_file(serve.make_context("serve", list(arguments)), system)


def arguments_of(unit: str) -> list[str]:
    """Return the command of a systemd unit."""
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(unit)
    assert parser["Install"]["WantedBy"] == "default.target"
    return [part.replace("%%", "%").replace("$$", "$") for part in shlex.split(parser["Service"]["ExecStart"])]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_llama(tmp_path / "big one.gguf")
    write_llama(tmp_path / "small.gguf")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_flags_are_repeated_and_files_have_their_whole_path(here: Path) -> None:
    given = [
        "big one.gguf",
        "-md",
        "model:small.gguf",
        "--models",
        "small,starter",
        "--port",
        "9000",
        "--alias",
        '50% "$x"',
    ]
    *_, last = arguments = arguments_of(printed(*given, "--print-service"))
    assert last == str(here / "big one.gguf")
    pairs = dict(pairwise(arguments))
    assert pairs["--draft"] == f"model:{here / 'small.gguf'}"
    assert pairs["--models"] == f"{here / 'small.gguf'},starter"
    assert (pairs["--port"], pairs["--alias"]) == ("9000", '50% "$x"')
    assert "--print-service" not in arguments
    assert "--host" not in arguments, "a default may change"


def test_a_key_is_not_written_into_the_file() -> None:
    for system in ("linux", "darwin"):
        file = printed("toy", "--api-key", "very-secret", system=system)
        assert "very-secret" not in file
        assert "LOCALSPEC_API_KEY" in file
        assert "LOCALSPEC_API_KEY" not in printed("toy", system=system)


def test_locked_memory_and_the_grace_period_are_allowed() -> None:
    unit = printed("toy", "--mlock", "--grace", "100")
    assert "LimitMEMLOCK=infinity" in unit
    assert "TimeoutStopSec=115" in unit
    assert "LimitMEMLOCK" not in printed("toy")


def test_a_launchd_agent_is_a_property_list(here: Path) -> None:
    agent = plistlib.loads(printed("big one.gguf", "--no-adapt", system="darwin").encode())
    assert agent["ProgramArguments"][-2:] == ["--no-adapt", str(here / "big one.gguf")]
    assert agent["KeepAlive"] == {"SuccessfulExit": False}
    assert "launchctl" in how_to_use("darwin")
    assert how_to_use("linux") == ""


def test_wrong_flags_print_no_file(tmp_path: Path) -> None:
    done = localspec("serve", "toy", "--host", "0.0.0.0", "--print-service", home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")


def test_the_command_of_the_file_starts_the_server(tmp_path: Path) -> None:
    done = localspec("serve", "toy", "--port", "0", "--print-service", home=tmp_path)
    assert done.returncode == 0, done.stderr
    file = (
        plistlib.loads(done.stdout.encode())["ProgramArguments"]
        if "<plist" in done.stdout
        else arguments_of(done.stdout)
    )
    with subprocess.Popen(file, cwd=ROOT, env=environment(tmp_path), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        told = next(line for line in process.stderr if "listening on" in line)
        os.kill(process.pid, signal.SIGTERM)
        process.stderr.read()
    assert "http://127.0.0.1:" in told
    assert process.returncode == 0


def test_every_flag_is_one_that_the_server_has() -> None:
    names = {parameter.name for parameter in serve.params if isinstance(parameter, click.Option)}
    assert {"print_service", "api_key", "models", "draft", "model_option"} <= names
