"""Compiling the kernels: once, whole or not at all, and a sentence where it can't be done."""

import errno
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pytest

import models.kernels.compilers as compilers
import models.kernels.compiling as compiling
import models.kernels.takeover as takeover
from models.abort import AbortFlag
from models.errors import Cancelled, LocalspecError
from models.gguf.header import Header, Tensor
from models.kernels.compiling import OFF, check_possible, compiled, state
from models.kernels.takeover import suits
from models.system.file_lock import locked

UNITS = [source for source in compiling._SOURCES if source.suffix == ".cpp"]
NEEDED = frozenset({"avx2", "fma", "f16c"})
HANGS = "sleep 60 & echo $$ $! >> {}/running; wait"
"""What a compiler does that starts another program, and does not end."""
DAY = 86_400


@pytest.fixture(autouse=True)
def _possible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test be about what it is about, wherever it runs."""
    for name in (OFF, "CXX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(compiling.sys, "platform", "linux")
    monkeypatch.setattr(compiling.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(compiling, "processor_flags", lambda: NEEDED)


def compiler(folder: Path, does: str) -> str:
    """Write a program that is called as a compiler is; in it `$out` is the file to write."""
    program = folder / "compiler"
    program.write_text(f'#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done; out=$2\n{does}\n')
    program.chmod(0o755)
    return str(program)


def test_it_is_done_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", compiler(tmp_path, f'echo >> {tmp_path}/runs; echo made > "$out"'))
    library = compiled((), tmp_path / "made")
    assert library.read_text() == "made\n"
    assert compiled((), tmp_path / "made") == library
    assert len((tmp_path / "runs").read_text()) == len(UNITS) + 1, "each unit, and all together"
    assert {each.name for each in left_in(library.parent)} == {library.name, f"{library.name}.sha256"}


def test_other_flags_or_sources_are_another_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", compiler(tmp_path, 'echo made > "$out"'))
    monkeypatch.setattr(compiling, "cache_from_source", lambda _: str(tmp_path / "made" / "x.pyc"))
    monkeypatch.setattr(compiling, "_spare_folder", lambda: tmp_path / "spare")
    assert state() == "no kernels"
    first, known = compiled(), state()
    changed = tmp_path / "matmul.cpp"
    changed.write_text("// something else")
    monkeypatch.setattr(compiling, "_SOURCES", (changed,))
    assert state() == "no kernels", "not compiled yet, or not to be compiled"
    second = compiled()
    assert second != first
    assert state() not in (known, "no kernels")
    assert first.is_file(), "another version of localspec may use it"


def test_what_a_compiler_says_is_told_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", compiler(tmp_path, r'echo half > "$out"; printf "caf\351: no such flag" >&2; exit 1'))
    with pytest.raises(LocalspecError, match="can't be compiled") as failure:
        compiled((), tmp_path / "made")
    assert "caf\N{REPLACEMENT CHARACTER}: no such flag" in failure.value.cause
    assert "CXX=" in failure.value.hint
    assert not list((tmp_path / "made").glob("*.partial"))
    assert not list((tmp_path / "made").glob("*.so"))


@pytest.mark.parametrize(
    ("named", "cause"), [("conda-linux-gnu-c++", "can't be run: No such file"), ("g++ '-O2", "No closing quotation")]
)
def test_a_compiler_that_is_none_is_told_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, cause: str
) -> None:
    monkeypatch.setenv("CXX", named)
    with pytest.raises(LocalspecError, match="can't be compiled") as failure:
        compiled((), tmp_path)
    assert named in failure.value.cause
    assert cause in failure.value.cause
    assert "CXX=" in failure.value.hint


def test_a_compiler_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", compiler(tmp_path, HANGS.format(tmp_path)))
    monkeypatch.setattr(compiling, "_SECONDS", 0.5)
    with pytest.raises(LocalspecError, match="can't be compiled") as failure:
        compiled((), tmp_path / "made")
    assert "took over" in failure.value.cause
    assert_nothing_runs_on(tmp_path)


def test_one_that_is_stopped_ends_all_compilers_leaves_nothing_and_begins_anew_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", compiler(tmp_path, HANGS.format(tmp_path)))
    monkeypatch.setattr(compiling, "physical_cores", lambda: 3)
    abort = AbortFlag()
    monkeypatch.setattr(compilers, "_check_time", once_begun(tmp_path, 3, abort.set))
    with pytest.raises(Cancelled):
        compiled((), tmp_path / "made", abort)
    assert_nothing_runs_on(tmp_path)
    assert left_in(tmp_path / "made") == []
    # So does Ctrl-C, which is raised in mid of it.
    monkeypatch.setattr(compilers, "_check_time", once_begun(tmp_path, 6, interrupt))
    with pytest.raises(KeyboardInterrupt):
        compiled((), tmp_path / "made")
    assert_nothing_runs_on(tmp_path)
    assert left_in(tmp_path / "made") == []


def left_in(folder: Path) -> list[Path]:
    """Return the files of a folder without the lock, which stays: a second one of its name would be a second lock."""
    return [file for file in folder.iterdir() if file.name != compiling._LOCK]


def test_of_processes_that_start_together_one_compiles_and_the_others_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = f'echo >> {tmp_path}/runs; sleep 0.3; echo $$ > "$out"'
    monkeypatch.setenv("CXX", compiler(tmp_path, slow))
    # Each opens the lock for itself, as a process does.
    with ThreadPoolExecutor(3) as together:
        made = [*together.map(lambda _: compiled((), tmp_path / "made").read_text(), range(3))]
    assert len(set(made)) == 1
    assert len((tmp_path / "runs").read_text().splitlines()) == len(UNITS) + 1, "each unit once, and the library"


def test_without_locks_it_is_compiled_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(compiling, "locked", refuses)
    monkeypatch.setenv("CXX", compiler(tmp_path, 'echo made > "$out"'))
    assert compiled((), tmp_path / "made").read_text() == "made\n"


def test_one_that_waits_for_another_can_be_stopped(tmp_path: Path) -> None:
    abort = AbortFlag()
    abort.set()
    (made := tmp_path / "made").mkdir(mode=0o700)
    with locked(made / compiling._LOCK), pytest.raises(Cancelled, match="another process"):
        compiled((), made, abort)
    assert left_in(made) == []


def interrupt() -> None:
    raise KeyboardInterrupt


def once_begun(folder: Path, compilers_begun: int, does: Callable[..., object]) -> Callable[..., None]:
    """Give a check of the time that first does something, once so many compilers have ever been begun."""
    check_time, running = compilers._check_time, folder / "running"

    def check(*given: Any) -> None:
        if running.exists() and len(running.read_text().splitlines()) == compilers_begun:
            does()
        check_time(*given)

    return check


def assert_nothing_runs_on(folder: Path) -> None:
    """Assert that compilers were started, and that neither they nor what they started is there any more."""
    started = [int(each) for each in (folder / "running").read_text().split()]
    assert started
    # A process that was killed is gone a moment later, and the sleep of sixty seconds long after that.
    until = time.monotonic() + 20
    while any(map(runs, started)) and time.monotonic() < until:
        time.sleep(0.01)
    assert not [each for each in started if runs(each)]


def runs(process: int) -> bool:
    try:
        # Without an init, no process waits for its children.
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_units_are_compiled_side_by_side_and_one_that_fails_ends_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = f'case "$out" in *k_quants*) sleep 0.3; echo sorry; exit 1;; esac; {HANGS.format(tmp_path)}'
    monkeypatch.setenv("CXX", compiler(tmp_path, fails))
    monkeypatch.setattr(compiling, "physical_cores", lambda: 3)
    with pytest.raises(LocalspecError, match="can't be compiled") as failure:
        compiled((), tmp_path / "made")
    assert "sorry" in failure.value.cause
    assert_nothing_runs_on(tmp_path)


# --- what failed, and what is old -------------------------------------------------------------------------------------


def test_a_compiler_that_failed_is_not_tried_at_every_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", compiler(tmp_path, f"echo >> {tmp_path}/runs; echo no such flag; exit 1"))
    monkeypatch.setattr(compiling, "physical_cores", lambda: 1)
    for _ in range(2):
        with pytest.raises(LocalspecError, match="can't be compiled") as failure:
            compiled((), tmp_path / "made")
    assert (tmp_path / "runs").read_text() == "\n"
    assert "tried before" in failure.value.cause
    assert "no such flag" in failure.value.cause
    (known,) = left_in(tmp_path / "made")
    assert f"rm {known}" in failure.value.hint
    with pytest.raises(LocalspecError, match="can't be compiled"):
        compiled(("-DOTHER",), tmp_path / "made")
    assert (tmp_path / "runs").read_text() == "\n\n", "other flags may do"
    os.utime(known, (0, time.time() - 2 * DAY))
    with pytest.raises(LocalspecError, match="can't be compiled"):
        compiled((), tmp_path / "made")
    assert (tmp_path / "runs").read_text() == "\n\n\n", "what it lacked may be there the day after"
    monkeypatch.setenv("CXX", compiler(tmp_path, 'echo made > "$out" # another one'))
    assert compiled((), tmp_path / "made").is_file()


def test_a_compiler_that_somebody_ended_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", compiler(tmp_path, "kill -9 $$"))
    with pytest.raises(LocalspecError, match="can't be compiled"):
        compiled((), tmp_path / "made")
    assert left_in(tmp_path / "made") == []


def test_what_nobody_used_for_long_and_what_a_killed_process_left_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", compiler(tmp_path, 'echo made > "$out"'))
    first, second = compiled((), tmp_path), compiled(("-DOTHER",), tmp_path)
    left, begun = tmp_path / "kernels-x.so.1.partial", tmp_path / "kernels-x.so.2.partial"
    for folder in (left, begun):
        folder.mkdir()
        (folder / "matmul.o").touch()
    os.utime(left, (0, time.time() - DAY))
    for library in (first, second):
        os.utime(library, (0, time.time() - 31 * DAY))
    assert compiled((), tmp_path) == first
    assert first.is_file(), "it is in use"
    assert not second.exists()
    assert not left.exists()
    assert begun.is_dir(), "another process is at it"


def test_without_a_compiler_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(LocalspecError, match="no C\\+\\+ compiler") as failure:
        compiled((), tmp_path)
    assert "g++" in failure.value.hint


def test_an_installation_that_can_not_be_written_keeps_them_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(compiling, "cache_from_source", lambda _: str(tmp_path / "file" / "__pycache__" / "x.pyc"))
    monkeypatch.setattr(compiling, "_spare_folder", lambda: tmp_path / "cache")
    monkeypatch.setenv("CXX", compiler(tmp_path, 'echo made > "$out"'))
    assert compiled().parent == tmp_path / "cache"
    monkeypatch.setattr(compiling, "_spare_folder", lambda: tmp_path / "file" / "cache")
    with pytest.raises(LocalspecError, match="can't be kept"):
        compiled()


def test_a_folder_of_somebody_else_that_is_there_is_no_place_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No user can create a file there, the superuser included.
    monkeypatch.setattr(compiling, "cache_from_source", lambda _: "/proc/self/x.pyc")
    monkeypatch.setattr(compiling, "_spare_folder", lambda: tmp_path / "cache")
    monkeypatch.setenv("CXX", compiler(tmp_path, f'echo >> {tmp_path}/runs; echo made > "$out"'))
    assert compiled().parent == tmp_path / "cache"
    assert len((tmp_path / "runs").read_text()) == len(UNITS) + 1, "nothing is compiled in vain"


@pytest.mark.parametrize("said", ["off", "OFF", "0", "no"])
def test_they_can_be_switched_off(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_possible()
    monkeypatch.setenv(OFF, said)
    with pytest.raises(LocalspecError, match=f"{OFF} is {said}"):
        check_possible()
    assert state() == "no kernels"


def test_a_processor_that_lacks_an_instruction_is_told_which() -> None:
    with pytest.raises(LocalspecError, match="lacks f16c, fma"):
        check_possible(frozenset({"avx2"}))


def test_another_system_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling.sys, "platform", "darwin")
    with pytest.raises(LocalspecError, match="Linux"):
        check_possible()


def tensor(name: str, kind: str, size: int) -> Tensor:
    return Tensor(name, kind, size, size, 8)


@pytest.mark.parametrize(
    ("tensors", "fits"),
    [
        ([tensor("blk.0.ffn_up.weight", "Q4_K", 60), tensor("output.weight", "Q8_0", 40)], True),
        ([tensor("blk.0.ffn_up.weight", "Q4_K", 40), tensor("output.weight", "Q8_0", 60)], False),
        ([tensor("blk.0.ffn_up_exps.weight", "Q4_K", 60), tensor("output.weight", "Q8_0", 40)], True),
        ([tensor("output.weight", "Q5_K", 60), tensor("token_embd.weight", "Q8_0", 90)], True),
        ([tensor("blk.0.ffn_up.weight", "IQ4_XS", 60)], False),
    ],
    ids=["most", "too little", "experts", "a table of embeddings is not read", "other types"],
)  # fmt: skip
def test_they_suit_models_that_are_mostly_read_by_them(tensors: list[Tensor], fits: bool) -> None:
    header = Header(Path(os.devnull), 3, {"general.architecture": "llama"}, tuple(tensors), (), 0)
    assert suits(header, frozenset({"Q4_K", "Q5_K", "Q6_K"})) is fits


def test_compiling_ahead_is_stopped_and_otherwise_leaves_it_to_others_to_say_what_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flag, seen = AbortFlag(), []

    def fails(error: Exception) -> Callable[..., None]:
        def compiled(*, abort: AbortFlag) -> None:
            seen.append(abort)
            raise error

        return compiled

    monkeypatch.setattr(takeover, "open_kernels", cache(lambda: None))
    monkeypatch.setattr(takeover, "check_engine", lambda _: None)
    for error in (LocalspecError("no compiler"), OSError("no room")):
        monkeypatch.setattr(takeover, "compiled", fails(error))
        takeover.compile_kernels(flag)
    monkeypatch.setattr(takeover, "compiled", fails(Cancelled("stopped")))
    with pytest.raises(Cancelled):
        takeover.compile_kernels(flag)
    assert seen == [flag] * 3
    takeover.open_kernels()
    takeover.compile_kernels(flag)
    assert len(seen) == 3, "an engine that runs has its kernels, or none"


def test_who_loads_is_told_of_it_while_it_lasts_and_not_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", compiler(tmp_path, 'echo made > "$out"'))
    monkeypatch.setattr(compiling, "cache_from_source", lambda _: str(tmp_path / "made" / "x.pyc"))
    monkeypatch.setattr(takeover, "check_engine", lambda _: None)
    monkeypatch.setattr(takeover, "open_kernels", cache(lambda: None))
    told: list[str] = []
    takeover.compile_kernels(AbortFlag(), lambda: told.append(state()))
    assert told == ["no kernels"]
    takeover.compile_kernels(AbortFlag(), lambda: told.append(state()))
    assert told == ["no kernels"]
    monkeypatch.setenv(OFF, "off")
    takeover.compile_kernels(AbortFlag(), lambda: told.append("never"))
    assert "never" not in told
