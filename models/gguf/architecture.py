"""Memory of a model architecture, by its name: whether rejected draft tokens can be removed from it.

The lists are llama.cpp's own; `models.llama.model` asks the loaded model instead, and a test holds the two together.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from models.system.engine_folder import engine_folder

SNAPSHOTS = 8
"""States that a memory keeps to go back to, where it can: each is as large as the memory itself."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


RECURRENT = _words("mamba mamba2 rwkv6 rwkv6qwen2 rwkv7 arwkv7")
HYBRID = _words(
    "jamba falcon-h1 plamo2 granitehybrid lfm2 lfm2moe nemotron_h nemotron_h_moe qwen3next kimi-linear bailingmoe3 "
    "kimi-k3 glm5-next qwen35 qwen35moe qwen4exp deepseek4 minimax-01"
)
_GOES_BACK = _words(
    "kimi-k3 qwen35 qwen35moe qwen4exp deepseek4 glm5-next nemotron_h nemotron_h_moe lfm2 lfm2moe bailingmoe3"
)
"""Recurrent and hybrid ones that keep snapshots."""
_NO_TEXT = _words(
    "clip bert modern-bert nomic-bert nomic-bert-moe neo-bert jina-bert-v2 jina-bert-v3 eurobert gemma-embedding "
    "llama-embed t5 t5encoder wavtokenizer-dec dream llada llada-moe rnd1 qwen3tts pockettts"
)
"""They embed, see, hear, fill whole texts at once or answer what an encoder has read, and never continue a text."""
_HEADS = _words("eagle3 dflash gemma4-assistant medusa")
"""Draft heads: they draft from a target's hidden states, and continue no text."""
_LIBRARIES = ("libllama.so", "libllama.dylib", "llama.dll")
"""Names of the engine's library on Linux, macOS and Windows."""


@dataclass(frozen=True, slots=True)
class MemoryKind:
    """Limit of rewinding by architecture: `models.base.RewindSupport` of a model not yet loaded."""

    limit: int | None
    """Tokens that can be taken back; None: any number; 0: none at all."""
    reason: str
    """One clause for the user."""


@cache
def is_known(architecture: str) -> bool:
    """Return whether the installed engine supports this architecture; True where that is unknown.

    Its names are looked for in the library's file, which takes a millisecond and need not be loaded.
    """
    folder = Path(os.environ.get("LLAMA_CPP_LIB_PATH") or engine_folder())
    for name in _LIBRARIES:
        with suppress(OSError):
            # Nothing is said of what is before it: a linker lets a name begin within a longer one.
            return architecture.encode() + b"\0" in (folder / name).read_bytes()
    return True


def continues_text(architecture: str) -> bool:
    """Return whether a model of this architecture generates one token after another."""
    return architecture not in _NO_TEXT


def is_head(architecture: str) -> bool:
    """Return whether a model of this architecture is a draft head, which drafts from another model's hidden states."""
    return architecture in _HEADS


def keeps_keys_only(architecture: str, compressed: int) -> bool:
    """Return whether values are part of the cached keys, `compressed` being the key length of compressed attention."""
    return compressed > 0 or architecture == "deepseek4"


def memory_kind(architecture: str, window: int) -> MemoryKind:
    """Say how far this architecture's memory goes back, `window` being its sliding window; 0 for none."""
    if architecture in RECURRENT | HYBRID:
        family = "recurrent" if architecture in RECURRENT else "hybrid"
        snapshots = SNAPSHOTS if architecture in _GOES_BACK else 0
        kept = f"{snapshots} snapshots" if snapshots else "no snapshots, so it can't go back"
        return MemoryKind(snapshots, f"{family} memory with {kept}")
    if window > 0:
        return MemoryKind(None, f"attention cache with a sliding window of {window}, kept whole")
    return MemoryKind(None, "attention cache")


def memory_class(kind: MemoryKind) -> str:
    """Return one word for it: "rewind" (any distance), "checkpoint" (a few tokens) or "none"."""
    if kind.limit is None:
        return "rewind"
    return "checkpoint" if kind.limit else "none"
