"""`/slots`: what a slot has read is saved, restored and forgotten, with the members of llama.cpp's server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny_gguf
from click.testing import CliRunner
from serving import Served, served

from app.command_line.cli import command_line
from app.serve.options import serve

COMPLETION = "/completion"
TEXT = "abc odf urk mop " * 20
"""A text of 320 tokens."""
ASKED: dict[str, Any] = {"prompt": TEXT, "n_predict": 8, "temperature": 0, "cache_prompt": True}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("slots")
    return {
        "llama": tiny_gguf.write_llama(folder / "llama.gguf", n_ctx=1024),
        "other": tiny_gguf.write_llama(folder / "other.gguf", n_ctx=1024, seed=5),
        "hybrid": tiny_gguf.write_hybrid(folder / "hybrid.gguf", n_ctx=1024),
        "swa": tiny_gguf.write_swa(folder / "swa.gguf"),
    }


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    (tmp_path / "saved").mkdir()
    return tmp_path / "saved"


def serving(model: Path, saved: Path, *more: str) -> Any:
    return served(saved.parent, str(model), "-t", "1", "-c", "1024", "--slot-save-path", str(saved), *more)


def act(server: Served, action: str, name: str = "one.bin", number: int = 0) -> Any:
    return server.post(f"/slots/{number}?action={action}", filename=name)


@pytest.mark.parametrize("kind", ["llama", "hybrid", "swa"])
def test_a_restored_slot_reads_only_what_is_new(files: dict[str, Path], saved: Path, kind: str) -> None:
    with serving(files[kind], saved, "-np", "1") as server:
        server.post(COMPLETION, **{**ASKED, "n_predict": 0})
        found = act(server, "save")
        assert (found["id_slot"], found["filename"]) == (0, "one.bin")
        assert found["n_saved"] == len(TEXT) - 1
        assert found["n_written"] == (saved / "one.bin").stat().st_size
        assert found["timings"]["save_ms"] > 0
        assert (saved / "one.bin").stat().st_mode & 0o777 == 0o600
    with serving(files[kind], saved, "-np", "1") as server:
        restored = act(server, "restore")
        assert (restored["n_restored"], restored["n_read"]) == (found["n_saved"], found["n_written"])
        assert restored["timings"]["restore_ms"] > 0
        again = server.post(COMPLETION, **{**ASKED, "prompt": f"{TEXT}and odf"})
        assert again["timings"]["cache_n"] == len(TEXT) - 1
        act(server, "erase")
        read = server.post(COMPLETION, **{**ASKED, "prompt": f"{TEXT}and odf"})
        assert read["timings"]["cache_n"] == 0
        assert again["content"] == read["content"]


def test_slots_that_share_their_passes_are_saved_one_by_one(files: dict[str, Path], saved: Path) -> None:
    with serving(files["llama"], saved, "-np", "2") as server:
        texts = [server.post(COMPLETION, **{**ASKED, "prompt": f"{number} {TEXT}"})["content"] for number in (0, 1)]
        counts = [act(server, "save", f"{number}.bin", number)["n_saved"] for number in (0, 1)]
        assert min(counts) >= len(TEXT)
        for number in (0, 1):
            assert server.client.post(f"/slots/{number}?action=erase").json()["n_erased"] == counts[number]
        for number in (0, 1):
            assert act(server, "restore", f"{number}.bin", number)["n_restored"] == counts[number]
        for number in (0, 1):
            again = server.post(COMPLETION, **{**ASKED, "prompt": f"{number} {TEXT}"})
            assert again["content"] == texts[number]
            assert again["timings"]["cache_n"] >= len(TEXT) - 1


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "foreign"])
def test_a_file_that_can_not_be_used_is_refused_and_the_slot_answers_on(
    files: dict[str, Path], saved: Path, damage: str
) -> None:
    with serving(files["other" if damage == "foreign" else "llama"], saved, "-np", "1") as server:
        server.post(COMPLETION, **ASKED)
        act(server, "save")
    data = bytearray((saved / "one.bin").read_bytes())
    data[len(data) // 2] ^= 1
    changed = {"cut": bytes(data[:-100]), "changed": bytes(data), "empty": b""}
    if damage in changed:
        (saved / "one.bin").write_bytes(changed[damage])
    with serving(files["llama"], saved, "-np", "1") as server:
        before = server.post(COMPLETION, **ASKED)["content"]
        status, error = server.refused("/slots/0?action=restore", filename="one.bin")
        assert status == 400
        assert ("saved with another model" if damage == "foreign" else "can't be used") in error["message"]
        assert server.post(COMPLETION, **ASKED)["content"] == before


@pytest.fixture(scope="module")
def server(files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("saved")
    with serving(files["llama"], folder, "-np", "1") as one:
        yield one


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../one", "a/b", "/etc/passwd", "a\\b", ".hidden", "a\nb", "a\0b", "x" * 129, "ä" * 65, 5]
)
def test_a_name_that_leads_elsewhere_is_refused(server: Served, name: Any) -> None:
    for action in ("save", "restore"):
        status, error = server.refused(f"/slots/0?action={action}", filename=name)
        assert (status, error["param"]) == (400, "filename")


@pytest.mark.parametrize(
    ("path", "status"),
    [("/slots/0", 400), ("/slots/0?action=eat", 400), ("/slots/1?action=erase", 404), ("/slots/x?action=erase", 404),
     ("/slots/-1?action=erase", 404), ("/slots/0?action=restore", 400)],
)  # fmt: skip
def test_what_is_no_action_on_a_slot_is_refused(server: Served, path: str, status: int) -> None:
    assert server.refused(path, filename="missing.bin")[0] == status


def test_without_the_flag_nothing_is_saved(tmp_path: Path) -> None:
    with served(tmp_path, "toy") as one:
        status, error = one.refused("/slots/0?action=save", filename="a")
        assert (status, error["code"]) == (501, "not_supported")
        assert "--slot-save-path" in error["message"]


def test_the_toy_has_nothing_to_save(tmp_path: Path) -> None:
    with served(tmp_path, "toy", "--slot-save-path", str(tmp_path)) as one:
        assert one.refused("/slots/0?action=save", filename="a")[0] == 400


def test_a_folder_that_is_missing_ends_the_start(tmp_path: Path) -> None:
    command_line.add_command(serve)
    done = CliRunner().invoke(command_line, ["serve", "toy", "--slot-save-path", str(tmp_path / "none")])
    assert done.exit_code != 0
