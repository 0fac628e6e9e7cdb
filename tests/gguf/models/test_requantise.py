"""Re-quantised copies: whole or not there at all, made by a child that may crash, and readable by llama.cpp."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from tiny_gguf import LlamaFileType, write_llama, write_truncated

import models.llama.requantise as requantising
from models.abort import AbortFlag
from models.errors import Cancelled, LocalspecError, ModelFileError
from models.gguf.header import read_header
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.llama.requantise import KINDS, requantise

ONE_THREAD = LlamaOptions(threads=1)


def child(code: str) -> tuple[str, ...]:
    """Return the command of a child that does `code` with a source, a destination and a kind."""
    return (sys.executable, "-S", "-c", "import os, sys, time; source, path, kind = sys.argv[1:]; " + code)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_llama(tmp_path / "tiny.gguf", n_embd=256, n_layer=1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("file_type", [LlamaFileType.ALL_F32, LlamaFileType.MOSTLY_Q8_0])
def test_a_copy_is_smaller_speaks_the_same_tokens_and_runs(tmp_path: Path, kind: str, file_type: LlamaFileType) -> None:
    source = write_llama(tmp_path / "tiny.gguf", n_embd=256, n_layer=1, file_type=file_type)
    copy = tmp_path / "copies" / "copy.gguf"
    shares: list[float] = []
    requantise(source, copy, kind, on_progress=shares.append)
    assert copy.stat().st_size < source.stat().st_size
    assert [place.name for place in copy.parent.iterdir()] == ["copy.gguf"]
    assert all(0 <= share <= 1 for share in shares)
    original, model = LlamaModel(source, ONE_THREAD), LlamaModel(copy, ONE_THREAD)
    assert kind.removesuffix("_M") in model.description
    assert [model.vocab.text(token) for token in range(270)] == [original.vocab.text(token) for token in range(270)]
    assert model.decode([1, 2, 3], rows=1).shape == (1, original.vocab.size)
    original.close()
    model.close()


@pytest.mark.parametrize("kind", KINDS)
def test_the_output_matrix_takes_four_bits(tmp_path: Path, kind: str) -> None:
    """llama.cpp by itself gives it six or eight. In this model, as in most small ones, it is the embedding too."""
    source, copy = write_llama(tmp_path / "tiny.gguf", n_embd=256, n_layer=1), tmp_path / "copy.gguf"
    requantise(source, copy, kind)
    types = {tensor.name: tensor.type for tensor in read_header(copy).tensors}
    assert types["token_embd.weight"] == ("IQ4_NL" if kind == "IQ4_NL" else "Q4_0")


@pytest.mark.parametrize("kind", KINDS)
def test_widths_that_a_k_quantisation_can_not_hold_take_another(tmp_path: Path, kind: str) -> None:
    copy = tmp_path / "copy.gguf"
    requantise(write_llama(tmp_path / "narrow.gguf", n_embd=64), copy, kind)
    model = LlamaModel(copy, ONE_THREAD)
    assert model.decode([1], rows=1).shape[0] == 1
    model.close()


def failure(source: Path, tmp_path: Path, command: tuple[str, ...] | None = None) -> LocalspecError:
    """Return what a copy that can't be made raises, having checked that nothing of it is left."""
    folder = tmp_path / "copies"
    with pytest.raises(LocalspecError) as caught:
        requantise(source, folder / "copy.gguf", "Q4_0", command=command)
    assert not folder.exists() or list(folder.iterdir()) == []
    return caught.value


def test_a_source_that_is_cut_short_is_told(source: Path, tmp_path: Path) -> None:
    cut = write_truncated(source, tmp_path / "cut.gguf", source.stat().st_size // 2)
    error = failure(cut, tmp_path)
    assert "cut.gguf can't be written as Q4_0" in error.title
    assert "not within the file bounds" in error.cause
    assert error.hint


def test_a_source_that_is_no_model_is_refused_before_a_child_starts(tmp_path: Path) -> None:
    assert isinstance(failure(tmp_path / "none.gguf", tmp_path, ("this-program-does-not-exist",)), ModelFileError)


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
def test_a_child_that_dies_is_a_sentence(source: Path, tmp_path: Path) -> None:
    assert "code -9" in failure(source, tmp_path, child("os.kill(os.getpid(), 9)")).cause


def test_half_a_file_never_gets_its_name(source: Path, tmp_path: Path) -> None:
    error = failure(source, tmp_path, child("open(path, 'w').write('half'); sys.exit('no space left')"))
    assert error.cause == "no space left"


def test_a_full_disk_is_refused_with_both_sizes(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=5 * 2**20 // 100))
    big = tmp_path / "big.gguf"
    big.write_bytes(source.read_bytes() + bytes(3 * 2**20))
    error = failure(big, tmp_path, ("this-program-does-not-exist",))
    assert "no room for another copy of big.gguf" in error.title
    assert "MiB are free" in error.cause


def test_a_folder_that_can_not_be_written_is_told(source: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LocalspecError, match="can't be written as Q4_0"):
        requantise(source, tmp_path / "file" / "copy.gguf", "Q4_0")


def test_a_stop_ends_the_child_and_leaves_nothing(source: Path, tmp_path: Path) -> None:
    abort, pid = AbortFlag(), tmp_path / "pid"
    stop: Callable[[float], None] = lambda _: abort.set() if pid.exists() else None  # noqa: E731
    code = f"open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    with pytest.raises(Cancelled):
        requantise(
            source, tmp_path / "copies" / "copy.gguf", "Q4_0", abort=abort, on_progress=stop, command=child(code)
        )
    assert list((tmp_path / "copies").iterdir()) == []


def test_a_child_that_the_same_ctrl_c_ended_first_is_no_failure(source: Path, tmp_path: Path) -> None:
    abort = AbortFlag()

    def stop_late(_: float) -> None:
        time.sleep(1)
        abort.set()

    command = child("sys.exit('KeyboardInterrupt')")
    with pytest.raises(Cancelled):
        requantise(source, tmp_path / "copy.gguf", "Q4_0", abort=abort, on_progress=stop_late, command=command)


def test_an_older_copy_stays_when_a_new_one_fails(source: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.gguf"
    copy.write_text("older")
    with pytest.raises(LocalspecError):
        requantise(source, copy, "Q4_0", command=child("sys.exit(1)"))
    assert copy.read_text() == "older"


# --- what a killed process leaves -----------------------------------------------------------------------------------


def test_what_a_killed_process_left_is_removed_and_what_another_writes_stays(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copies"
    folder.mkdir()
    left, held = folder / "left1234.partial", folder / "held1234.partial"
    for each in (left, held):
        each.write_bytes(bytes(100))
    with held.open("r+b") as file:
        assert requantising._lock(file.fileno())
        requantise(source, folder / "copy.gguf", "Q4_0")
        assert {each.name for each in folder.iterdir()} == {"copy.gguf", held.name}
    requantising.remove_unfinished(folder)
    assert [each.name for each in folder.iterdir()] == ["copy.gguf"]


@pytest.mark.skipif(sys.platform == "win32", reason="there a leftover is known by its age")
def test_a_child_that_writes_a_copy_ends_with_the_process_that_asked(source: Path, tmp_path: Path) -> None:
    pid, folder = tmp_path / "pid", tmp_path / "copies"
    writes = child(f"open({str(pid)!r}, 'w').write(f'{{os.getpid()}}.'); time.sleep(60)")
    code = (
        "from pathlib import Path; from models.llama.requantise import requantise\n"
        f"requantise(Path({str(source)!r}), Path({str(folder / 'copy.gguf')!r}), 'Q4_0', command={writes!r})"
    )
    asker = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[3])
    until = time.monotonic() + 60
    while not (pid.exists() and pid.read_text().endswith(".")) and time.monotonic() < until:
        time.sleep(0.02)
    asker.kill()
    asker.wait()
    process, until = int(pid.read_text().removesuffix(".")), time.monotonic() + 20
    while lives(process) and time.monotonic() < until:
        time.sleep(0.02)
    assert not lives(process)
    assert len(list(folder.glob("*.partial"))) == 1
    requantising.remove_unfinished(folder)
    assert list(folder.iterdir()) == []


def lives(process: int) -> bool:
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
