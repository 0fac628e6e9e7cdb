"""A child process decodes first: what kills it becomes an answer or a sentence, and is remembered."""

import json
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import ModuleType

import psutil
import pytest
from tiny_gguf import write_llama

import app.engine.runtime.load
import models.llama.probe
import models.llama.probe_watch
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.loader import Loader
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.errors import Cancelled, LocalspecError, MemoryLimitError, ModelFileError
from models.llama.load import LlamaOptions
from models.llama.probe import choose_extra_buffers, identity
from models.llama.probe_watch import Outcome

ROOT = Path(__file__).parents[3]

ARGUMENTS = "import os, resource, signal, sys, time; path, extra = sys.argv[1:]; "
# A crash on purpose need not leave a core file behind.
DIE = "(resource.setrlimit(resource.RLIMIT_CORE, (0, 0)), os.kill(os.getpid(), signal.{}))"
posix_only = pytest.mark.skipif(sys.platform == "win32", reason="signals and resource limits are POSIX")


def only(model: Path, code: str) -> tuple[str, ...]:
    """Return the command of a child that does `code` with this model, and nothing with another one."""
    return child(f"path == {str(model)!r} and ({code})")


def child(code: str) -> tuple[str, ...]:
    """Return the command of a child that does `code` with a path and `extra`, "1" or "0"."""
    return (sys.executable, "-S", "-c", ARGUMENTS + code)


GOOD = child("pass")
DIES_WITH_EXTRA_BUFFERS = child(f"extra == '1' and {DIE.format('SIGILL')}")
ALWAYS_DIES = child(DIE.format("SIGILL"))
SAYS_READY = "open(os.environ['LOCALSPEC_PROBE_REPORT'], 'a').write('{\"ready\": %d}\\n' % os.getpid())"
MUST_NOT_RUN = ("this-program-does-not-exist",)


@pytest.fixture(autouse=True)
def left_out(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Note when the kernels of this process are left out: other tests want them as they are."""
    noted: list[bool] = []
    monkeypatch.setattr(models.llama.probe, "leave_kernels_out", lambda: noted.append(True))
    return noted


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_llama(tmp_path / "tiny.gguf")


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "probes.json"


def test_a_real_child_decodes_and_its_success_is_remembered(model: Path, memory: Path) -> None:
    assert choose_extra_buffers(model, memory) is True
    assert list(json.loads(memory.read_text()).values()) == [True]
    assert choose_extra_buffers(model, memory, MUST_NOT_RUN) is True


def test_a_command_that_can_not_run_is_noticed(model: Path, memory: Path) -> None:
    # The control of the one before: with nothing remembered, the command is run.
    with pytest.raises(FileNotFoundError):
        choose_extra_buffers(model, memory, MUST_NOT_RUN)


def test_the_child_says_nothing(model: Path) -> None:
    command = [sys.executable, "-P", "-m", "models.llama.probe_child", str(model), "0"]
    done = subprocess.run(command, capture_output=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_folder_of_the_users_named_models_is_never_run(
    model: Path, memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models").mkdir()
    for name in ("__init__.py", "probe_child.py"):
        (tmp_path / "models" / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    assert choose_extra_buffers(model, memory) is True
    assert not (tmp_path / "ran").exists()
    # Without the flag it would have been.
    subprocess.run([sys.executable, "-m", "models.llama.probe_child", str(model), "1"], timeout=120)
    assert (tmp_path / "ran").exists()


def test_the_child_is_told_the_model_and_first_asked_to_try_with_extra_buffers(model: Path, memory: Path) -> None:
    told = memory.parent.parent / "told"
    assert choose_extra_buffers(model, memory, child(f"open({str(told)!r}, 'a').write(path + ' ' + extra)"))
    assert told.read_text() == f"{model} 1"


@posix_only
def test_a_crash_with_extra_buffers_alone_leaves_them_out(model: Path, memory: Path) -> None:
    assert choose_extra_buffers(model, memory, DIES_WITH_EXTRA_BUFFERS) is False
    assert choose_extra_buffers(model, memory, MUST_NOT_RUN) is False


@posix_only
def test_kernels_of_our_own_are_left_out_with_them_by_child_and_parent(
    model: Path, memory: Path, left_out: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOCALSPEC_KERNELS", raising=False)
    told = memory.parent.parent / "told"
    tell = f"open({str(told)!r}, 'a').write(extra + os.environ.get('LOCALSPEC_KERNELS', '-') + ' ')"
    assert choose_extra_buffers(model, memory, child(tell)) is True
    assert left_out == []
    memory.unlink()
    dies = DIES_WITH_EXTRA_BUFFERS[-1].removeprefix(ARGUMENTS)
    assert choose_extra_buffers(model, memory, child(f"{tell}; {dies}")) is False
    assert told.read_text().split() == ["1-", "1-", "0off"]
    assert left_out == [True]


def test_other_kernels_or_none_are_another_build(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = set()
    for state in ("kernels 1", "kernels 2", "no kernels"):
        monkeypatch.setattr(models.llama.probe, "state", lambda state=state: state)
        names.add(identity(model))
    assert len(names) == 3


@posix_only
@pytest.mark.parametrize(("name", "number"), [("SIGILL", 4), ("SIGSEGV", 11), ("SIGABRT", 6)])
def test_a_crash_either_way_is_told_with_its_signal_and_the_remedy(
    model: Path, memory: Path, name: str, number: int
) -> None:
    with pytest.raises(LocalspecError) as failure:
        choose_extra_buffers(model, memory, child(DIE.format(name)))
    assert failure.value.exit_code == 1
    assert "crashes on this processor" in failure.value.title
    assert f"signal {number} " in failure.value.cause
    assert "tiny.gguf" in failure.value.cause
    assert "--reinstall-package llama-cpp-python" in failure.value.hint


@posix_only
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_child_that_somebody_stops_has_not_crashed(model: Path, memory: Path, name: str) -> None:
    with pytest.raises(Cancelled):
        choose_extra_buffers(model, memory, child(DIE.format(name)))
    assert not memory.exists()
    assert choose_extra_buffers(model, memory, GOOD) is True


@posix_only
def test_a_stop_ends_the_child_while_it_still_reads_the_model(model: Path, memory: Path, tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    class RaisedWhenItRuns(AbortFlag):
        @property
        def is_set(self) -> bool:
            return pid.exists() and pid.read_text().endswith(".")

    reads_long = child(f"open({str(pid)!r}, 'w').write(f'{{os.getpid()}}.'); time.sleep(60)")
    with pytest.raises(Cancelled):
        choose_extra_buffers(model, memory, reads_long, abort=RaisedWhenItRuns())
    assert_gone(int(pid.read_text().removesuffix(".")))
    assert not memory.exists()


def test_a_load_that_is_called_off_stops_the_child(model: Path, memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads_long = partial(choose_extra_buffers, command=child("time.sleep(60)"))
    monkeypatch.setattr(app.engine.runtime.load, "choose_extra_buffers", reads_long)
    plan, abort = LoadPlan(str(model), parse_drafter("off"), LlamaOptions(threads=1), memory), AbortFlag()
    abort.set()
    with pytest.raises(Cancelled, match="Trying the build"):
        Loader(plan, abort, time.perf_counter, lambda _, __: None).target()


@posix_only
def test_a_child_that_the_system_kills_wanted_more_memory_than_there_is(model: Path, memory: Path) -> None:
    with pytest.raises(MemoryLimitError, match=r"tiny\.gguf probably does not fit in memory") as failure:
        choose_extra_buffers(model, memory, child(DIE.format("SIGKILL")))
    assert "was killed" in failure.value.cause
    assert "smaller" in failure.value.hint
    assert not memory.exists()


@pytest.mark.parametrize(("code", "stopped"), [(0xC000013A, True), (0xC000001D, False)])
def test_ctrl_c_on_windows_has_a_code_among_those_of_crashes(
    model: Path, memory: Path, monkeypatch: pytest.MonkeyPatch, code: int, stopped: bool
) -> None:
    # An illegal instruction with extra buffers leaves them out; Ctrl-C says nothing about them.
    codes = iter([code, 0])
    monkeypatch.setattr(models.llama.probe, "watch", lambda *_: Outcome(next(codes)))
    with pytest.raises(Cancelled) if stopped else nullcontext():
        assert choose_extra_buffers(model, memory) is False
    assert memory.exists() is not stopped


@posix_only
def test_a_crash_is_not_remembered_since_a_new_build_may_mend_it(model: Path, memory: Path) -> None:
    with pytest.raises(LocalspecError):
        choose_extra_buffers(model, memory, ALWAYS_DIES)
    assert choose_extra_buffers(model, memory, GOOD) is True


@pytest.mark.parametrize("code", ["sys.exit(3)", "sys.exit('no reason')", "1 / 0"])
def test_a_file_at_which_a_child_fails_in_order_did_not_pass(model: Path, memory: Path, code: str) -> None:
    with pytest.raises(ModelFileError, match=r"tiny\.gguf can't be used") as failure:
        choose_extra_buffers(model, memory, only(model, code))
    assert failure.value.exit_code == 3
    assert "ended with code" in failure.value.cause
    assert not memory.exists()


def test_a_child_that_fails_at_a_good_file_too_says_nothing_of_the_file(model: Path, memory: Path) -> None:
    with pytest.raises(LocalspecError, match="can't be tried in a child process") as failure:
        choose_extra_buffers(model, memory, child("sys.exit(3)"))
    assert failure.value.exit_code == 1


def test_a_child_that_takes_too_long_did_not_pass_and_is_ended(
    model: Path, memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models.llama.probe, "_SECONDS", 0.3)
    pid = tmp_path / "pid"
    code = f"(open({str(pid)!r}, 'w').write(str(os.getpid())), {SAYS_READY}, time.sleep(60))"
    with pytest.raises(ModelFileError, match=r"tiny\.gguf can't be used") as failure:
        choose_extra_buffers(model, memory, only(model, code))
    assert "did not end within" in failure.value.cause
    assert not memory.exists()
    assert_gone(int(pid.read_text()))


def test_where_a_good_file_takes_too_long_too_the_file_is_not_blamed(
    model: Path, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models.llama.probe_watch, "_STARTING", 0.2)
    with pytest.raises(LocalspecError, match="does not come to an end") as failure:
        choose_extra_buffers(model, memory, child("time.sleep(60)"))
    assert failure.value.exit_code == 1


@posix_only
@pytest.mark.parametrize("name", ["SIGILL", "SIGSEGV", "SIGABRT"])
def test_a_file_at_which_alone_a_child_dies_is_at_fault(model: Path, memory: Path, name: str) -> None:
    dies = f"(os.write(2, b'GGML_ASSERT(false) failed'), {DIE.format(name)})"
    with pytest.raises(ModelFileError, match=r"tiny\.gguf can't be used") as failure:
        choose_extra_buffers(model, memory, only(model, dies))
    assert failure.value.exit_code == 3
    assert "GGML_ASSERT(false) failed" in failure.value.cause
    assert "Rebuild" not in str(failure.value)


@posix_only
@pytest.mark.parametrize("number", ["SIGTERM", "SIGKILL"])
def test_a_child_ends_with_a_process_that_is_ended(model: Path, tmp_path: Path, number: str) -> None:
    pid = tmp_path / "pid"
    writes = child(f"open({str(pid)!r}, 'w').write(f'{{os.getpid()}}.'); time.sleep(60)")
    code = (
        "from pathlib import Path; from models.abort import AbortFlag; from models.llama.probe_watch import watch\n"
        f"watch({[*writes, str(model), '1']!r}, 60, {{}}, AbortFlag())"
    )
    asker = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    until = time.monotonic() + 60
    while not (pid.exists() and pid.read_text().endswith(".")) and time.monotonic() < until:
        time.sleep(0.02)
    asker.send_signal(getattr(signal, number))
    asker.wait()
    assert_gone(int(pid.read_text().removesuffix(".")))


def test_a_child_without_a_core_has_longer_by_the_clock(
    model: Path, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models.llama.probe, "_SECONDS", 0.5)
    # A child that sleeps computes as little as one that waits for a core.
    assert choose_extra_buffers(model, memory, child(f"({SAYS_READY}, time.sleep(1.5))")) is True


def test_a_child_that_computes_without_end_is_ended_at_its_processor_time(
    model: Path, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models.llama.probe, "_SECONDS", 0.5)
    monkeypatch.setattr(models.llama.probe_watch, "_LONGEST_WAIT", 10**6)
    with pytest.raises(ModelFileError, match="did not end within"):
        choose_extra_buffers(model, memory, only(model, f"({SAYS_READY}, sum(iter(int, 1)))"))


def assert_gone(process: int) -> None:
    """Assert that a process is gone, or is so in a moment: a signal takes one to arrive."""
    until = time.monotonic() + 20
    while lives(process) and time.monotonic() < until:
        time.sleep(0.02)
    assert not lives(process)


def lives(process: int) -> bool:
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@posix_only
def test_another_model_or_another_machine_is_tried_anew(
    model: Path, memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert choose_extra_buffers(model, memory, GOOD) is True
    other = write_llama(tmp_path / "other.gguf", seed=1)
    assert choose_extra_buffers(other, memory, DIES_WITH_EXTRA_BUFFERS) is False
    assert choose_extra_buffers(model, memory, MUST_NOT_RUN) is True
    monkeypatch.setattr(models.llama.probe, "machine_id", lambda: "another")
    assert choose_extra_buffers(model, memory, DIES_WITH_EXTRA_BUFFERS) is False


@posix_only
@pytest.mark.parametrize("change", ["nothing", "model", "version", "build"])
def test_a_changed_model_version_or_build_is_tried_anew(
    model: Path, memory: Path, change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "lib" / "libllama.so"
    library.parent.mkdir()
    library.write_bytes(b"one build")
    bindings = ModuleType("llama_cpp")
    bindings.__file__ = str(tmp_path / "llama_cpp.py")
    monkeypatch.setattr(models.llama.probe, "llama_cpp", lambda: bindings)
    assert choose_extra_buffers(model, memory, GOOD) is True
    if change == "model":
        write_llama(model, n_layer=1)
    elif change == "version":
        monkeypatch.setattr(models.llama.probe, "VERSION", "0.0.0")
    elif change == "build":
        library.write_bytes(b"another build")
    assert choose_extra_buffers(model, memory, DIES_WITH_EXTRA_BUFFERS) is (change == "nothing")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\x00", b"[]", b"7", b"null", b'{"other": true}'])
def test_a_damaged_memory_is_as_good_as_none(model: Path, memory: Path, content: bytes) -> None:
    memory.parent.mkdir()
    memory.write_bytes(content)
    assert choose_extra_buffers(model, memory, GOOD) is True
    assert choose_extra_buffers(model, memory, MUST_NOT_RUN) is True


def test_what_others_remembered_is_kept(model: Path, memory: Path) -> None:
    memory.parent.mkdir()
    memory.write_text('{"other": false}')
    choose_extra_buffers(model, memory, GOOD)
    assert json.loads(memory.read_text())["other"] is False


def test_a_memory_that_can_not_be_written_costs_only_another_try(model: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    memory = tmp_path / "file" / "probes.json"
    assert choose_extra_buffers(model, memory, GOOD) is True
    with pytest.raises(FileNotFoundError):
        choose_extra_buffers(model, memory, MUST_NOT_RUN)


def test_a_model_whose_file_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"gone.gguf can't be looked at") as failure:
        identity(tmp_path / "gone.gguf", tmp_path)
    assert failure.value.hint


def test_another_choice_of_kernels_is_another_build(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {identity(model, tmp_path)}
    for value in ("0", "1"):
        monkeypatch.setenv("GGML_CPU_TILED_MM", value)
        names.add(identity(model, tmp_path))
    assert len(names) == 3
    monkeypatch.delenv("GGML_CPU_TILED_MM")
    monkeypatch.setenv("OTHER_PROGRAMS", "1")
    assert identity(model, tmp_path) in names
