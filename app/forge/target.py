"""Facts about a target that every method needs, read from its header."""

from dataclasses import dataclass
from pathlib import Path

from models.gguf.header import read_model
from models.gguf.vocab import HeaderVocab


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """Sizes of a target."""

    architecture: str
    blocks: int
    """Layers, without those that only draft."""
    width: int
    """Numbers of a hidden row."""
    vocabulary: int
    """Tokens."""
    size: int
    """Bytes of the file."""
    context: int
    """Tokens that the target was trained for."""


def facts_of(target: Path) -> TargetFacts:
    """Return a target's facts; raises ModelFileError."""
    header = read_model(target)
    architecture = header.text("general.architecture")

    def number(name: str, usual: int) -> int:
        return header.number(f"{architecture}.{name}") or usual

    return TargetFacts(
        architecture,
        number("block_count", 0) - number("nextn_predict_layers", 0),
        number("embedding_length", 0),
        HeaderVocab(header).size,
        target.stat().st_size,
        number("context_length", 8192),
    )
