"""Files of models with blocks left out: the rest is renumbered, and stays bit by bit as it was."""

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from app.forge.files.copying import write_copy
from models.errors import PairError
from models.gguf.header import ArrayPlace, Header, read_model

_BLOCK = re.compile(r"blk\.(\d+)\.(.*)")
_PRUNABLE = frozenset(
    {
        "llama", "qwen2", "qwen2moe", "qwen3", "qwen3moe", "gemma", "granite", "internlm2", "olmo", "olmo2", "phi2",
        "stablelm", "starcoder2", "nemotron", "exaone",
    }
)  # fmt: skip
"""Architectures whose blocks are all alike: each adds to its input, whatever its number and their count."""
_BY_NUMBER = {
    "attention.sliding_window": "some of its blocks look back on a window alone",
    "leading_dense_block_count": "its first blocks are of another kind",
    "nextn_predict_layers": "its last blocks draft, and belong to the others",
}
"""Keys that make blocks differ by their numbers, each with the reason."""
FEWEST = 4
"""Blocks of a target below which leaving out one leaves nothing that agrees."""


def check_prunable(target: Path) -> None:
    """Raise PairError, with every reason, for a target whose blocks can't be left out."""
    header = read_model(target)
    if reasons := _reasons(header):
        raise PairError(
            f"No blocks of {target.name} can be left out.",
            cause="\n".join(f"- {reason}" for reason in reasons),
            hint="Use a smaller model of its family as --draft, or another --method.",
        )


def block_bytes(header: Header) -> int:
    """Return the bytes of one block, the mean of all."""
    sizes = [tensor.size for tensor in header.tensors if _BLOCK.match(tensor.name)]
    return sum(sizes) // max(1, block_count(header))


def block_count(header: Header) -> int:
    """Return the number of blocks."""
    return header.number(f"{header.text('general.architecture')}.block_count") or 0


def write_pruned(path: Path, target: Path, left_out: Collection[int]) -> None:
    """Write a target without some blocks; raises OSError, and then leaves no file."""
    header = read_model(target)
    kept = [block for block in range(block_count(header)) if block not in left_out]
    places = {block: place for place, block in enumerate(kept)}

    def change(name: str, data: Any, kind: Any) -> tuple[str, Any, Any] | None:
        match = _BLOCK.fullmatch(name)
        if match is None:
            return name, data, kind
        place = places.get(int(match[1]))
        return None if place is None else (f"blk.{place}.{match[2]}", data, kind)

    write_copy(path, target, {f"{header.text('general.architecture')}.block_count": len(kept)}, change)


def _reasons(header: Header) -> list[str]:
    architecture, blocks = header.text("general.architecture"), block_count(header)
    if architecture not in _PRUNABLE:
        return [f"blocks of {architecture or 'an unnamed architecture'} are not known to be all alike"]
    found = [reason for key, reason in _BY_NUMBER.items() if header.number(f"{architecture}.{key}")]
    found += [
        f"its file has a list of numbers by block ({key})"
        for key, value in header.values.items()
        if key.startswith(f"{architecture}.") and isinstance(value, ArrayPlace) and value.count == blocks
    ]
    return [*found, *([f"it has {blocks} blocks, of at least {FEWEST}"] if blocks < FEWEST else [])]
