"""`localspec models ls`: a table of the models on this machine."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.catalog.words import plain, size
from app.shell.columns import table
from app.shell.paths import headers_file
from app.shell.terminal import Terminal
from models.gguf.parameter_count import parameter_count
from models.library.local import LocalModel, local_models
from models.library.stores import own_folders
from models.system.machine import available_memory

_HEAD = ("NAME", "ARCHITECTURE", "PARAMETERS", "QUANT", "SIZE", "CONTEXT", "FIM", "MEMORY", "FITS")
_FLUSH_LEFT = {0, 1, 3, 6, 7, 8}
_HEADS = "Draft heads, for --draft with the model they were made for:"
_HINT = "No models found. Add your model folders with LOCALSPEC_MODELS or --dir."


def list_models(folders: Sequence[Path], *, as_json: bool) -> None:
    """Print the models of all stores and of these folders; unusable ones with the reason."""
    terminal, found = Terminal(), local_models(folders, known=headers_file())
    tell_missing_folders(terminal)
    if as_json:
        record = {"type": "models", "available": available_memory(), "models": [_record(model) for model in found]}
        terminal.say(json.dumps(record) + "\n")
    elif found:
        terminal.say("\n".join(_lines(found)) + "\n")
    else:
        terminal.show(_HINT)


def tell_missing_folders(terminal: Terminal) -> None:
    """Print a note about the user's own folders that are missing."""
    if gone := [plain(str(folder)) for folder in own_folders() if not folder.is_dir()]:
        terminal.warn(f"LOCALSPEC_MODELS names missing folders: {', '.join(gone)}")


def _lines(found: Sequence[LocalModel]) -> list[str]:
    rows = [_row(model) for model in found if model.info]
    lines = table(_HEAD, rows, 0, _FLUSH_LEFT) if rows else []
    heads = [f"{plain(model.name)}: {plain(model.head)}" for model in found if model.head]
    broken = [f"{plain(model.name)}: {plain(model.reason)}" for model in found if model.info is None and not model.head]
    for title, others in (
        ("Draft heads, for --draft with the model they were made for:", heads),
        ("Can't be used:", broken),
    ):
        lines += [""] * bool(lines and others) + [title] * bool(others) + [f"  {line}" for line in others]
    return lines


def _row(model: LocalModel) -> list[str]:
    info = model.info
    assert info is not None, "only models that can be used have a row"
    return [
        plain(model.name),
        plain(info.architecture),
        parameter_count(info.parameters),
        info.quantisation,
        size(info.size),
        f"{info.context:,}",
        "yes" if info.fim else "no",
        info.memory,
        f"{'yes' if model.fits else 'no'}, {size(model.need or 0)}",
    ]


def _record(model: LocalModel) -> dict[str, Any]:
    about = {"name": model.name, "path": str(model.path), "fits": model.fits, "need": model.need}
    if model.info is None:
        return {**about, "reason": model.reason, "head": model.head}
    return {**about, **{key: value for key, value in asdict(model.info).items() if key not in ("path", "shape")}}
