"""Choice of a file in a repository: the named one, or the best for this machine."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from app.catalog.words import free_in, size
from models.errors import MemoryLimitError, ModelFileError
from models.gguf.file import part_names
from models.gguf.header import Header
from models.gguf.heads import HeadFile, HeadKind, read_head, unsuitable
from models.gguf.model_info import ModelInfo, info_of
from models.library.head_files import named_as_head, need_of_head
from models.library.hub_files import HubFile, Repository
from models.library.hub_header import HubHeaders
from models.library.names import MAIN, HubName
from models.library.quantisation_names import ambiguous, has_label, is_head, label_of, labelled
from models.library.whole_model import is_whole_model
from models.llama.memory import MemoryPlan, Room, plan_memory

USUAL = "Q4_K_M"
_FOR_DRAFTS = ("Q4_0", "Q8_0", USUAL)
"""Quantisations that run fast as draft models, best first."""
_LIGHT_FIRST = (HeadKind.MTP, HeadKind.ASSISTANT, HeadKind.EAGLE3, HeadKind.DFLASH, HeadKind.MEDUSA)
_FULL_WIDTH = ("F32", "F16", "FP16", "BF16")
_NO_MODELS = ("mmproj", "imatrix")
Parts = tuple[HubFile, ...]
"""Files of one model, in order of their parts."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A model on the hub, with the data known before its download."""

    name: str
    """Name to use it by after the download."""
    files: Parts
    reason: str
    """Reason for the choice; "" for a named file."""
    header: Header | None
    """None if it could not be read."""
    info: ModelInfo | None
    plan: MemoryPlan | None
    """Memory plan at the default context."""
    head: str = ""
    """What kind of draft head it is, and for which models; "" for a model."""

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.size for file in self.files)

    @property
    def fetched(self) -> int:
        """Bytes of its files that are already on this machine."""
        return sum(file.fetched for file in self.files)


def choose_model(repository: Repository, wanted: HubName, headers: HubHeaders, room: Room) -> Choice:
    """Return the model for a name; raises ModelFileError for an unknown one.

    Without a file or quantisation, it is Q4_K_M if that fits in memory, else the largest that fits; raises
    MemoryLimitError if none fits.
    """
    models = _models(repository, headers, wanted)
    if wanted.file or wanted.label or len(models) == 1:
        files = _named(repository, models, wanted, headers)
        reason = "" if wanted.file or wanted.label else "the only model there"
        choice = _read(repository, models, files, reason, headers, on_gpu=room.on_gpu)
        if not wanted.file and choice.header and not is_whole_model(choice.header):
            raise _no_model(repository, files, [each for each in models if each != files])
        return choice
    return _for_memory(repository, models, headers, room)


def choose_draft(repository: Repository, headers: HubHeaders, *, on_gpu: bool) -> Choice:
    """Return the repository's model that drafts fastest."""
    models = _models(repository, headers)
    found = (_labelled(repository, models, label, headers) for label in _FOR_DRAFTS)
    files = next((files for files in found if files), min(models, key=_bytes))
    return _read(repository, models, files, "", headers, on_gpu=on_gpu)


def choose_head(repository: Repository, headers: HubHeaders, target: Choice) -> Choice | None:
    """Return the repository's draft head for one of its models, by the headers of both; None for none.

    Of several it is the one that is expected to cost least: a drafting layer, a small network, one that drafts blocks.
    """
    found = [] if target.header is None else [*_heads_for(target.header, repository, headers)]
    if not found:
        return None
    head, file, header = min(found, key=lambda each: (_LIGHT_FIRST.index(each[0].kind), each[1].size))
    at = "" if file.revision == MAIN else f"@{file.revision}"
    tokens = target.plan.context if target.plan else 0
    plan = need_of_head(header, 1).plan(tokens) if tokens else None
    name = f"hf://{repository.repo}{at}/{file.name}"
    return Choice(name, (file,), "a head of this model", header, None, plan, head.words)


def _heads_for(
    target: Header, repository: Repository, headers: HubHeaders
) -> Iterator[tuple[HeadFile, HubFile, Header]]:
    """Yield the heads that can draft for a model; a file that can't be read is none."""
    for file in repository.files:
        header = _header((file,), headers) if named_as_head(file.name) else None
        head = read_head(header) if header else None
        if header and head and not unsuitable(head, target):
            yield head, file, header


def _models(repository: Repository, headers: HubHeaders, wanted: HubName | None = None) -> list[Parts]:
    """Return the complete models of a repository; headers decide where file names are misleading."""
    files = {file.name: file for file in repository.files if not _is_other(file.name)}
    models: list[Parts] = []
    lacking: dict[str, list[str]] = {}
    for name, file in files.items():
        names = [part.as_posix() for part in part_names(Path(name))]
        missing = [part for part in names if part not in files]
        if not missing and name == names[0]:
            models.append(tuple(files[part] for part in names))
        elif missing and _is_alone(file, headers):
            models.append((file,))
        elif missing:
            lacking[name] = missing
    if cut := next((name for name in lacking if wanted and _is_meant(name, wanted, models)), None):
        raise _lacks(repository, cut, lacking[cut], models)
    if not models:
        raise ModelFileError(
            f"{repository.repo} has no GGUF models.",
            hint="Choose a repository of this model with GGUF in its name.",
        )
    return models


def _is_alone(file: HubFile, headers: HubHeaders) -> bool:
    """Tell by its header whether a file named like a part is a whole model."""
    try:
        return headers.read([file]) is not None
    except ModelFileError:
        return False


def _is_meant(name: str, wanted: HubName, models: Sequence[Parts]) -> bool:
    """Tell whether a name means exactly this incomplete model."""
    if wanted.file:
        return wanted.file in (name, part_names(Path(name))[0].as_posix())
    names = [(files[0].name, Path(files[0].name)) for files in models]
    if wanted.label:
        return has_label(name, wanted.label) and not labelled(names, wanted.label)
    return not models


def _lacks(repository: Repository, name: str, missing: Sequence[str], models: Sequence[Parts]) -> ModelFileError:
    others = f" Whole models there: {', '.join(map(_described, models))}." if models else ""
    return ModelFileError(
        f"{repository.repo} lacks {', '.join(missing[:3])}{' and others' if len(missing) > 3 else ''}.",
        cause=f"{name} is one of {len(part_names(Path(name)))} parts.{others}",
        hint="The upload may be unfinished. Try again later, or choose another model.",
    )


def _no_model(repository: Repository, files: Parts, others: Sequence[Parts]) -> ModelFileError:
    there = f" Others: {', '.join(map(_described, others))}." if others else ""
    return ModelFileError(
        f"{files[0].name} of {repository.repo} is not a whole model.",
        cause=f"Its header is that of a drafting head or an adapter.{there}",
        hint="Name another quantisation or file.",
    )


def _is_other(name: str) -> bool:
    return is_head(name) or any(word in Path(name).name.lower() for word in _NO_MODELS)


def _named(repository: Repository, models: list[Parts], wanted: HubName, headers: HubHeaders) -> Parts:
    if wanted.file:
        files = next((files for files in models if files[0].name == wanted.file), None)
    elif wanted.label:
        files = _labelled(repository, models, wanted.label, headers)
    else:
        files = models[0]
    if files is None:
        raise ModelFileError(
            f"{repository.repo} has no {wanted.file or wanted.label}.",
            cause=f"It has: {', '.join(_described(files) for files in models)}.",
            hint=f"Name one of them, such as {_name(repository, models, models[0])}.",
        )
    return files


def _for_memory(repository: Repository, models: list[Parts], headers: HubHeaders, room: Room) -> Choice:
    common = [files for files in models if label_of(files[0].name) not in _FULL_WIDTH] or models
    usual = _labelled(repository, common, USUAL, headers)
    base = _read(repository, models, usual or min(common, key=_bytes), "", headers, on_gpu=room.on_gpu)
    others = [files for files in models if files != base.files]
    if base.header and not is_whole_model(base.header) and others:
        return _for_memory(repository, others, headers, room)
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
        hint=f"Choose a smaller model. To fetch one anyway, name it: {_name(repository, models, smallest)}.",
    )


def _read(
    repository: Repository, models: Sequence[Parts], files: Parts, reason: str, headers: HubHeaders, *, on_gpu: bool
) -> Choice:
    header = headers.read(files)
    info = info_of(header) if header else None
    plan = plan_memory(info.shape, on_gpu=on_gpu) if info else None
    return Choice(_name(repository, models, files), files, reason, header, info, plan)


def _scaled(plan: MemoryPlan, share: float) -> MemoryPlan:
    """Return the memory plan of another quantisation, scaled by file size."""
    return replace(plan, weights=int(plan.weights * share))


def _labelled(repository: Repository, models: Sequence[Parts], label: str, headers: HubHeaders) -> Parts | None:
    """Return the model with a quantisation; headers decide between several. Raises ModelFileError if two remain."""
    found = _with_label(models, label)
    if len(found) > 1:
        read = [(files, _header(files, headers)) for files in found]
        found = [files for files, header in read if header is None or is_whole_model(header)]
    if len(found) > 1:
        raise ambiguous(repository.repo, label, [files[0].name for files in found])
    return found[0] if found else None


def _header(files: Parts, headers: HubHeaders) -> Header | None:
    with suppress(ModelFileError):
        return headers.read(files)
    return None


def _with_label(models: Sequence[Parts], label: str) -> list[Parts]:
    by_path = {Path(files[0].name): files for files in models}
    return [by_path[path] for _, path in labelled([(path.as_posix(), path) for path in by_path], label)]


def _name(repository: Repository, models: Sequence[Parts], files: Parts) -> str:
    """Return the short name if it is unambiguous, else the long one."""
    first, label = files[0], label_of(files[0].name)
    main = first.revision == MAIN
    if label and main and _with_label(models, label) == [files]:
        return f"{repository.repo}:{label}"
    return f"hf://{repository.repo}{'' if main else f'@{first.revision}'}/{first.name}"


def _described(files: Parts) -> str:
    return f"{label_of(files[0].name) or files[0].name} ({size(_bytes(files))})"


def _bytes(files: Parts) -> int:
    return sum(file.size for file in files)
