"""`localspec models pull --with-draft` where a draft head lies beside the model on the hub."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny_gguf
from hub_server import HubState
from pulling import cached, hub_with_models, model, pull
from tiny_block_heads import write_block_head
from tiny_heads import write_chained

REPO = "user/Toy-GGUF"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubState]:
    """Run a hub with a model, a head for it, and a head for another model."""
    with hub_with_models(monkeypatch) as state:
        target = tiny_gguf.write_llama(tmp_path / "target.gguf", n_layer=3)
        state.add(REPO, "Toy-Q8_0.gguf", target.read_bytes())
        state.add(REPO, "dflash-Toy-Q8_0.gguf", write_block_head(tmp_path / "a.gguf", target, (0, 1, 2)).read_bytes())
        other = write_block_head(tmp_path / "b.gguf", target, (0, 1, 7))
        state.add(REPO, "Toy-eagle3.gguf", other.read_bytes())
        yield state


def test_the_head_of_a_model_comes_with_it(hub: HubState, tmp_path: Path) -> None:
    done = pull(tmp_path, f"{REPO}:Q8_0", "--with-draft")
    assert done.returncode == 0, done.stderr
    assert cached(tmp_path) == ["Toy-Q8_0.gguf", "dflash-Toy-Q8_0.gguf"]
    assert "head    hf://user/Toy-GGUF/dflash-Toy-Q8_0.gguf (a head of this model)" in done.stderr
    assert "a DFlash head for models whose hidden rows have 64 numbers" in " ".join(done.stderr.split())
    assert "with a context of 512" in done.stderr
    assert done.stdout == f"Ready: localspec run {REPO}:Q8_0 --draft hf://{REPO}/dflash-Toy-Q8_0.gguf\n"
    assert len(hub.asked("/api/")) == 1


def test_the_record_names_the_head(hub: HubState, tmp_path: Path) -> None:
    hub.add(REPO, "mtp-Toy.gguf", write_chained(tmp_path / "c.gguf", head_alone=True).read_bytes())
    said = json.loads(pull(tmp_path, f"{REPO}:Q8_0", "--with-draft", "--json").stdout)
    # The layer of another architecture is none for this model.
    assert said["draft"]["name"] == f"hf://{REPO}/dflash-Toy-Q8_0.gguf"
    assert Path(said["draft"]["path"]).parent == Path(said["path"]).parent


@pytest.mark.usefixtures("hub")
def test_without_the_flag_no_head_is_fetched(tmp_path: Path) -> None:
    assert pull(tmp_path, f"{REPO}:Q8_0").returncode == 0
    assert cached(tmp_path) == ["Toy-Q8_0.gguf"]


def test_a_file_that_is_only_named_like_a_head_is_none(hub: HubState, tmp_path: Path) -> None:
    del hub.repos[REPO]["dflash-Toy-Q8_0.gguf"]
    hub.add(REPO, "eagle3-toy.gguf", model(1))
    done = pull(tmp_path, f"{REPO}:Q8_0", "--with-draft")
    assert "no smaller model of user/Toy-GGUF's family is known" in done.stderr
    assert (done.returncode, cached(tmp_path)) == (0, ["Toy-Q8_0.gguf"])
