"""The box that programs of a model run in: what they may not do, and what does not count as having passed."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from sandbox import Limits, Outcome, run_program, wait_and_kill

SHORT = Limits(cpu_seconds=1, wall_seconds=30)
PASSED = Outcome(True, "")


def why(program: str, limits: Limits = SHORT) -> str:
    """Return what stopped a program, which must not have passed."""
    outcome = run_program(program, limits)
    assert not outcome.passed
    assert outcome.why
    return outcome.why


def test_a_program_that_comes_to_its_end_passes() -> None:
    assert run_program("from math import sqrt\nassert sqrt(4) == 2") == PASSED


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("assert 1 + 1 == 3", "AssertionError: "),
        ("assert 1 + 1 == 3, 'not so'", "AssertionError: not so"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def f(:", "SyntaxError: invalid syntax (program, line 1)"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt: "),
        ("f = lambda: f()\nf()", "RecursionError: maximum recursion depth exceeded"),
    ],
)
def test_a_program_that_raises_does_not_pass_and_says_what(program: str, reason: str) -> None:
    assert why(program) == reason


@pytest.mark.parametrize(
    ("leave", "reason"),
    [
        ("import sys; sys.exit(0)", "SystemExit: 0"),
        ("raise SystemExit", "SystemExit: "),
        ("exit()", "NameError: name 'exit' is not defined"),
        ("import os; os._exit(0)", "left with code 0 before its end"),
        ("import os; os._exit(3)", "left with code 3 before its end"),
        ("import os; os.execv('/bin/true', ['true'])", "PermissionError: os.exec is refused"),
        ("import os, threading; threading.Thread(target=os._exit, args=(0,)).start()\nwhile True: pass", ""),
    ],
)
def test_who_leaves_early_has_not_passed(leave: str, reason: str) -> None:
    assert reason in why(f"{leave}\nassert False, 'the checks'")


def test_an_error_that_can_not_be_told_is_no_pass() -> None:
    program = "class E(Exception):\n    def __str__(self): raise self\nraise E"
    assert why(program) == "left with code 1 before its end"


def test_what_an_error_says_is_cut() -> None:
    assert len(why("raise ValueError('x' * 10**6)")) == 500


def test_an_endless_loop_is_killed() -> None:
    assert why("while True: pass") == "killed by SIGXCPU"


def test_an_endless_loop_that_ignores_the_signal_is_killed_too() -> None:
    assert why("import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass") == "killed by SIGKILL"


def test_a_program_that_sleeps_is_not_waited_for() -> None:
    assert why("import time; time.sleep(30)", Limits(wall_seconds=0.5)) == "took longer than 0.5 s"


def is_over(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_all_of_a_process_group_is_killed() -> None:
    child = subprocess.Popen(["sh", "-c", "sleep 30 & echo $!; wait"], stdout=subprocess.PIPE, start_new_session=True)
    assert child.stdout is not None
    with child.stdout as lines:
        grandchild = psutil.Process(int(lines.readline()))
    assert wait_and_kill(child, 0.1) is None
    waited = 0
    while not is_over(grandchild) and waited < 50:
        time.sleep(0.1)
        waited += 1
    assert is_over(grandchild)


def test_a_memory_hog_gets_no_more_than_its_limit() -> None:
    assert why("hog = bytearray(10**10)") == "MemoryError: "
    program = """
hog = []
try:
    while True:
        hog.append(bytearray(1 << 20))
except MemoryError:
    got = len(hog)
    del hog
assert 0 < got < 200, got
"""
    assert run_program(program, Limits(memory_bytes=200 << 20)) == PASSED


def test_a_memory_hog_that_goes_on_is_killed() -> None:
    program = """
hog = []
while True:
    try:
        hog.append(bytearray(1 << 20))
    except MemoryError:
        pass
"""
    assert why(program) == "killed by SIGXCPU"


def test_a_fork_bomb_makes_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""
    found, kill = [], os.killpg

    def kill_the_rest(group: int, number: int) -> None:
        # Looks at no other process: tests that run at the same time have sandboxes of their own.
        found.append("nobody")
        kill(group, number)
        found[-1] = "somebody"

    monkeypatch.setattr("sandbox.os.killpg", kill_the_rest)
    assert why(program) == "killed by SIGXCPU"
    assert found == ["nobody"]


@pytest.mark.parametrize(
    "program",
    [
        "import os; os.fork()",
        "import os; os.system('true')",
        "import os; os.posix_spawn('/bin/true', ['true'], {})",
        "import subprocess; subprocess.run(['true'])",
        "import multiprocessing as m; m.get_context('fork').Process(target=print).start()",
        "import os; os.kill(os.getppid(), 0)",
        "import ctypes; ctypes.CDLL(None).fork()",
    ],
)
def test_other_processes_are_out_of_reach(program: str) -> None:
    assert why(program).startswith("PermissionError: ")


def test_the_limits_are_those_given_and_can_not_be_raised() -> None:
    program = """
import resource
assert resource.getrlimit(resource.RLIMIT_NPROC) == (0, 0)
assert resource.getrlimit(resource.RLIMIT_CPU) == (7, 8)
assert resource.getrlimit(resource.RLIMIT_AS) == (300 << 20, 300 << 20)
assert resource.getrlimit(resource.RLIMIT_FSIZE) == (1000, 1000)
try:
    resource.setrlimit(resource.RLIMIT_CPU, (99, 99))
except PermissionError:
    refused = True
assert refused
"""
    assert run_program(program, Limits(cpu_seconds=7, memory_bytes=300 << 20, file_bytes=1000)) == PASSED


def test_a_huge_file_is_not_written() -> None:
    assert run_program("open('small', 'w').write('x' * 1000)\nassert len(open('small').read()) == 1000") == PASSED
    assert why("open('big', 'wb').write(bytes(5_000_000))", Limits(file_bytes=1 << 20)).endswith("File too large")


def test_the_working_directory_is_empty_and_thrown_away() -> None:
    folder = why("import os\nassert os.listdir() == []\nopen('left', 'w').close()\nraise ValueError(os.getcwd())")
    path = Path(folder.removeprefix("ValueError: "))
    assert path.is_absolute()
    assert not path.exists()


@pytest.mark.parametrize(
    "change",
    [
        "open({path!r}, 'w')",
        "open({path!r}, 'a')",
        "import os; os.open({path!r}, os.O_RDWR)",
        "import os; os.remove({path!r})",
        "import os; os.rename({path!r}, 'mine')",
        "import pathlib; pathlib.Path({path!r}).write_text('')",
        "import os, shutil; shutil.rmtree(os.path.dirname({path!r}))",
        "import os; os.chmod({path!r}, 0)",
    ],
)
def test_files_outside_stay_as_they_are(tmp_path: Path, change: str) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("precious")
    mode = mine.stat().st_mode
    assert why(change.format(path=str(mine))).startswith("PermissionError: ")
    assert (mine.read_text(), mine.stat().st_mode, list(tmp_path.iterdir())) == ("precious", mode, [mine])


def test_there_is_nothing_to_read_on_standard_input() -> None:
    assert why("input()") == "EOFError: EOF when reading a line"
    assert run_program("import sys\nassert sys.stdin.read() == ''") == PASSED


def test_the_request_can_not_be_read_again() -> None:
    program = """
import os
found = b""
for descriptor in range(64):
    try:
        os.lseek(descriptor, 0, 0)
        found += os.read(descriptor, 10_000)
    except OSError:
        pass
assert found == b"", found
"""
    assert run_program(program) == PASSED


def test_a_flood_of_output_goes_nowhere() -> None:
    assert run_program("import sys\nfor _ in range(200): print('x' * 10**6), sys.stderr.write('y' * 10**6)") == PASSED


def test_a_flood_on_every_descriptor_is_no_pass_and_fills_nothing() -> None:
    program = """
import os
for descriptor in range(3, 64):
    try:
        for _ in range(100):
            os.write(descriptor, b"x" * 10**6)
    except OSError:
        pass
"""
    assert why(program) == "left with code 1 before its end"


def test_a_secret_that_is_made_up_is_no_pass() -> None:
    program = """
import json, os
for descriptor in range(3, 64):
    try:
        os.write(descriptor, json.dumps({"secret": "0" * 32, "why": "a guess"}).encode())
    except OSError:
        pass
os._exit(0)
"""
    assert why(program) == "a guess"


def test_there_is_no_network() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        told = why(f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 1)")
    assert told.startswith("PermissionError: socket.")
    assert why("import socket\nsocket.socket()") == "PermissionError: socket.__new__ is refused"


def test_nothing_of_our_environment_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALSPEC_SECRET", "1")
    program = "import os, sys\nassert 'LOCALSPEC_SECRET' not in os.environ\nassert 'sandbox' not in sys.modules"
    assert run_program(program) == PASSED
    assert why("import numpy") == "ModuleNotFoundError: No module named 'numpy'"
    assert why("import sandbox") == "ModuleNotFoundError: No module named 'sandbox'"


def test_the_same_program_meets_the_same_order_of_sets() -> None:
    program = "raise ValueError([*{'a', 'b', 'c', 'd', 'e', 'f', 'g'}], hash('a'))"
    assert len({why(program) for _ in range(3)}) == 1


def test_a_main_part_is_not_run() -> None:
    assert run_program("if __name__ == '__main__':\n    raise ValueError") == PASSED


def test_what_a_program_left_to_be_done_at_its_exit_is_not_waited_for() -> None:
    assert run_program("import atexit, time\natexit.register(time.sleep, 1000)", Limits(wall_seconds=10)) == PASSED


def test_signals_have_names() -> None:
    assert why("import signal\nsignal.raise_signal(signal.SIGTERM)") == f"killed by {signal.SIGTERM.name}"
