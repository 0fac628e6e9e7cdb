"""Short names of models and drafters for screens, such as "0.5b Q4_0" and "copy"."""

import re
from dataclasses import replace

from app.engine.control.explain import Explanation
from models.library.quantisation_names import label_of

_SIZE = re.compile(r"(?<![a-z0-9.])(\d+(?:\.\d+)?[bm])(?![a-z0-9])", re.IGNORECASE)
"""Number of weights in a model's name, as in "coder-0.5b-instruct" and "30B-A3B"."""
_STARTER = re.compile(r"smollm2-135m-instruct\.q4_1\b", re.IGNORECASE)
"""The file of the model that comes with localspec."""
_LONGEST = 24
"""Characters of a model's name that says no size."""
_FREE = {"suffix": "copy", "lookup": "copy", "memory": "earlier answers", "grammar": "form"}
_MODELS = ("model:", "text:")


def short_model(name: str) -> str:
    """Return a model's size and quantisation, as far as its name says them; else the beginning of the name."""
    if _STARTER.search(name):
        return "starter"
    size, label = _SIZE.search(name), label_of(name)
    if size is None:
        plain = name.rpartition("/")[2].removesuffix(".gguf")
        return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1] + "…"
    return " ".join(filter(None, (size[1].lower(), label)))


def short_drafter(name: str) -> str:
    """Return the short name of a drafter or of a draft's source, each part once: "copy + earlier answers + starter"."""
    parts: list[str] = []
    for part in name.split("+"):
        short = _short_part(part)
        if short not in parts:
            parts.append(short)
    return " + ".join(parts)


def with_short_names(explanation: Explanation | None) -> Explanation | None:
    """Return an explanation that names its sources and its draft model shortly."""
    if explanation is None:
        return None
    sources = tuple(replace(account, name=short_drafter(account.name)) for account in explanation.sources)
    model = short_drafter(explanation.model) if explanation.model else ""
    waiting = tuple(map(short_drafter, explanation.waiting))
    failures = {short_drafter(name): title for name, title in explanation.failures.items()}
    return replace(explanation, sources=sources, model=model, waiting=waiting, failures=failures)


def _short_part(part: str) -> str:
    model = next((part.removeprefix(prefix) for prefix in _MODELS if part.startswith(prefix)), None)
    return short_model(model) if model is not None else _FREE.get(part, part)
