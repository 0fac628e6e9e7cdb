"""The files of the drafter's memory: private, and on a disk that is full, damaged or in the way, never an error."""

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from remembering import file, kept, memory, text

from drafters.history import store as module
from drafters.history.file_format import parse
from drafters.history.store import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "state" / "drafter", tmp_path / "project")


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    logger = logging.getLogger("localspec")
    before, logger.propagate = logger.propagate, True
    yield caplog
    logger.propagate = before


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_files_are_for_their_owner_alone_whatever_the_umask(place: Place) -> None:
    before = os.umask(0)
    try:
        kept(place, text(100), text(200))
        place.folder.chmod(0o755)
        file(place).chmod(0o644)
        kept(place, text(300))
    finally:
        os.umask(before)
    assert stat.S_IMODE(place.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in place.folder.iterdir()} == {0o600}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_a_file_is_private_before_it_has_content(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[int] = []
    write = os.fdopen

    def watched(handle: int, mode: str) -> object:
        modes.append(stat.S_IMODE(os.fstat(handle).st_mode))
        return write(handle, mode)

    monkeypatch.setattr(module.os, "fdopen", watched)
    before = os.umask(0)
    try:
        kept(place, text(100))
    finally:
        os.umask(before)
    assert set(modes) == {0o600}


def test_a_file_in_the_folder_s_place_costs_the_memory_and_a_line_in_the_log(
    place: Place, log: pytest.LogCaptureFixture
) -> None:
    place.folder.parent.mkdir()
    place.folder.write_text("not a folder")
    assert kept(place, text(100)) == []
    assert [line.split(":")[0] for line in log.messages] == [
        "This text is not remembered",
        "Earlier text is not used",
    ]
    assert place.folder.read_text() == "not a folder"


def test_a_folder_in_the_file_s_place_costs_the_earlier_text_and_is_replaced(
    place: Place, log: pytest.LogCaptureFixture
) -> None:
    kept(place, text(100))
    path = file(place)
    path.unlink()
    path.mkdir()
    assert kept(place, text(200)) == [text(200)]
    assert path.is_file()
    assert len(log.messages) >= 1


def test_a_torn_file_costs_its_torn_text_and_the_next_write_mends_it(
    place: Place, log: pytest.LogCaptureFixture
) -> None:
    kept(place, text(100), text(200))
    data = file(place).read_bytes()
    for cut in range(len(data)):
        file(place).write_bytes(data[:cut])
        before = memory(place).texts()
        assert kept(place, text(300)) == [*before, text(300)]
        header, texts, rest = parse(file(place).read_bytes())
        assert (header is not None, len(texts), rest) == (True, len(before) + 1, 0)
    assert "is damaged" in log.messages[0]


def test_what_is_written_half_way_leaves_the_old_file(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(place, text(100))
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    assert kept(place, text(200)) == [text(100)]
    assert sorted(path.suffix for path in place.folder.iterdir()) == ["", ".texts"]


def test_a_file_grown_by_others_is_not_read_whole(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(place, text(100))
    with file(place).open("ab") as grown:
        grown.truncate(1 << 24)
    sizes: list[int] = []
    monkeypatch.setattr(module, "parse", lambda data: sizes.append(len(data)) or parse(data))
    assert kept(place, text(200)) == [text(100), text(200)]
    assert max(sizes) < 1 << 20
    assert file(place).stat().st_size < 1000
