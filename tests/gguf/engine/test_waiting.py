"""Threads of the engine that wait for each other soon let other programs have the core."""

import os
import subprocess
import sys

import pytest
from run_localspec import ROOT

SHOWN = "from models.llama.bindings import llama_cpp; llama_cpp()"


def spins(**chosen: str) -> str:
    """Return what GNU's OpenMP says it took from the environment, once the engine is loaded."""
    kept = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    environment = {**kept, "OMP_DISPLAY_ENV": "verbose", **chosen}
    done = subprocess.run(
        [sys.executable, "-c", SHOWN], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    found = [line.split("'")[1] for line in done.stderr.splitlines() if "GOMP_SPINCOUNT" in line]
    if not found:
        pytest.skip("this engine was not built with GNU's OpenMP")
    return found[0]


def test_a_thread_that_waits_does_not_count_for_milliseconds() -> None:
    assert spins() == "5000"


def test_who_has_chosen_a_way_to_wait_keeps_it() -> None:
    assert spins(GOMP_SPINCOUNT="77") == "77"
    assert spins(OMP_WAIT_POLICY="passive") == "0"
