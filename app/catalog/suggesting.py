"""`localspec models suggest`: a draft model for a target, or the reason why none is needed."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.catalog.candidates import Candidate, Candidates, Suggestion
from app.catalog.foreseen import acceptance_words, passes_words, prediction_record, range_words
from app.catalog.listing import tell_missing_folders
from app.catalog.recommended.offer_table import offer_lines, offers_record
from app.catalog.recommended.offers import read_offers
from app.catalog.words import in_a_line, plain, size
from app.engine.constants import WORTH
from app.shell.columns import table, wrapped
from app.shell.paths import headers_file, machine_memory
from app.shell.terminal import Terminal
from models.gguf.model_info import model_info
from models.gguf.parameter_count import parameter_count
from models.library.catalog import STARTER, find_model
from models.library.local import LocalModel, local_models
from models.llama.devices import gpus
from models.llama.memory import room_for
from models.system.machine import available_memory

_HEAD = ("DRAFT", "PARAMETERS", "QUANT", "STEP", "SPEED-UP", "TOGETHER", "FITS")
_FLUSH_LEFT = {0, 2, 3, 6}
_NO_PAIRS = "No two models on this machine are a pair."
_NO_MODEL = "No models found. Add your model folders with LOCALSPEC_MODELS or --dir."
_LEGEND = (
    "STEP: cost of a draft token in target tokens. * measured; others are estimated from the bytes read per token."
)


def suggest(name: str | None, folders: Sequence[Path], *, as_json: bool) -> None:
    """Print candidates for one target, or for every local model that has one and models to fetch.

    Raises ModelFileError.
    """
    # By default the whole model goes to the GPUs, if there are any.
    terminal, room = Terminal(), room_for([], available_memory(), gpus())
    tell_missing_folders(terminal)
    # Models in the target's own folder are listed too.
    beside = [find_model(name).parent] if name is not None and name != STARTER else []
    here = local_models([*folders, *beside], known=headers_file())
    finder = Candidates(here, machine_memory(), room)
    found = [finder.suggest(target) for target in _targets(name, here, finder)]
    offers = read_offers() if name is None else None
    if as_json:
        record = {"type": "suggestions", "available": room.free, "on_gpu": room.on_gpu}
        record |= {"targets": [_record(each) for each in found]}
        record |= {"to_fetch": offers_record(offers, room)} if offers else {}
        terminal.say(json.dumps(record) + "\n")
        return
    lines = _lines(found, alone=name is not None) if found else []
    if not found:
        terminal.show(_NO_MODEL)
    if offers:
        lines += [*([""] if found else []), *offer_lines(offers, room)]
    terminal.say("\n".join(lines) + "\n")


def _targets(name: str | None, here: Sequence[LocalModel], finder: Candidates) -> list[LocalModel]:
    if name is not None:
        return [_named(name, here)]
    # Without any pair, the default model of `run` still gets an answer.
    return finder.targets() or [model for model in here if model.name == STARTER and model.info]


def _named(name: str, here: Sequence[LocalModel]) -> LocalModel:
    """Return a model under its given name; raises ModelFileError."""
    path = find_model(name)
    info = model_info(path)
    same = next(
        (model.path for model in here if model.path.exists() and path.exists() and model.path.samefile(path)), path
    )
    return LocalModel(name, same, info)


def _lines(found: Sequence[Suggestion], *, alone: bool) -> list[str]:
    lines = [] if alone or any(each.candidates for each in found) else [_NO_PAIRS, ""]
    for each in found:
        lines += [*_of_target(each), ""]
    if any(each.candidates for each in found):
        return [*lines, *wrapped(_LEGEND, 0), *wrapped(acceptance_words(), 0)]
    return lines[:-1]


def _of_target(found: Suggestion) -> list[str]:
    assert found.target.info is not None, "what can't be used is no target"
    lines = wrapped(f"{plain(found.target.name)}: {in_a_line(found.target.info)}", 0, 2)
    if found.candidates:
        lines += table(_HEAD, [_row(each) for each in found.candidates], 2, _FLUSH_LEFT)
        lines += wrapped(passes_words(found.candidates[0].foreseen), 2)
    return [*lines, *wrapped(_verdict(found), 2), *(f"    {command}" for command in _commands(found))]


def _row(each: Candidate) -> list[str]:
    info = each.model.info if each.model else None
    step = f"{each.foreseen.prediction.step:.2f}{' *' if each.foreseen.step_measured else ''}"
    fits = {True: "yes", False: "no", None: "not here"}[each.fits]
    return [
        plain(each.name),
        parameter_count(each.parameters),
        info.quantisation if info else "",
        step,
        range_words(each.foreseen),
        size(each.need) if each.need else "",
        fits,
    ]


def _verdict(found: Suggestion) -> str:
    if found.target.info is not None and found.target.info.own_head:
        return "Its own draft head (MTP) drafts, with no flag:"
    if (best := found.best) is not None:
        return "The best on this machine:" if best.model else "The best is not on this machine; to fetch and use it:"
    assert found.target.info is not None, "what can't be used is no target"
    if found.target.info.memory == "none":
        return (
            f"No drafter can help: rejected tokens can't be undone in its memory ({found.target.info.memory_reason}):"
        )
    return (
        f"No draft model needed: {_why_none(found)}. The suffix index drafts, and where it pays the starter, as text:"
    )


def _why_none(found: Suggestion) -> str:
    if not found.candidates:
        return "no smaller model with its tokenizer is known"
    if any(each.foreseen.prediction.pays for each in found.candidates):
        return "those that would pay off do not fit in memory beside it"
    return f"no draft model has a predicted gain of {WORTH - 1:.0%}"


def _commands(found: Suggestion) -> list[str]:
    """Return the commands to run, in order."""
    run = ["localspec", "run", found.target.name]
    best = found.best
    if best is None or (found.target.info is not None and found.target.info.own_head):
        return [shlex.join(run)]
    fetch = [] if best.model else [shlex.join(["localspec", "models", "pull", best.name])]
    return [*fetch, shlex.join([*run, "--draft", best.name])]


def _record(found: Suggestion) -> dict[str, Any]:
    best, target = found.best, found.target
    return {
        "target": {"name": target.name, "path": str(target.path)},
        "drafts": [_draft(each) for each in found.candidates],
        "best": best.name if best else None,
        "own_head": target.info is not None and target.info.own_head,
        "reason": None if best else _verdict(found).rstrip(":"),
        "commands": _commands(found),
    }


def _draft(each: Candidate) -> dict[str, Any]:
    model = each.model
    return {
        "name": each.name,
        "path": str(model.path) if model else None,
        "here": model is not None,
        "parameters": each.parameters,
        "quantisation": model.info.quantisation if model and model.info else None,
        "need": each.need,
        "fits": each.fits,
        "predicted": prediction_record(each.foreseen),
    }
