"""Words about the first load: which model, what is done now, and for how long."""

from pathlib import Path

from app.shell.safe_text import one_line
from app.ui.panel.bars import percent
from models.library.catalog import STARTER

_LONG = 3.0
"""Seconds of a load from which on its time is shown."""
_MEANWHILE = "You can type already: a message is sent when the model is ready."


def load_words(model: str, step: tuple[str, float | None] | None, seconds: float) -> str:
    """Return paragraphs about a load of `model` that has taken so long; for `step` see `Flow.loading`."""
    name = "the starter model" if model == STARTER else one_line(Path(model).name.removesuffix(".gguf"))
    so_far = f" {seconds:.0f} s so far." if seconds >= _LONG else ""
    return "\n\n".join([f"Loading {name} …{so_far}", *_step(step), _MEANWHILE])


def _step(step: tuple[str, float | None] | None) -> list[str]:
    if step is None:
        return []
    words, share = step
    return [f"{one_line(words)}." if share is None else f"Reading {one_line(words)}: {percent(share)}."]
