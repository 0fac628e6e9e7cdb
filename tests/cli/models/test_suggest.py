"""`localspec models suggest`: ranked candidates for a target's draft model, or the reason why none is needed."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from raw_gguf import Array, Weights, text, write_raw
from run_localspec import localspec

from app.catalog import candidates, suggesting
from app.catalog.suggesting import suggest
from models.errors import ModelFileError
from models.gguf.model_info import model_info
from models.llama.devices import Device, Kind
from models.llama.memory import plan_memory
from models.llama.probe import identity
from models.system.remembered import Remembered

CURVE = {"1": 1.0, "2": 1.1, "4": 1.3, "8": 2.0}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have nothing on this machine but the starter and what a test writes; return the folder of the cache."""
    for name in ("LOCALSPEC_MODELS", "HF_HOME", "HF_HUB_CACHE", "OLLAMA_MODELS", "LLAMA_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "localspec"


def write(path: Path, rows: int, **values: object) -> Path:
    """Write a model that reads 16 bytes a row for each token, and 32 more."""
    tensors = (Weights("token_embd.weight"), Weights("blk.0.attn_q.weight", (4, rows), 0, 0))
    return write_raw(path, dict(values), tensors=tensors, data=16 * rows + 64)  # type: ignore[arg-type]


def suggested(capsys: pytest.CaptureFixture[str], *arguments: Any, target: Path | str | None = None) -> dict[str, Any]:
    suggest(None if target is None else str(target), arguments, as_json=True)
    return json.loads(capsys.readouterr().out)  # type: ignore[no-any-return]


def shown(capsys: pytest.CaptureFixture[str], target: Path | str) -> str:
    suggest(str(target), [], as_json=False)
    return " ".join(capsys.readouterr().out.split())


def test_smaller_models_beside_the_target_are_ranked_by_what_they_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    big = write(tmp_path / "big.gguf", 400)
    middle, small = write(tmp_path / "a-middle.gguf", 100), write(tmp_path / "small.gguf", 20)
    write(tmp_path / "larger.gguf", 500)
    write(tmp_path / "stranger.gguf", 10, **{"tokenizer.ggml.tokens": Array(["x", "b", "ab", "<end>"])})
    write(tmp_path / "mamba.gguf", 10, **{"general.architecture": "mamba"})
    (found,) = suggested(capsys, target=big)["targets"]
    assert [draft["path"] for draft in found["drafts"]] == [str(small), str(middle)]
    assert (found["best"], found["reason"]) == (str(small), None)
    assert found["commands"] == [f"localspec run {big} --draft {small}"]
    gains = [draft["predicted"]["most"] for draft in found["drafts"]]
    assert gains == sorted(gains, reverse=True)
    assert all(draft["fits"] and draft["here"] for draft in found["drafts"])


def test_what_was_measured_here_decides_over_what_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    big = write(tmp_path / "big.gguf", 400)
    middle, small = write(tmp_path / "middle.gguf", 100), write(tmp_path / "small.gguf", 20)
    memory = Remembered(home / "machine.json")
    for path, curve in ((big, CURVE), (small, {"1": 0.6}), (middle, {"1": 0.1})):
        memory.put(f"curve x {identity(path)}", curve)
    (found,) = suggested(capsys, target=big)["targets"]
    assert [draft["path"] for draft in found["drafts"]] == [str(middle), str(small)]
    assert [draft["predicted"]["step"]["of_a_token"] for draft in found["drafts"]] == [0.1, 0.6]
    assert "0.10 *" in shown(capsys, big)


def test_none_is_needed_where_none_pays(tmp_path: Path, capsys: pytest.CaptureFixture[str], home: Path) -> None:
    big = write(tmp_path / "big.gguf", 400)
    write(tmp_path / "small.gguf", 20)
    Remembered(home / "machine.json").put(f"curve x {identity(big)}", {"1": 1.0, "2": 2.0, "4": 4.0})
    (found,) = suggested(capsys, target=big)["targets"]
    assert (found["best"], found["commands"]) == (None, [f"localspec run {big}"])
    assert len(found["drafts"]) == 1
    assert "No draft model needed: no draft model has a predicted gain of 5%. The suffix index" in shown(capsys, big)


def test_none_is_needed_where_nothing_is_smaller(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    only = write(tmp_path / "only.gguf", 400)
    assert "No draft model needed: no smaller model with its tokenizer is known" in shown(capsys, only)


def test_a_draft_that_does_not_fit_is_not_the_best(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    big, small = write(tmp_path / "big.gguf", 400), write(tmp_path / "small.gguf", 20)
    (found,) = suggested(capsys, target=big)["targets"]
    need = found["drafts"][0]["need"]
    monkeypatch.setattr(suggesting, "available_memory", lambda: need)
    assert suggested(capsys, target=big)["targets"][0]["best"] == str(small)
    monkeypatch.setattr(suggesting, "available_memory", lambda: need - 1)
    (found,) = suggested(capsys, target=big)["targets"]
    assert (found["best"], found["drafts"][0]["fits"]) == (None, False)
    assert "those that would pay off do not fit in memory beside it" in found["reason"]


@pytest.mark.parametrize(("missing", "best"), [(0, True), (1, False)])
def test_where_models_go_to_a_gpu_its_memory_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, missing: int, best: bool
) -> None:
    big, small = write(tmp_path / "big.gguf", 400), write(tmp_path / "small.gguf", 20)
    need = sum(plan_memory(model_info(path).shape, on_gpu=True).total for path in (big, small))
    card = Device("CUDA", "CUDA0", "a card", Kind.GPU, need - missing, 1 << 40)
    monkeypatch.setattr(suggesting, "gpus", lambda: (card,))
    monkeypatch.setattr(suggesting, "available_memory", lambda: 0)
    said = suggested(capsys, target=big)
    assert (said["available"], said["on_gpu"]) == (need - missing, True)
    assert said["targets"][0]["best"] == (str(small) if best else None)


def test_the_sibling_of_a_family_is_named_with_the_way_to_fetch_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    big = huge(tmp_path / "big.gguf", **{"general.name": "Qwen2.5 Coder 1.5B"})
    (found,) = suggested(capsys, target=big)["targets"]
    repo = "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF"
    (draft,) = found["drafts"]
    assert (draft["name"], draft["here"], draft["path"], draft["fits"]) == (repo, False, None, None)
    assert found["commands"] == [f"localspec models pull {repo}", f"localspec run {big} --draft {repo}"]
    assert "The best is not on this machine" in shown(capsys, big)
    here = write(tmp_path / "qwen2.5-coder-0.5b-instruct-q8_0.gguf", 1)
    (found,) = suggested(capsys, target=big)["targets"]
    assert [draft["path"] for draft in found["drafts"]] == [str(here)]


def huge(path: Path, **values: object) -> Path:
    """Write a model of a thousand million weights, in a file that is a hole."""
    tensors = (Weights("token_embd.weight", (32, 1 << 25), 1, 0),)
    os.truncate(write_raw(path, dict(values), tensors=tensors), 3 << 30)  # type: ignore[arg-type]
    return path


def test_every_model_with_a_partner_here_is_answered_for_without_a_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    paths = [write(folder / f"{rows}.gguf", rows) for rows in (400, 100, 20)]
    write(folder / "alone.gguf", 50, **{"tokenizer.ggml.tokens": Array(["x", "b", "ab", "<end>"])})
    found = suggested(capsys, folder)["targets"]
    assert sorted(each["target"]["path"] for each in found) == sorted(map(str, paths[:2]))


@pytest.mark.starter
def test_where_nothing_is_a_pair_the_starter_is_answered_for(tmp_path: Path) -> None:
    done = localspec("models", "suggest", home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("No two models on this machine are a pair.")
    assert "    localspec run starter\n\nModels to fetch" in done.stdout


def test_a_target_that_is_missing_or_damaged_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError):
        suggest(str(tmp_path / "none.gguf"), [], as_json=False)
    done = localspec("models", "suggest", str(tmp_path / "none.gguf"), home=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")


def test_a_damaged_file_beside_the_target_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    big = write(tmp_path / "big.gguf", 400)
    bad = write(tmp_path / "bad.gguf", 20)
    bad.write_bytes(bad.read_bytes()[:-100])
    assert suggested(capsys, target=big)["targets"][0]["drafts"] == []


def test_a_damaged_vocabulary_beside_the_target_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokens: Any = {"tokenizer.ggml.tokens": Array([f"word {number}" for number in range(9000)])}
    big, bad, fine = (
        write(tmp_path / f"{name}.gguf", rows, **tokens) for name, rows in (("a", 400), ("b", 20), ("c", 10))
    )
    data = bytearray(bad.read_bytes())
    # Where an array that looks like a known one is not compared with it.
    data[data.index(text("word 500")) + 7] ^= 1
    bad.write_bytes(data)
    (found,) = suggested(capsys, target=big)["targets"]
    assert [draft["path"] for draft in found["drafts"]] == [str(fine)]


def test_each_header_is_read_once_however_many_targets_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mine"
    for rows in range(1, 31):
        write(folder / f"{rows}.gguf", rows)
    read: list[Path] = []
    real = candidates.read_model

    def counted(path: Path, *known: Any) -> Any:
        read.append(path)
        return real(path, *known)

    monkeypatch.setattr(candidates, "read_model", counted)
    assert len(suggested(capsys, folder)["targets"]) == 29
    assert len(read) == len(set(read)) == 30
