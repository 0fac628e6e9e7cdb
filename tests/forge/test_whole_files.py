"""GGUF files of drafters are put in place whole: after an error nothing is left, and the last file is as it was."""

from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader, GGUFWriter

from app.forge.files.writing import whole_gguf


def write(path: Path) -> None:
    with whole_gguf(path, "llama") as file:
        file.add_block_count(3)
        file.add_tensor("a", np.ones(4, np.float32))


def test_a_file_is_written(tmp_path: Path) -> None:
    write(tmp_path / "a.gguf")
    assert [tensor.name for tensor in GGUFReader(tmp_path / "a.gguf").tensors] == ["a"]
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]


@pytest.mark.parametrize("at", ["write_tensors_to_file", "close"])
def test_a_full_disk_keeps_the_last_file(at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(b"before")

    close = GGUFWriter.close

    def full(writer: GGUFWriter) -> None:
        close(writer)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(GGUFWriter, at, full)
    # A full disk also refuses what closing has left to write.
    monkeypatch.setattr(GGUFWriter, "close", full)
    with pytest.raises(OSError, match="No space left"):
        write(path)
    assert path.read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]


def test_an_error_while_it_is_filled_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError), whole_gguf(tmp_path / "a.gguf", "llama"):
        raise KeyError("a tensor")
    assert list(tmp_path.iterdir()) == []
