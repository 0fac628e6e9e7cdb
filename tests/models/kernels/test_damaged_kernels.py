"""Compiled kernels that are damaged, or not this user's own: never loaded, compiled anew, and logged."""

import ctypes
import logging
import os
import shutil
import stat
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from random import Random

import psutil
import pytest
from damaged_files import CONTENT, DAMAGE

import models.kernels.compiling as compiling
import models.kernels.takeover as takeover
from models.abort import AbortFlag
from models.errors import LocalspecError
from models.kernels.compiling import OFF, compiled, is_compiled, state
from models.system.sealed import SEAL

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernels are for Linux")
SOURCE = 'extern "C" int answer() { return 42; }\n'
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile a library of one function."""
    folder = tmp_path_factory.mktemp("good")
    (folder / "tiny.cpp").write_text(SOURCE)
    subprocess.run(["c++", "-shared", "-fPIC", "-o", folder / "tiny.so", folder / "tiny.cpp"], check=True)
    return folder / "tiny.so"


@pytest.fixture
def place(tmp_path: Path, good: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Compile by copying a good library; return the folder of what is compiled, whose parent counts the runs."""
    program = tmp_path / "compiler"
    program.write_text(f'#!/bin/sh\necho >> {tmp_path}/runs\nwhile [ "$1" != -o ]; do shift; done; cp {good} "$2"\n')
    program.chmod(0o755)
    (tmp_path / "one.cpp").write_text(SOURCE)
    monkeypatch.delenv(OFF, raising=False)
    monkeypatch.setenv("CXX", str(program))
    monkeypatch.setattr(compiling, "check_possible", lambda: None)
    monkeypatch.setattr(takeover, "check_engine", lambda _: None)
    monkeypatch.setattr(compiling, "_SOURCES", (tmp_path / "one.cpp",))
    monkeypatch.setattr(compiling, "cache_from_source", lambda _: str(tmp_path / "made" / "x.pyc"))
    monkeypatch.setattr(compiling, "_spare_folder", lambda: tmp_path / "spare")
    return tmp_path / "made"


def runs(place: Path) -> int:
    path = place.parent / "runs"
    return len(path.read_text().splitlines()) if path.exists() else 0


def answer() -> int:
    library = takeover._loaded()
    return int(library.answer())


def repaired(place: Path, name: str, seed: int, suffix: str = "") -> None:
    """Damage what was compiled, and see that it is compiled anew and then loaded; unreadable is readable for root."""
    library, random = compiled(), Random(seed)
    before = runs(place)
    target = library.with_name(library.name + suffix)
    # Under another inode: this process has the file mapped, and would itself die of what is cut off.
    other = target.with_name("other")
    shutil.copy2(target, other)
    other.replace(target)
    checksum = library.with_name(library.name + SEAL).read_bytes().split()[0]
    DAMAGE[name](target, random)
    fine = name == "unreadable" and os.geteuid() == 0
    if suffix == SEAL and name in CONTENT:
        # Size and time stand behind the checksum, and nothing depends on them.
        fine = target.read_bytes().split()[:1] == [checksum]
    assert is_compiled() is fine
    assert (state() == "no kernels") is not fine
    assert answer() == 42
    assert runs(place) == before + (0 if fine else 2), "one unit, and the library"
    assert is_compiled()
    assert stat.S_ISREG(library.lstat().st_mode)
    assert answer() == 42
    assert runs(place) == before + (0 if fine else 2), "once"


@pytest.mark.parametrize("suffix", ["", SEAL], ids=["library", "checksum"])
@pytest.mark.parametrize("name", DAMAGE)
def test_what_is_damaged_or_not_ours_is_compiled_anew(place: Path, name: str, suffix: str) -> None:
    repaired(place, name, 0, suffix)


@pytest.mark.hostile
def test_fifty_of_each(place: Path) -> None:
    started = time.monotonic()
    count = 0
    for name in DAMAGE:
        for seed in range(50):
            repaired(place, name, seed, "" if seed % 3 else SEAL)
            count += 1
    print(f"damaged kernels: {count} of {len(DAMAGE)} kinds, all repaired, {time.monotonic() - started:.0f} s")


@pytest.mark.usefixtures("place")
def test_why_it_is_not_loaded_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    library = compiled()
    CONTENT["bits flipped"](library, Random(1))
    with caplog.at_level(logging.WARNING):
        assert not is_compiled()
    assert f"{library} is not used, and compiled anew: its checksum is another one" in caplog.text


@pytest.mark.usefixtures("place")
def test_what_is_loaded_is_what_was_checked() -> None:
    """Another file that takes the name between the check and the load is not the one that is loaded."""
    library = compiled()
    handle = compiling.open_library(library)
    other = library.with_name("other")
    other.write_bytes(b"no library")
    other.replace(library)
    assert ctypes.CDLL(f"/proc/self/fd/{handle}").answer() == 42
    with pytest.raises(LocalspecError, match="can't be trusted"):
        compiling.open_library(library)
    os.close(handle)


@pytest.mark.usefixtures("place")
def test_a_whole_library_that_can_not_be_loaded_is_compiled_once_more() -> None:
    library = compiled()
    made = library.with_name("made")
    made.write_bytes(b"sealed, and no library")
    compiling.seal(made, library)
    assert is_compiled()
    assert answer() == 42


def test_without_a_library_that_can_be_loaded_there_is_a_reason_and_a_remedy(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = place.parent / "compiler"
    program.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done; echo no library > "$2"\n')
    monkeypatch.setattr(takeover, "open_kernels", cache(takeover.open_kernels.__wrapped__))
    found = takeover.open_kernels()
    assert "can't be loaded" in found.reason
    assert found.remedy


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_folder_and_library_are_for_this_user_alone_whatever_the_umask(place: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        place.mkdir()
        library = compiled()
    finally:
        os.umask(before)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert stat.S_IMODE(library.stat().st_mode) == 0o600
    assert stat.S_IMODE(library.with_name(library.name + SEAL).stat().st_mode) == 0o600


def test_a_name_that_can_not_be_cleared_leads_to_the_other_place(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = compiled()
    CONTENT["garbage"](library, Random(0))

    def refuses(path: Path) -> None:
        if path.parent == place:
            raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(compiling, "remove_sealed", refuses)
    assert compiled().parent == place.parent / "spare"


# --- compilers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said", ["cannot write: No space left on device", "fatal error: error writing to /tmp/x.s: Disk quota exceeded"]
)
def test_a_full_disk_is_no_failure_of_the_compiler(place: Path, said: str) -> None:
    program = place.parent / "compiler"
    text = program.read_text()
    program.write_text(f"#!/bin/sh\necho '{said}' >&2; exit 1\n")
    with pytest.raises(LocalspecError, match="can't be kept") as failure:
        compiled()
    assert "No space left on device" in failure.value.cause
    assert not list(place.glob("*.failed"))
    program.write_text(text)
    assert compiled().is_file()


@pytest.mark.parametrize("said", ["cc1plus: out of memory allocating 65536 bytes", "c++: fatal error: Killed signal"])
def test_what_may_be_over_at_the_next_start_is_not_remembered(place: Path, said: str) -> None:
    program = place.parent / "compiler"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2; exit 1\n")
    with pytest.raises(LocalspecError, match="can't be compiled"):
        compiled()
    assert not list(place.glob("*.failed"))


@pytest.mark.parametrize("name", ["a pipe", "a folder", "a link to itself", "garbage", "empty"])
def test_a_damaged_memory_of_a_failure_hangs_nothing(place: Path, name: str) -> None:
    program = place.parent / "compiler"
    program.write_text("#!/bin/sh\necho sorry >&2; exit 1\n")
    for again in range(2):
        with pytest.raises(LocalspecError, match="can't be compiled"):
            compiled()
        (failure,) = place.glob("*.failed")
        if not again:
            DAMAGE[name](failure, Random(0))


@pytest.mark.parametrize("number", ["SIGTERM", "SIGHUP", "SIGKILL"])
def test_compilers_end_with_a_process_that_is_ended(tmp_path: Path, number: str) -> None:
    program = tmp_path / "compiler"
    program.write_text(f"#!/bin/sh\nsleep 60 & echo $$ $! >> {tmp_path}/running; wait\n")
    program.chmod(0o755)
    code = (
        "import sys; from pathlib import Path; from models.abort import AbortFlag\n"
        "from models.kernels.compilers import run_together\n"
        f"run_together({{Path({str(tmp_path / 'said')!r}): [{str(program)!r}]}}, 1, 60, AbortFlag())"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    running = tmp_path / "running"
    until = time.monotonic() + 30
    while not (running.exists() and running.read_text().endswith("\n")) and time.monotonic() < until:
        time.sleep(0.02)
    started = [int(each) for each in running.read_text().split()]
    assert len(started) == 2
    process.send_signal(getattr(__import__("signal"), number))
    process.wait()
    until = time.monotonic() + 20
    while any(map(lives, started)) and time.monotonic() < until:
        time.sleep(0.02)
    assert not [each for each in started if lives(each)]


def lives(process: int) -> bool:
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.usefixtures("place")
def test_a_stop_while_a_library_is_made_leaves_nothing_that_is_trusted() -> None:
    abort = AbortFlag()
    abort.set()
    with pytest.raises(LocalspecError):
        compiled(abort=abort)
    assert not is_compiled()
