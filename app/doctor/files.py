"""Findings about stores of models and localspec's own files: place, size and free space."""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from app.doctor.findings import Finding, Mark, size
from app.doctor.own_files import own_files
from app.doctor.sizes import Measured, is_there, measure
from app.shell.paths import cache_folder, conversations_file, state_folder
from models.library.stores import hub_folder, llama_cpp_folder, lm_studio_folders, ollama_folders, own_folders
from models.system.counted import counted

_files = partial(Finding, "files")
_LITTLE = 2 << 30
_OWN = "LOCALSPEC_MODELS"


@dataclass(frozen=True, slots=True)
class _Store:
    """A folder or file that uses disk space."""

    name: str
    places: Sequence[Path]
    variables: Sequence[str] = ()
    """Environment variables that may name these places."""
    shown: Sequence[Path] = ()
    """Folders named in place of many files."""


def file_findings() -> Iterator[Finding]:
    """Yield one finding per store of models, and per kind of file that localspec keeps."""
    yield from (
        _amount(store)
        for store in (*_stores(), *(_Store(own.name, own.places, shown=own.shown) for own in own_files()))
    )
    yield from _missing()
    yield from _unwritable()
    yield _disk()


def _stores() -> list[_Store]:
    # Missing folders have a finding of their own.
    own = [folder for folder in own_folders() if is_there(folder)]
    return [
        _Store("Hugging Face", [hub_folder()], ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME")),
        _Store("llama.cpp", [llama_cpp_folder()], ("LLAMA_CACHE", "XDG_CACHE_HOME")),
        _Store("Ollama", ollama_folders(), ("OLLAMA_MODELS",)),
        _Store("LM Studio", lm_studio_folders()),
        *([_Store("own folders", own, (_OWN,))] if own else []),
    ]


def _ours() -> list[_Store]:
    return [_Store(own.name, own.places, shown=own.shown) for own in own_files()]


def _amount(store: _Store) -> Finding:
    there = [place for place in store.places if is_there(place)]
    shown = [folder for folder in store.shown if is_there(folder)] or store.shown or there or store.places
    where = ", ".join(map(str, shown if there else shown[:1]))
    if not there:
        return _files(
            store.name,
            f"none; the place for it is {where}",
            public="none",
            values={**asdict(Measured(0, 0, complete=True)), "named_by": ""},
        )
    measured = measure(there)
    named = next((variable for variable in store.variables if os.environ.get(variable)), "")
    least = "" if measured.complete else "at least "
    count = counted(measured.files, "file")
    fact = f"{least}{size(measured.size)} in {count}"
    by = f", named by {named}" if named else ""
    return _files(store.name, f"{fact}: {where}", public=fact + by, values={**asdict(measured), "named_by": named})


def _missing() -> Iterator[Finding]:
    if gone := [str(folder) for folder in own_folders() if not folder.is_dir()]:
        fact, remedy = f"{_OWN} names missing folders: {', '.join(gone)}", f"Create it, or change {_OWN}."
        yield _files("own folders", fact, Mark.NOTE, remedy, public=f"{_OWN} names {len(gone)} missing folders")


def _unwritable() -> Iterator[Finding]:
    """Yield a note for a folder where results can't be written."""
    folders = (cache_folder(), state_folder(), conversations_file().parent)
    for folder in dict.fromkeys(folders):
        place = _existing(folder)
        if not os.access(place, os.W_OK):
            fact = f"{folder} is not writable: nothing is saved there, and measurements repeat at each start"
            remedy = f"Change the owner or the permissions of {place}."
            yield _files("own files", fact, Mark.NOTE, remedy, public="a folder of localspec's is not writable")


def _disk() -> Finding:
    folder = hub_folder()
    free = shutil.disk_usage(_existing(folder)).free
    fact, values = f"{size(free)} free where models are stored", {"free": free}
    if free < _LITTLE:
        remedy = "Remove unused models (localspec models rm), or set HF_HUB_CACHE to a folder on another disk."
        return _files("disk", fact, Mark.NOTE, remedy, values)
    return _files("disk", fact, values=values)


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.absolute().parents) if is_there(path))
