"""`localspec models pull` and local names where file names mislead: headers decide, and ambiguity is told."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_server import HubState
from pulling import REPO, cached, hub_with_models, model, path_of, pull, split_part
from raw_gguf import VOCABULARY, Weights, gguf_bytes
from run_here import localspec_here


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


def path_refused(home: Path, name: str) -> str:
    done = localspec_here("models", "path", name, home=home)
    assert done.returncode == 3, done.stdout
    return " ".join(done.stderr.split())


def test_a_repository_of_several_quantisations_is_not_named_by_itself(hub: HubState, tmp_path: Path) -> None:
    """The first one by its letters would be as good a choice as any."""
    for place, label in enumerate(("Q3_K_M", "Q5_K_M", "Q6_K"), 1):
        hub.add("user/many", f"m-{label}.gguf", model(place))
        hub.add("user/many", f"Aside/m-{label}.gguf", draft_head())
    assert pull(tmp_path, "user/many:Q5_K_M").returncode == 0
    assert path_of(tmp_path, "user/many").name == "m-Q5_K_M.gguf"
    assert pull(tmp_path, "hf://user/many/Aside/m-Q3_K_M.gguf").returncode == 0
    assert path_of(tmp_path, "user/many").name == "m-Q5_K_M.gguf", "a head is no model"
    assert pull(tmp_path, "user/many:Q6_K").returncode == 0
    said = path_refused(tmp_path, "user/many")
    assert "user/many has 2 models on this machine, and none is Q4_K_M or Q8_0." in said
    assert "They are: m-Q5_K_M.gguf, m-Q6_K.gguf." in said
    assert "Name one: user/many:Q5_K_M." in said
    assert path_of(tmp_path, "user/many:Q6_K").name == "m-Q6_K.gguf"


def test_models_without_a_quantisation_in_their_names_are_named_by_their_files(hub: HubState, tmp_path: Path) -> None:
    for place, name in enumerate(("one.gguf", "two.gguf"), 1):
        hub.add("user/plain", name, model(place))
        assert pull(tmp_path, f"hf://user/plain/{name}").returncode == 0
    assert "Name one: hf://user/plain/one.gguf." in path_refused(tmp_path, "user/plain")
    assert path_of(tmp_path, "hf://user/plain/two.gguf").name == "two.gguf"
    assert "hf://user/plain/one.gguf" in localspec_here("models", "ls", home=tmp_path).stdout
