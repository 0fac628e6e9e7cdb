"""What a picker offers: names, what is known of them without loading, and why one can't be taken."""

from dataclasses import dataclass
from pathlib import Path

from app.catalog.listing import headers_file
from app.engine.runtime.load import TOY, TOY_FIM
from drafters.registry import AUTO, FREE_DRAFTERS, OFF, names_to_offer
from models.errors import ModelFileError
from models.gguf.pair import pair_reasons
from models.library.catalog import find_model
from models.library.local import LocalModel, local_models

_SUMMARIES = {
    AUTO: "whatever pays off: the suffix index, and memory of earlier answers",
    OFF: "none: plain decoding",
}


@dataclass(frozen=True, slots=True)
class Choice:
    """One thing to choose."""

    name: str
    """What is given to the loader."""
    detail: str
    """What is known of it, in one line."""
    reason: str = ""
    """Why it can't be taken, or what speaks against it; "": nothing."""
    usable: bool = True


def model_choices() -> list[Choice]:
    """Return the models on this machine; one that does not fit, or can't be read, says so."""
    return [_choice(model) for model in local_models(known=headers_file())]


def draft_choices(target: str) -> list[Choice]:
    """Return who may guess for a target: what needs no model, then every local model, with what is in its way."""
    summaries = _SUMMARIES | {name: drafter.summary for name, drafter in FREE_DRAFTERS.items()}
    free = [Choice(name, summaries[name]) for name in names_to_offer()]
    if target in (TOY, TOY_FIM):
        return free
    try:
        return [*free, *_models_for(find_model(target))]
    except ModelFileError as error:
        # It has lost its name, or its file, since it was loaded: no draft model can be compared with it.
        return [*free, Choice(target, "", error.title, usable=False)]


def _models_for(target: Path) -> list[Choice]:
    own = target.resolve()
    found = []
    for model in local_models(known=headers_file()):
        choice = _choice(model)
        if choice.usable and model.path.resolve() != own:
            reasons = pair_reasons(target, model.path)
            found.append(Choice(choice.name, choice.detail, _incompatible(reasons), usable=not reasons))
    return sorted(found, key=lambda choice: not choice.usable)


def _incompatible(reasons: list[str]) -> str:
    return f"does not fit this model: {reasons[0]}" if reasons else ""


def _choice(model: LocalModel) -> Choice:
    if model.info is None:
        return Choice(model.name, "", model.reason, usable=False)
    info = model.info
    detail = f"{info.architecture}, {info.parameters / 1e9:.1f}B, {info.quantisation}, {info.size / 1e9:.1f} GB"
    return Choice(model.name, detail, "may not fit in the memory free now" if model.fits is False else "")
