"""Several processes and one memory: nothing is lost, and one that is killed takes nothing with it."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from run_localspec import ROOT

from drafters.history.file_format import parse
from drafters.history.store import Place, TextMemory
from models.system.file_lock import locked
from models.toy import ToyVocab

WRITER = """
import sys
from pathlib import Path
from drafters.history.store import Place, TextMemory
from models.toy import ToyVocab
vocab = ToyVocab()
vocab.size = 1 << 30
first, count = int(sys.argv[2]), int(sys.argv[3])
memory = TextMemory(Place(Path(sys.argv[1]), Path("/project")), vocab, "big")
print("ready", flush=True)
for number in range(first, first + count):
    memory.keep([number] * 40, 0)
    print(number, flush=True)
"""


def writer(folder: Path, first: int, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(folder), str(first), str(count)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def remembered(folder: Path) -> list[int]:
    """Return the numbers of the writers' texts, oldest first."""
    vocab = ToyVocab()
    vocab.size = 1 << 30
    texts = TextMemory(Place(folder, Path("/project")), vocab, "big").texts()
    assert all(text == text[:1] * 40 for text in texts)
    return [text[0] for text in texts]


def test_two_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    writers = [writer(tmp_path, first, 60) for first in (100, 200)]
    for process in writers:
        process.communicate(timeout=60)
    numbers = remembered(tmp_path)
    assert sorted(numbers) == [*range(100, 160), *range(200, 260)]
    for first in (100, 200):
        own = [number for number in numbers if first <= number < first + 60]
        assert own == sorted(own)


def test_a_writer_killed_at_any_moment_loses_at_most_the_text_it_was_writing(tmp_path: Path) -> None:
    told: list[int] = []
    for attempt in range(8):
        process = writer(tmp_path, 1000 * attempt, 1000)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.01 + 0.0057 * attempt)
        process.kill()
        told += [int(line) for line in process.stdout.read().split()]
        process.wait()
        process.stdout.close()
        numbers = remembered(tmp_path)
        assert [number for number in numbers if number in told] == told
        unheard = [number for number in numbers if number not in told]
        assert len(unheard) <= attempt + 1, "each may have kept one that it did not come to tell"
        told = numbers
    assert len(told) > 8
    (path,) = tmp_path.glob("*.texts")
    assert parse(path.read_bytes())[2] == 0
    assert len(list(tmp_path.iterdir())) <= 3, "one file, one lock, and what the last one left"


def test_a_lock_is_waited_for_and_given_up_in_time(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locked(path), pytest.raises(TimeoutError, match="locked by another process"), locked(path, patience=0.05):
        raise AssertionError("two hold one lock")
    with locked(path, patience=0):
        pass


def test_a_lock_is_freed_by_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), locked(tmp_path / "lock"):
        raise RuntimeError
    with locked(tmp_path / "lock", patience=0):
        pass
