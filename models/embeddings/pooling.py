"""Pooling: how a model for embeddings makes one vector of a text, by its header."""

from enum import IntEnum
from pathlib import Path

from models.errors import ModelFileError
from models.gguf.architecture import continues_text, is_known
from models.gguf.header import Header, read_model

_LONGEST = 8192
"""Tokens of the longest text, at most: its memory is taken at the start."""
_LONGEST_AT_ONCE = 2048
"""The same for a model that has an output matrix and pools a whole text: it computes a row of logits for each token."""
_PART = 512
"""Tokens of a pass over a part of a text."""


class Pooling(IntEnum):
    """Kinds of pooling, by the numbers that llama.cpp gives them."""

    NONE = 0
    MEAN = 1
    CLS = 2
    LAST = 3
    RANK = 4


def pooling_of(path: Path) -> Pooling:
    """Return the pooling of a model that is made for embeddings; raises ModelFileError for any other file."""
    header = read_model(path)
    architecture = header.text("general.architecture")
    if not is_known(architecture):
        raise ModelFileError(
            f"{path.name}: architecture '{architecture}' is not supported by this engine.",
            hint="Look for the same model in a supported architecture, or update localspec.",
        )
    number = header.number(f"{architecture}.pooling_type")
    found = Pooling(number) if number is not None and number in {*Pooling} else Pooling.NONE
    if found is Pooling.RANK:
        raise ModelFileError(f"{path.name} ranks documents, and makes no embeddings.", hint=_OTHER)
    if found is Pooling.NONE:
        cause = "Its header names no pooling, so a text has no one vector."
        raise ModelFileError(f"{path.name} is not made for embeddings.", cause=cause, hint=_OTHER)
    return found


_OTHER = "Choose a model for embeddings, such as nomic-embed-text, bge-m3, EmbeddingGemma or Qwen3-Embedding."


def pass_sizes(path: Path, pooling: Pooling) -> tuple[int, int]:
    """Return the most tokens of a text, and of a pass, which holds the whole text unless its last token decides."""
    header: Header = read_model(path)
    architecture = header.text("general.architecture")
    trained = header.number(f"{architecture}.context_length") or _LONGEST
    if not continues_text(architecture):
        return (size := min(trained, _LONGEST)), size
    if pooling is Pooling.LAST:
        return (size := min(trained, _LONGEST)), min(size, _PART)
    return (size := min(trained, _LONGEST_AT_ONCE)), size
