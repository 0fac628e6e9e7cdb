"""`localspec models pull` and local names where file names mislead: headers decide, and ambiguity is told."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_server import HubState
from pulling import REPO, cached, hub_with_models, model, path_of, pull, split_part
from raw_gguf import VOCABULARY, Weights, gguf_bytes


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubState]:
    with hub_with_models(monkeypatch) as state:
        yield state


def draft_head() -> bytes:
    """Return a file whose only layer comes after those of the model that it drafts for."""
    tensors = [Weights("token_embd.weight", (4, 2)), Weights("blk.24.nextn.eh_proj.weight", (4, 2))]
    return gguf_bytes(VOCABULARY, tensors, data=64)


def test_a_draft_head_in_a_folder_is_not_taken_for_the_model(hub: HubState, tmp_path: Path) -> None:
    hub.add("user/heads", "MTP/model-Q4_K_M.gguf", draft_head())
    hub.add("user/heads", "model-Q4_K_M.gguf", model(1))
    done = pull(tmp_path, "user/heads:Q4_K_M")
    assert done.returncode == 0, done.stderr
    assert cached(tmp_path) == ["model-Q4_K_M.gguf"]
    assert pull(tmp_path, "hf://user/heads/MTP/model-Q4_K_M.gguf").returncode == 0
    assert path_of(tmp_path, "user/heads:Q4_K_M").parent.name != "MTP"


def test_a_draft_head_alone_is_no_model(hub: HubState, tmp_path: Path) -> None:
    hub.add("user/heads", "MTP/model-Q4_K_M.gguf", draft_head())
    hub.add("user/heads", "model-Q8_0.gguf", model(1))
    done = pull(tmp_path, "user/heads:Q4_K_M")
    assert (done.returncode, cached(tmp_path)) == (3, [])
    assert "is not a whole model" in done.stderr
    assert pull(tmp_path, "user/heads").returncode == 0
    assert cached(tmp_path) == ["model-Q8_0.gguf"]


def test_two_models_of_one_quantisation_are_named(hub: HubState, tmp_path: Path) -> None:
    for place, name in enumerate(("one-Q4_K_M.gguf", "two/two-Q4_K_M.gguf"), 1):
        hub.add("user/two", name, model(place))
    for name in ("user/two:Q4_K_M", "user/two"):
        done = pull(tmp_path, name)
        assert (done.returncode, cached(tmp_path)) == (3, [])
        assert "They are: one-Q4_K_M.gguf, two/two-Q4_K_M.gguf." in done.stderr
        assert "hf://user/two/one-Q4_K_M.gguf" in done.stderr
    assert pull(tmp_path, "hf://user/two/two/two-Q4_K_M.gguf").returncode == 0


@pytest.mark.parametrize("name", ["m-Q4_0-00001-of-00003.gguf", "m-Q4_0-00002-of-00003.gguf"])
def test_a_whole_file_that_is_named_like_a_part_is_whole(hub: HubState, tmp_path: Path, name: str) -> None:
    hub.add("user/part", name, model(1))
    done = pull(tmp_path, "user/part:Q4_0")
    assert done.returncode == 0, done.stderr
    assert path_of(tmp_path, "user/part:Q4_0").name == name


def test_a_part_that_the_hub_lacks_is_named(hub: HubState, tmp_path: Path) -> None:
    for part in (1, 3):
        hub.add("user/part", f"m-Q4_0-{part:05}-of-00003.gguf", split_part(part, 3))
    hub.add("user/part", "m-Q8_0.gguf", model(1))
    done = pull(tmp_path, "user/part:Q4_0")
    assert (done.returncode, cached(tmp_path)) == (3, [])
    assert "user/part lacks m-Q4_0-00002-of-00003.gguf." in " ".join(done.stderr.split())
    assert pull(tmp_path, "user/part:Q8_0").returncode == 0


def test_a_repository_that_was_renamed_is_pulled_by_its_old_name(hub: HubState, tmp_path: Path) -> None:
    hub.renamed = {"former/name-GGUF": REPO}
    done = pull(tmp_path, "former/name-GGUF:Q2_K")
    assert done.returncode == 0, done.stderr
    assert path_of(tmp_path, "former/name-GGUF:Q2_K").name == "m-Q2_K.gguf"
