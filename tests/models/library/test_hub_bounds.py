"""A hub whose answers have no end, nest without end, or lead to a repository's new name."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_server import COMMIT, HubState, Refusal, hub_server
from huggingface_hub import close_session

from models.errors import LocalspecError
from models.library import hub_answer
from models.library.hub import Hub

REPO, NAME = "user/repo-GGUF", "m-Q4_0.gguf"
DATA = b"GGUF" + random.Random(5).randbytes(100_000)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubState]:
    """Run a hub with one file, and let the cache be in `tmp_path`."""
    with hub_server() as state:
        state.add(REPO, NAME, DATA)
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        for name, value in {"HF_ENDPOINT": state.url, "HF_HUB_CACHE": str(tmp_path), "NO_PROXY": "127.0.0.1"}.items():
            monkeypatch.setenv(name, value)
        yield state
        close_session()


def opened() -> Hub:
    return Hub(sleep=[].append)


@pytest.mark.parametrize("what", ["list", "error"])
def test_a_list_or_an_error_without_end_is_refused(hub: HubState, what: str) -> None:
    hub.endless = what
    with pytest.raises(LocalspecError, match="does not answer like the hub") as caught:
        opened().repository(REPO)
    assert "It sends more than 8,388,608 bytes" in caught.value.cause


def test_a_list_that_nests_without_end_is_no_list(hub: HubState) -> None:
    hub.listing = b'{"siblings": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    with pytest.raises(LocalspecError, match="does not answer like the hub"):
        opened().repository(REPO)


def test_a_file_that_goes_on_after_its_end_is_fetched(hub: HubState) -> None:
    hub.lengths = hub.ranges = False
    hub.endless = "blob"
    (file,) = opened().repository(REPO).files
    assert opened().fetch(file).read_bytes() == DATA


@pytest.mark.usefixtures("hub")
def test_an_answer_that_comes_too_slowly_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_answer, "_SECONDS", -1.0)
    with pytest.raises(LocalspecError, match="answers too slowly"):
        opened().repository(REPO)


def test_a_repository_that_was_renamed_is_found_by_its_old_name(hub: HubState) -> None:
    hub.renamed = {"former/name-GGUF": REPO}
    (file,) = opened().repository("former/name-GGUF").files
    assert (file.repo, file.commit, file.size) == ("former/name-GGUF", COMMIT, len(DATA))
    assert opened().fetch(file).read_bytes() == DATA


def test_an_error_that_nests_without_end_is_told(hub: HubState) -> None:
    hub.refusals = [Refusal(404, body=b"[" * 200_000), Refusal(404, body=json.dumps({"error": "gone"}).encode())]
    for _ in range(2):
        with pytest.raises(LocalspecError, match="has no repository"):
            opened().repository(REPO)
