"""Choices of a picker: names, facts known without loading, and the reason why one can't be used."""

from dataclasses import dataclass, replace
from pathlib import Path

from app.engine.runtime.load import TOY, TOY_FIM
from app.shell.paths import headers_file
from drafters.registry import AUTO, FREE_DRAFTERS, HEAD, OFF, names_to_offer
from models.errors import ModelFileError
from models.gguf.header import read_model
from models.gguf.heads import has_own_head, head_words
from models.gguf.pair import PairFindings, check_files
from models.library.catalog import find_model, is_same_model
from models.library.local import LocalModel, local_models

_RUNNING = "running now"
_SUMMARIES = {
    AUTO: "the suffix index, memory of earlier answers and a small model, while they save time",
    OFF: "no drafter: plain decoding",
}


@dataclass(frozen=True, slots=True)
class Choice:
    """One entry of a picker."""

    name: str
    """Name or path that is passed to the loader."""
    detail: str
    """Known facts, in one line."""
    reason: str = ""
    """Reason against its use, or a warning; "": none."""
    usable: bool = True


def model_choices(running: str = "") -> list[Choice]:
    """Return the models on this machine, with a reason beside each that can't be read or may not fit in memory.

    The `running` one, a name or a path, comes first and is marked; one that is in no folder of models is added.
    """
    choices: list[Choice] = []
    marked = False
    for model in local_models(known=headers_file()):
        choice, runs = _choice(model), bool(running) and not marked and is_same_model(model.name, running)
        marked = marked or runs
        choices.insert(0 if runs else len(choices), replace(choice, reason=_RUNNING) if runs else choice)
    alone = [] if marked or not running else [Choice(running, "", _RUNNING)]
    return [*alone, *choices]


def draft_choices(target: str) -> list[Choice]:
    """Return the drafters for a target: those without a model, then local models with the reason against each."""
    summaries = _SUMMARIES | {name: drafter.summary for name, drafter in FREE_DRAFTERS.items()}
    free = [Choice(name, summaries[name]) for name in names_to_offer() if name != HEAD]
    if target in (TOY, TOY_FIM):
        return free
    try:
        path = find_model(target)
        return [*free, _head_choice(path), *_models_for(path)]
    except ModelFileError as error:
        # It has lost its name, or its file, since it was loaded: no draft model can be compared with it.
        return [*free, Choice(target, "", error.title, usable=False)]


def _head_choice(target: Path) -> Choice:
    """Return the target's own draft head, or the reason why there is none."""
    words = head_words(read_model(target))
    if words:
        return Choice(HEAD, f"the model's own draft head: {words}", usable=has_own_head(read_model(target)))
    return Choice(HEAD, "", "this model has no draft head in its file", usable=False)


def _models_for(target: Path) -> list[Choice]:
    own = target.resolve()
    found = []
    for model in local_models(known=headers_file()):
        choice = _choice(model)
        if choice.usable and model.path.resolve() != own:
            pair = check_files(target, model.path)
            found.append(Choice(choice.name, choice.detail, _pair_note(pair), usable=not pair.reasons))
    return sorted(found, key=lambda choice: not choice.usable)


def _pair_note(pair: PairFindings) -> str:
    if pair.reasons and pair.differences:
        return "can't draft for this model: its tokens are others, and it can't draft text"
    if pair.reasons:
        return f"can't draft for this model: {pair.reasons[0]}"
    return "other tokens than this model, so it drafts text" if pair.differences else ""


def _choice(model: LocalModel) -> Choice:
    if model.info is None:
        return Choice(model.name, "", model.reason, usable=False)
    info = model.info
    detail = f"{info.architecture}, {info.parameters / 1e9:.1f}B, {info.quantisation}, {info.size / 1e9:.1f} GB"
    return Choice(model.name, detail, "may not fit in the memory that is free now" if model.fits is False else "")
