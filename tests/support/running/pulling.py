"""`localspec models pull` and `rm` as a test runs them, against a hub on loopback."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hub_server import HubState, hub_server
from huggingface_hub import close_session
from raw_gguf import VOCABULARY, Weights, gguf_bytes
from run_here import Done, localspec_here

REPO = "user/repo-GGUF"
QUANTS = {"Q2_K": 1, "Q4_K_M": 2, "Q8_0": 4, "F16": 8}
"""Of the files on the hub, and how many MiB each has."""
MIB = 1 << 20


def model(size: int = 1, rows: int = 2, **values: Any) -> bytes:
    """Return a model of so many MiB."""
    tensors = [Weights("token_embd.weight", (4, rows))]
    head = gguf_bytes({**VOCABULARY, **values}, tensors, data=rows * 16)
    return head + bytes(size * MIB - len(head) - 1) + bytes([rows % 251])


def split_part(part: int, parts: int) -> bytes:
    """Return one of the files of a model, with a tensor of its own."""
    data = model(1, 2, **{"split.no": part - 1, "split.count": parts})
    return data.replace(b"token_embd.weight", b"t%d" % part * 8 + b"t")


@contextmanager
def hub_with_models(patch: pytest.MonkeyPatch) -> Iterator[HubState]:
    """Run a hub that has a model in four quantisations, and be the one that pulls from it."""
    for name in ("HF_HUB_CACHE", "HF_HOME", "HF_TOKEN", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "OLLAMA_MODELS"):
        patch.delenv(name, raising=False)
    patch.setenv("NO_PROXY", "127.0.0.1")
    patch.setattr("models.library.hub.time.sleep", lambda _: None)
    with hub_server() as state:
        for quant, size in QUANTS.items():
            state.add(REPO, f"m-{quant}.gguf", model(size))
        state.add(REPO, "mmproj-F16.gguf", b"GGUF")
        patch.setenv("HF_ENDPOINT", state.url)
        yield state
        close_session()


def pull(home: Path, *arguments: str, typed: str | None = None, **extra: str) -> Done:
    return localspec_here("models", "pull", *arguments, home=home, typed=typed, extra=extra)


def remove(home: Path, *arguments: str, typed: str | None = None) -> Done:
    return localspec_here("models", "rm", *arguments, home=home, typed=typed)


def path_of(home: Path, name: str) -> Path:
    done = localspec_here("models", "path", name, home=home, extra={"LOCALSPEC_OFFLINE": "1"})
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def cached(home: Path) -> list[str]:
    """Return the files that are in the cache and whole."""
    found = (home / ".cache/huggingface/hub").glob("models--*/snapshots/*/**/*.gguf")
    return sorted(path.name for path in found)
