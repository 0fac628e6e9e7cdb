"""Files of draft heads: known by their header, and found beside a model by the names that converters give them."""

import re
from pathlib import Path

from models.gguf.header import Header, read_model
from models.gguf.heads import read_head
from models.gguf.shape import shape_of
from models.library.quantisation_names import is_head
from models.llama.memory import Need

_NAMED = re.compile(r"(?:^|[-._])(?:mtp|eagle3|assistant|dflash|dspark|medusa)(?=[-._])", re.IGNORECASE)


def is_head_file(path: Path) -> bool:
    """Return whether a file holds a draft head and no model; raises ModelFileError for no GGUF."""
    return read_head(read_model(path)) is not None


def head_need(path: Path, caches: int) -> Need:
    """Return what a head takes of memory with so many caches, each as long as its target's; raises ModelFileError."""
    return need_of_head(read_model(path), caches)


def need_of_head(header: Header, caches: int) -> Need:
    """Return what a head with this header takes of memory, as `head_need`."""
    return Need(shape_of(header), 1, ("f16", "f16"), caches=caches)


def heads_beside(model: Path) -> list[Path]:
    """Return the GGUF files in a model's folder whose names say that they are heads, in order of their names."""
    try:
        files = sorted(model.parent.glob("*.gguf"))
    except OSError:
        return []
    return [path for path in files if path != model and named_as_head(path.name)]


def named_as_head(name: str) -> bool:
    """Return whether a file's name says that it holds a draft head."""
    last = name.rpartition("/")[2]
    return last.endswith(".gguf") and (is_head(last) or _NAMED.search(last) is not None)
