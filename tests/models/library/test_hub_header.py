"""Headers of models that are still on the hub: the same as those of the whole files, from a small part of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_server import HubState, hub_server
from huggingface_hub import close_session
from raw_gguf import VOCABULARY, Array, Weights, gguf_bytes

from models.errors import FormatError, ModelFileError
from models.gguf.header import Header, read_model
from models.library import hub_header
from models.library.hub import Hub
from models.library.hub_header import HubHeaders

REPO = "user/repo"
FIRST = 2 << 20
WORDS = [f"token {number:06}" for number in range(150_000)]


@pytest.fixture(autouse=True)
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubState]:
    with hub_server() as state:
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        for name, value in {"HF_ENDPOINT": state.url, "HF_HUB_CACHE": str(tmp_path), "NO_PROXY": "127.0.0.1"}.items():
            monkeypatch.setenv(name, value)
        yield state
        close_session()


def read(headers: HubHeaders) -> Header | None:
    return headers.read(Hub().repository(REPO).files)


def both(hub: HubState, folder: Path, data: bytes) -> tuple[Header, Header]:
    """Return the header of a file on this machine and of the same one on the hub."""
    hub.add(REPO, "m.gguf", data)
    path = folder / "m.gguf"
    path.write_bytes(data)
    with HubHeaders(Hub()) as headers:
        there = read(headers)
        assert there is not None
        here = read_model(path)
        place = here.array("tokenizer.ggml.tokens")
        assert place is not None
        # While it is open, what was left in the file can be read.
        assert here.raw(place) == there.raw(place)
    return here, there


def test_a_long_header_is_fetched_piece_by_piece(hub: HubState, tmp_path: Path) -> None:
    data = gguf_bytes({**VOCABULARY, "tokenizer.ggml.tokens": Array(WORDS)}, data=20 << 20)
    here, there = both(hub, tmp_path, data)
    assert (here.values, here.tensors, here.file_size) == (there.values, there.tensors, there.file_size)
    assert hub.ranges_asked() == [f"bytes=0-{FIRST - 1}", f"bytes={FIRST}-{2 * FIRST - 1}"]


def test_a_last_tensor_that_is_half_here_is_not_taken_for_whole(hub: HubState, tmp_path: Path) -> None:
    tensors = [Weights("token_embd.weight"), Weights("output.weight", (4, 1), 0, 32)]

    def padded(size: int) -> bytes:
        return gguf_bytes({**VOCABULARY, "padding": "x" * size}, tensors, data=4 << 20)

    short = FIRST - padded(0).index(b"output.weight") - len("output")
    here, there = both(hub, tmp_path, padded(short))
    assert here.tensors == there.tensors
    assert len(hub.ranges_asked()) == 2


@pytest.mark.parametrize("wrong", [{"tensors": [Weights("a", (32,), kind=139)]}, {"version": 3 << 24}])
def test_what_no_engine_here_reads_is_told_by_its_beginning(hub: HubState, wrong: dict[str, Any]) -> None:
    hub.add(REPO, "m.gguf", gguf_bytes(data=8 << 20, **wrong))
    with HubHeaders(Hub()) as headers, pytest.raises(FormatError, match=r"m\.gguf"):
        read(headers)
    assert len(hub.ranges_asked()) == 1


def test_what_is_no_model_is_told_and_what_is_too_long_is_left(hub: HubState, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add(REPO, "m.gguf", b"GGUF" + bytes(100))
    with HubHeaders(Hub()) as headers, pytest.raises(ModelFileError, match=r"m\.gguf"):
        read(headers)
    hub.add(REPO, "m.gguf", gguf_bytes({**VOCABULARY, "tokenizer.ggml.tokens": Array(WORDS)}, data=8 << 20))
    monkeypatch.setattr(hub_header, "_MOST", FIRST)
    with HubHeaders(Hub()) as headers:
        assert read(headers) is None
