"""List of all models on this machine, from every program's store: each file once, with its header."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from models.errors import DraftHeadError, ModelFileError
from models.gguf.known_headers import KnownHeaders
from models.gguf.model_info import ModelInfo
from models.library.catalog import STARTER, find_model
from models.library.stores import (
    Found,
    hub_models,
    llama_cpp_models,
    lm_studio_models,
    models_in,
    ollama_models,
    own_folders,
)
from models.llama.devices import Device, gpus
from models.llama.memory import Need, plan_memory, room_for
from models.system.machine import available_memory


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model file that was found."""

    name: str
    """By which it can be used; several may lead to it, and this is the first that was found."""
    path: Path
    info: ModelInfo | None
    """None for a file that can't be used."""
    reason: str = ""
    """Reason against its use; "" for none."""
    head: str = ""
    """Description of a draft head, which is no model by itself; "" for none."""
    fits: bool | None = None
    """True if it fits in memory now, at its default context; None: unknown."""
    need: int | None = None
    """Bytes it takes at its default context; None where that is not known."""


def local_models(folders: Iterable[Path] = (), *, known: Path | None = None) -> list[LocalModel]:
    """Return the models of all stores, of the user's own folders and of these; reads headers alone, changes nothing.

    What was read is remembered in the file `known`, and read again when a model's file changes; None: nowhere.
    """
    headers, main, devices = KnownHeaders(known), available_memory(), gpus()
    found = [
        _local(name, path, headers, main, devices) for name, path in _each_once(_all_found([*own_folders(), *folders]))
    ]
    headers.save()
    return found


def local_names() -> list[str]:
    """Return the names of the models of all stores and of the user's own folders; nothing is read."""
    return [name for name, _ in _each_once(_all_found(own_folders()))]


def _all_found(folders: Sequence[Path]) -> Iterator[Found]:
    # Where it is not installed it is no model of this machine.
    with suppress(ModelFileError):
        yield STARTER, find_model(STARTER)
    for folder in folders:
        yield from models_in(folder)
    for store in (hub_models, llama_cpp_models, lm_studio_models, ollama_models):
        yield from store()


def _each_once(found: Iterable[Found]) -> Iterator[Found]:
    seen: set[object] = set()
    names: set[str] = set()
    for name, path in found:
        # Hard links have no path in common; two hubs' files may be one.
        try:
            state = path.stat()
            key: object = (state.st_dev, state.st_ino)
        except OSError:
            key = path
        # By a name that two stores have, only the first can be reached.
        if key not in seen and name not in names:
            seen.add(key)
            names.add(name)
            yield name, path


def _leads_nowhere(path: Path) -> bool:
    """Return whether a file is a link to one that is gone; what can't be looked at is told when it is read."""
    try:
        path.stat()
    except OSError as error:
        return isinstance(error, FileNotFoundError) and path.is_symlink()
    return False


def _local(name: str, path: Path, headers: KnownHeaders, main: int, devices: Sequence[Device]) -> LocalModel:
    try:
        if _leads_nowhere(path):
            raise ModelFileError(f"{path.name} is a link to a file that is gone.")
        info = headers.info(path)
    except DraftHeadError as error:
        return LocalModel(
            name, path, None, f"{error.title} {error.cause}", head=error.cause.removeprefix("It is ").rstrip(".")
        )
    except ModelFileError as error:
        return LocalModel(name, path, None, " ".join(part for part in (error.title, error.cause) if part))
    room = room_for([Need(info.shape, info.layers)], main, devices)
    need = plan_memory(info.shape, on_gpu=room.on_gpu).total
    return LocalModel(name, path, info, fits=need <= room.free, need=need)
