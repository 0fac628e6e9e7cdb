"""`--mlock`: weights are locked in memory, and a note says where the system does not allow it."""

import signal
import sys
from pathlib import Path

import pytest
from serving import running
from tiny_gguf import write_llama

from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.system.locked import lock_limit, locked_bytes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what is locked")
NOTHING_MAY_BE_LOCKED = "import resource; resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_llama(tmp_path / "tiny.gguf")
    return tmp_path / "tiny.gguf"


def locked_while_loaded(path: Path, *, lock: bool) -> int:
    before = locked_bytes()
    model = LlamaModel(path, LlamaOptions(context_size=256, threads=1, lock=lock))
    try:
        now = locked_bytes()
    finally:
        model.close()
    assert before is not None
    assert now is not None
    return now - before


def test_weights_are_locked_only_where_that_is_asked_for(path: Path) -> None:
    if (lock_limit() or 1 << 30) < 1 << 20:
        pytest.skip("this system lets a process lock next to nothing")
    assert locked_while_loaded(path, lock=False) == 0
    assert locked_while_loaded(path, lock=True) > 0


@pytest.mark.parametrize("limited", [False, True])
def test_a_note_says_that_nothing_is_locked(path: Path, tmp_path: Path, limited: bool) -> None:
    if limited and may_lock_all():
        pytest.skip("this user may lock memory whatever the limit is")
    with running(tmp_path, str(path), "--mlock", before=NOTHING_MAY_BE_LOCKED if limited else "") as server:
        server.end(signal.SIGTERM)
    notes = [line for line in server.told if "--mlock had no effect" in line]
    if limited:
        assert len(notes) == 1
        assert "limit is 0 MiB" in notes[0]
    else:
        assert bool(notes) == (lock_limit() == 0)


def may_lock_all() -> bool:
    """Tell whether the system's limit does not count for this user."""
    found = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff:")]
    lock = 1 << 14
    return bool(int(found[0].split()[1], 16) & lock)


def test_what_the_system_does_not_say_is_unknown(tmp_path: Path) -> None:
    assert locked_bytes(tmp_path / "none") is None
    (tmp_path / "status").write_text("Name: x\nVmLck:\t     12 kB\n")
    assert locked_bytes(tmp_path / "status") == 12 * 1024
