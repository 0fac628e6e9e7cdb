"""What localspec fetched: one small file a model, so that it removes nothing that is another's."""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from app.shell.paths import state_folder
from models.library.hub_files import HubFile, is_checksum, is_commit, is_safe
from models.library.stores import hub_folder
from models.system.bounded_read import read_json
from models.system.whole_file import write_whole

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Pulled:
    """A model that was fetched, or begun."""

    name: str
    """By which it can be used."""
    files: tuple[HubFile, ...]
    cache: str
    """The folder of the hub's cache that it is in."""
    others: tuple[str, ...] = ()
    """Names of those files that were there before, by whatever other program."""

    @property
    def own(self) -> tuple[HubFile, ...]:
        """The files that were fetched for it, whole or in part."""
        return tuple(file for file in self.files if file.name not in self.others)

    @property
    def record(self) -> Path:
        """The file that tells of it."""
        first = self.files[0]
        return _folder() / f"{first.repo.replace('/', '--')}--{first.commit[:12]}--{first.sha256[:12]}.json"


def pulled_models() -> list[Pulled]:
    """Return what was fetched into the cache that is used now; a file that was damaged tells of nothing."""
    found = (_read(path) for path in sorted(_folder().glob("*.json")))
    return [pulled for pulled in found if pulled is not None and pulled.cache == str(hub_folder())]


def remember(name: str, files: tuple[HubFile, ...]) -> Pulled:
    """Note that a model is being fetched; raises OSError."""
    pulled = Pulled(name, files, str(hub_folder()))
    before = _read(pulled.record)
    # What is here of an earlier attempt is its own all the same.
    mine = {file.name for file in before.own} if before and before.cache == pulled.cache else set[str]()
    pulled = replace(pulled, others=tuple(file.name for file in files if file.is_here and file.name not in mine))
    pulled.record.parent.mkdir(parents=True, exist_ok=True)
    write_whole(pulled.record, json.dumps({"format": _FORMAT, **asdict(pulled)}, indent=1))
    return pulled


def forget(pulled: Pulled) -> None:
    """Note that a model is gone; raises OSError."""
    pulled.record.unlink(missing_ok=True)


def _folder() -> Path:
    return state_folder() / "pulled"


def _read(path: Path) -> Pulled | None:
    with suppress(OSError, ValueError, TypeError, KeyError):
        said: dict[str, Any] = read_json(path)
        files = tuple(HubFile(**file) for file in said["files"])
        if said["format"] == _FORMAT and files and all(map(_is_sound, files)):
            return Pulled(str(said["name"]), files, str(said["cache"]), tuple(said.get("others", ())))
    return None


def _is_sound(file: HubFile) -> bool:
    """Tell whether what is removed for it could be nothing but a file of the cache."""
    names = (file.name, file.repo, file.revision)
    return is_commit(file.commit) and is_checksum(file.sha256) and all(is_safe(str(name)) for name in names)
