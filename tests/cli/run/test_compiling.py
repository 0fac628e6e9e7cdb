"""Leaving while kernels are compiled: the compilers end, and leave nothing behind."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from own_kernels import skip_where_impossible
from run_localspec import ROOT, environment
from tiny_gguf import write_llama


@pytest.fixture(autouse=True)
def _possible() -> None:
    skip_where_impossible()


def test_ctrl_c_ends_the_compilers_and_leaves_nothing_of_them(tmp_path: Path) -> None:
    compiler, begun, made = tmp_path / "compiler", tmp_path / "begun", tmp_path / "made"
    compiler.write_text(f"#!/bin/sh\necho $$ >> {begun}\nexec sleep 60\n")
    compiler.chmod(0o755)
    model = write_llama(tmp_path / "tiny.gguf")
    extra = {"PYTHONPYCACHEPREFIX": str(made), "CXX": str(compiler)}
    command = [sys.executable, "-m", "app", "run", str(model), "hi"]
    with subprocess.Popen(command, cwd=ROOT, env=environment(tmp_path, extra), stderr=subprocess.PIPE) as program:
        while not begun.exists() or not begun.read_text():
            assert program.poll() is None
            time.sleep(0.05)
        program.send_signal(signal.SIGINT)
        said = program.communicate(timeout=60)[1]
    assert program.returncode == 130
    assert b"stopped" in said
    assert not any(psutil.pid_exists(int(each)) for each in begun.read_text().split())
    assert not list(made.rglob("kernels-*"))
