"""Ctrl-C while something is measured or answered: the first stops it, the second ends the program."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from run_localspec import ROOT, environment

from app.shell.interrupt import run_interruptible
from models.abort import AbortFlag


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def interrupt_until(abort: AbortFlag) -> None:
    interrupt()
    while not abort.is_set:
        time.sleep(0.001)


def test_the_first_interrupt_raises_the_flag_and_the_second_ends_the_program() -> None:
    abort = AbortFlag()
    run_interruptible(lambda: interrupt_until(abort), abort)
    assert abort.is_set
    abort = AbortFlag()

    def twice() -> None:
        interrupt_until(abort)
        interrupt()

    with pytest.raises(KeyboardInterrupt):
        run_interruptible(twice, abort)


def test_an_interrupt_that_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    abort = AbortFlag()
    run_interruptible(interrupt, abort)
    assert not abort.is_set
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def ignore() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def test_an_answer_in_the_background_of_a_script_hears_no_interrupt(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "app", "run", "toy", "--temp", "0", "--no-history", "Hi"]
    answer = subprocess.Popen(
        command, cwd=ROOT, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=ignore
    )
    assert answer.stdout is not None
    first = answer.stdout.read(1)
    answer.send_signal(signal.SIGINT)
    rest, told = answer.communicate(timeout=60)
    assert answer.returncode == 0, told
    assert len(first + rest) > 400
