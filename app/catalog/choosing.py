"""Which file of a repository is meant, and which is best for this machine when none is named."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app.catalog.words import free_in, size
from models.errors import MemoryLimitError, ModelFileError
from models.gguf import is_later_part, parts_of
from models.gguf_header import Header
from models.hub_files import HubFile, Repository
from models.hub_header import HubHeaders
from models.memory import MemoryPlan, Room, plan_memory
from models.model_info import ModelInfo, info_of
from models.names import MAIN, HubName
from models.stores import choose, is_head, label_of

USUAL = "Q4_K_M"
_FOR_DRAFTS = ("Q4_0", "Q8_0", USUAL)
"""What a draft model is fast with, best first."""
_FULL_WIDTH = ("F32", "F16", "FP16", "BF16")
_NO_MODELS = ("mmproj", "imatrix")
Parts = tuple[HubFile, ...]
"""The files of one model, the first of them first."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A model on the hub, and what is known of it before it is fetched."""

    name: str
    """By which it can be used once it is here."""
    files: Parts
    reason: str
    """Why this one was chosen; "" for one that was named."""
    header: Header | None
    """None where it could not be read."""
    info: ModelInfo | None
    plan: MemoryPlan | None
    """What it takes in memory at its default context."""

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.size for file in self.files)

    @property
    def fetched(self) -> int:
        """Bytes of them that are here."""
        return sum(file.fetched for file in self.files)


def choose_model(repository: Repository, wanted: HubName, headers: HubHeaders, room: Room) -> Choice:
    """Return the model that a name means; raises ModelFileError where there is no such one.

    With no file and no quantisation named it is Q4_K_M if there is room for that, else the largest that fits; raises
    MemoryLimitError when none does.
    """
    models = _models(repository)
    if wanted.file or wanted.label or len(models) == 1:
        files = _named(repository, models, wanted)
        reason = "" if wanted.file or wanted.label else "the only model there"
        return _read(repository, files, reason, headers, on_gpu=room.on_gpu)
    return _for_memory(repository, models, headers, room)


def choose_draft(repository: Repository, headers: HubHeaders, *, on_gpu: bool) -> Choice:
    """Return the model of a repository that guesses fastest."""
    models = _models(repository)
    found = (_labelled(models, label) for label in _FOR_DRAFTS)
    files = next((files for files in found if files), min(models, key=_bytes))
    return _read(repository, files, "", headers, on_gpu=on_gpu)


def _models(repository: Repository) -> list[Parts]:
    """Return the models of a repository whose files are all there."""
    files = {file.name: file for file in repository.files}
    firsts = [name for name in files if not is_later_part(Path(name)) and not _is_other(name)]
    parts = [[files.get(part.as_posix()) for part in parts_of(Path(name))] for name in firsts]
    models = [tuple(file for file in each if file is not None) for each in parts if None not in each]
    if not models:
        raise ModelFileError(
            f"{repository.repo} has no GGUF models.",
            hint="Look for a repository of the same model with GGUF in its name.",
        )
    return models


def _is_other(name: str) -> bool:
    return is_head(name) or any(word in Path(name).name.lower() for word in _NO_MODELS)


def _named(repository: Repository, models: list[Parts], wanted: HubName) -> Parts:
    if wanted.file:
        files = next((files for files in models if files[0].name == wanted.file), None)
    else:
        files = _labelled(models, wanted.label)
    if files is None:
        raise ModelFileError(
            f"{repository.repo} has no {wanted.file or wanted.label}.",
            cause=f"It has: {', '.join(_described(files) for files in models)}.",
            hint=f"Name one of them, such as {_name(repository, models, models[0])}.",
        )
    return files


def _for_memory(repository: Repository, models: list[Parts], headers: HubHeaders, room: Room) -> Choice:
    common = [files for files in models if label_of(files[0].name) not in _FULL_WIDTH] or models
    usual = _labelled(common, USUAL)
    base = _read(repository, usual or min(common, key=_bytes), "", headers, on_gpu=room.on_gpu)
    if base.plan is None:
        return replace(base, reason="the usual choice" if usual else "the smallest")
    if usual and base.plan.total <= room.free:
        return replace(base, reason="the usual choice, and it fits")
    plans = {files: _scaled(base.plan, _bytes(files) / base.size) for files in sorted(common, key=_bytes, reverse=True)}
    best = next((files for files, plan in plans.items() if plan.total <= room.free), None)
    if best is None:
        raise _none_fits(repository, models, plans, room)
    instead = f"; {USUAL} would need {size(base.plan.total)}" if usual else ""
    name, reason = _name(repository, models, best), f"the largest that fits{instead}"
    return replace(
        base, name=name, files=best, reason=reason, plan=plans[best], info=base.info if best == usual else None
    )


def _none_fits(
    repository: Repository, models: list[Parts], plans: dict[Parts, MemoryPlan], room: Room
) -> MemoryLimitError:
    smallest, plan = list(plans.items())[-1]
    return MemoryLimitError(
        f"No quantisation of {repository.repo} fits in memory now.",
        cause=f"The smallest, {_described(smallest)}, needs {size(plan.total)}; {free_in(room)}.",
        hint=f"Choose a smaller model, or name one to fetch it all the same: {_name(repository, models, smallest)}.",
    )


def _read(repository: Repository, files: Parts, reason: str, headers: HubHeaders, *, on_gpu: bool) -> Choice:
    header = headers.read(files)
    info = info_of(header) if header else None
    plan = plan_memory(info.shape, on_gpu=on_gpu) if info else None
    return Choice(_name(repository, _models(repository), files), files, reason, header, info, plan)


def _scaled(plan: MemoryPlan, share: float) -> MemoryPlan:
    """Return the plan of another quantisation of the same model, by the sizes of their files."""
    return replace(plan, weights=int(plan.weights * share))


def _labelled(models: Sequence[Parts], label: str) -> Parts | None:
    by_path = {Path(files[0].name): files for files in models}
    path = choose([(path.as_posix(), path) for path in by_path], label)
    return None if path is None else by_path[path]


def _name(repository: Repository, models: Sequence[Parts], files: Parts) -> str:
    """Return the short name if it leads to this model, else the long one."""
    first, label = files[0], label_of(files[0].name)
    main = first.revision == MAIN
    if label and main and _labelled(models, label) == files:
        return f"{repository.repo}:{label}"
    return f"hf://{repository.repo}{'' if main else f'@{first.revision}'}/{first.name}"


def _described(files: Parts) -> str:
    return f"{label_of(files[0].name) or files[0].name} ({size(_bytes(files))})"


def _bytes(files: Parts) -> int:
    return sum(file.size for file in files)
