"""Cards of forged drafters: writing, listing and removing."""

import json
import platform
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

from app import __version__
from app.engine.costs.provenance import processor_name
from app.forge.estimate import size_words
from app.forge.methods.base import Made
from app.forge.request import ForgeRequest
from app.forge.trial import Trial
from app.forge.work import Work
from app.shell.paths import forge_work_folder, forged_folder
from models.errors import UsageError
from models.library.forged import FORMAT, Forged, forged
from models.system.whole_file import write_whole


def card_of(request: ForgeRequest, made: Made, trial: Trial) -> dict[str, Any]:
    """Return the card of a drafter: its target, what it was made from, and what was measured."""
    return {
        "format": FORMAT,
        "method": request.method,
        "target": {"name": request.name, "size": request.identity.size, "fingerprint": request.identity.digest},
        "draft": None if request.draft is None else request.draft.name,
        "quantisation": request.kind,
        "made": {
            "date": date.today().isoformat(),
            "machine": processor_name(),
            "system": platform.system(),
            "localspec": __version__,
            **asdict(made),
        },
        "measured": trial.record,
    }


def keep(request: ForgeRequest, work: Work, card: dict[str, Any]) -> Path:
    """Put a drafter's file and its card in their place; raises OSError. Return the card's file."""
    out, written = request.out, request.out.with_suffix(".json")
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_suffix(".partial")
    try:
        shutil.copyfile(work.drafter, partial)
        # The card last: a drafter without one is not used.
        partial.replace(out)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    write_whole(written, json.dumps(card, indent=2) + "\n")
    return written


def listing() -> str:
    """Return the drafters that were made here, and unfinished work, as lines."""
    lines = []
    for each in forged(forged_folder()):
        made = each.record.get("made")
        day = f" on {made['date']}" if isinstance(made, dict) and isinstance(made.get("date"), str) else ""
        gain = f", {each.speed_up:.2f}x plain{day}" if each.speed_up else ""
        lines.append(f"{each.name}\n  {each.method} for {each.target}, {size_words(each.path.stat().st_size)}{gain}")
    lines += [f"{folder.name}\n  answers and other work, {size_words(_size(folder))}" for folder in unfinished()]
    return "\n".join(lines) if lines else "No drafters were forged here. localspec forge TARGET makes one."


def records() -> dict[str, Any]:
    """Return the listing as one JSON object."""
    return {
        "type": "forged",
        "drafters": [
            {"name": each.name, "file": str(each.path), "bytes": each.path.stat().st_size, "card": dict(each.record)}
            for each in forged(forged_folder())
        ],
        "unfinished": [{"name": folder.name, "folder": str(folder), "bytes": _size(folder)} for folder in unfinished()],
    }


def unfinished() -> list[Path]:
    """Return the folders of work."""
    folder = forge_work_folder()
    return sorted(each for each in folder.iterdir() if each.is_dir()) if folder.is_dir() else []


def chosen(names: Sequence[str], *, everything: bool) -> tuple[list[Forged], list[Path]]:
    """Return drafters and folders of work by name, or all; raises UsageError for a name that has neither."""
    made, works = forged(forged_folder()), unfinished()
    if everything:
        return made, works
    for name in names:
        if name not in {each.name for each in made} | {each.name for each in works}:
            raise UsageError(f"No forged drafter is named {name}.", hint="localspec forge ls shows their names.")
    return [each for each in made if each.name in names], [each for each in works if each.name in names]


def remove(made: Sequence[Forged], works: Sequence[Path]) -> None:
    """Remove drafters and folders of work; raises OSError."""
    for each in made:
        # The card first: without it the file is not used.
        each.card.unlink(missing_ok=True)
        each.path.unlink(missing_ok=True)
    for folder in works:
        Work(folder).remove()


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
