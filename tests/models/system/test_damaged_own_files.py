"""What localspec keeps of its own, damaged or made another kind of file: never waited for, and written anew."""

import logging
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from byte_vocab import ByteVocab
from damaged_files import DAMAGE, KIND, cleared

import app.shell.log
from app.history.database import open_database
from drafters.history.store import Place, TextMemory, accounts
from models.system.remembered import Remembered
from models.system.sealed import SEAL, is_sealed, seal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pipes, owners and modes are POSIX")
TEXT = list(range(40, 90))


def figures(folder: Path) -> tuple[Path, Callable[[], None]]:
    """Return the file of measurements, and what keeps one and expects it to be there at the next start."""
    path = folder / "machine.json"

    def works() -> None:
        Remembered(path).get("first")
        Remembered(path).put("first", 7)
        assert Remembered(path).get("first") == 7

    return path, works


def texts(folder: Path) -> tuple[Path, Callable[[], None]]:
    """Return a file of the drafter's memory, and what keeps a text."""

    def memory() -> TextMemory:
        return TextMemory(Place(folder, folder), ByteVocab(), "model")

    def works() -> None:
        memory().texts()
        accounts(folder)
        memory().keep(TEXT, 10)
        assert TEXT in memory().texts()

    works()
    return next(folder.glob("*.texts")), works


def log(folder: Path) -> tuple[Path, Callable[[], None]]:
    """Return the log, and what writes a line of it; what can't be written is left out."""
    path = folder / "localspec.log"

    def works() -> None:
        handler = app.shell.log._LogFile(path, maxBytes=1000, backupCount=1, encoding="utf-8", delay=True)
        handler.emit(logging.makeLogRecord({"msg": "a line"}))
        handler.close()
        if path.is_file() and not path.is_symlink():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600

    return path, works


def copies(folder: Path) -> tuple[Path, Callable[[], None]]:
    """Return a sealed file that may be large, and what makes it anew where it is not as it was."""
    path = folder / "copy.gguf"

    def works() -> None:
        if not is_sealed(path):
            cleared(path)
            cleared(path.with_name(path.name + SEAL))
            made = path.with_name("made")
            made.write_bytes(bytes(range(256)) * 40)
            seal(made, path)
        assert is_sealed(path)
        assert path.read_bytes() == bytes(range(256)) * 40

    return path, works


def conversations(folder: Path) -> tuple[Path, Callable[[], None]]:
    """Return the store of conversations, and what opens it."""
    path = folder / "conversations.db"

    def works() -> None:
        open_database(path)[0].close()

    return path, works


FILES = {each.__name__: each for each in (figures, texts, log, copies)}


def attacked(folder: Path, file: str, name: str, seed: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path, works = FILES[file](folder)
    works()
    DAMAGE[name](path, Random(seed))
    works()
    works()


@pytest.mark.parametrize("name", DAMAGE)
@pytest.mark.parametrize("file", FILES)
def test_what_is_damaged_is_written_anew(tmp_path: Path, file: str, name: str) -> None:
    attacked(tmp_path / "own", file, name, 0)


@pytest.mark.hostile
@pytest.mark.parametrize("file", FILES)
def test_fifty_of_each(tmp_path: Path, file: str) -> None:
    started = time.monotonic()
    for name in DAMAGE:
        for seed in range(50):
            attacked(tmp_path / "own", file, name, seed)
    print(
        f"damaged {file}: {50 * len(DAMAGE)} of {len(DAMAGE)} kinds, all repaired, {time.monotonic() - started:.0f} s"
    )


@pytest.mark.parametrize("name", [name for name in DAMAGE if name not in KIND])
def test_the_store_of_conversations_opens(tmp_path: Path, name: str) -> None:
    path, works = conversations(tmp_path)
    works()
    DAMAGE[name](path, Random(0))
    works()


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_what_is_kept_is_for_this_user_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        for name, file in FILES.items():
            folder = tmp_path / name
            folder.mkdir()
            path, works = file(folder)
            works()
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, name
    finally:
        os.umask(before)


def test_a_lock_that_is_a_folder_bars_nothing(tmp_path: Path) -> None:
    (tmp_path / "machine.json.lock").mkdir()
    Remembered(tmp_path / "machine.json").put("first", 7)
    assert Remembered(tmp_path / "machine.json").get("first") == 7
