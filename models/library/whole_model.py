"""Check that a header is that of a model which writes text by itself, and not a part, an adapter or a head."""

import re
from collections.abc import Sequence
from pathlib import Path

from models.errors import ModelFileError
from models.gguf.architecture import is_head
from models.gguf.header import Header, read_model

_OTHER_TYPES = frozenset({"adapter", "mmproj", "imatrix", "vocab", "control_vector"})
"""Values of `general.type` for files that are no models."""
_OTHER_ARCHITECTURES = frozenset({"clip", "imatrix", "controlvector"})
_BLOCK = re.compile(r"blk\.(\d+)\.")
Named = tuple[str, Path]


def is_whole_model(header: Header) -> bool:
    """Return whether a header is that of a model by itself: the layers of a draft head begin after the target's."""
    architecture = header.text("general.architecture")
    if header.text("general.type") in _OTHER_TYPES or architecture in _OTHER_ARCHITECTURES or is_head(architecture):
        return False
    blocks = {int(match[1]) for tensor in header.tensors if (match := _BLOCK.match(tensor.name))}
    return not blocks or 0 in blocks


def models_among(files: Sequence[Named]) -> list[Named]:
    """Return the files that are models by their headers; files whose headers can't be read where no other is left."""
    read = [(each, _is_model(each[1])) for each in files]
    return [each for each, is_model in read if is_model] or [each for each, is_model in read if is_model is None]


def _is_model(path: Path) -> bool | None:
    """Return whether a file is a model by its header; None for one that can't be read."""
    try:
        return is_whole_model(read_model(path))
    except ModelFileError:
        return None
