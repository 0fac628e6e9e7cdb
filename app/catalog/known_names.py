"""Names that the user may be about to type."""

from app.catalog.pairs import card_files
from models.library.local import local_names
from models.library.names import PAIR


def known_names() -> list[str]:
    """Return the names of the models on this machine, and of the pair cards."""
    return [*local_names(), *(f"{PAIR}{path.stem}" for path in card_files())]
