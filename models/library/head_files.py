"""Files of draft heads beside a model, by the names that converters give them."""

import re
from pathlib import Path

from models.library.quantisation_names import is_head

_NAMED = re.compile(r"(?:^|[-._])(?:mtp|eagle3|dflash|dspark)(?=[-._])", re.IGNORECASE)


def heads_beside(model: Path) -> list[Path]:
    """Return the GGUF files in a model's folder whose names say that they are heads, in order of their names."""
    try:
        files = sorted(model.parent.glob("*.gguf"))
    except OSError:
        return []
    return [path for path in files if path != model and (is_head(path.name) or _NAMED.search(path.name))]
