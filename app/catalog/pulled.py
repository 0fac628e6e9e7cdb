"""Records of fetched models, one small file each, so that only localspec's own downloads are removed."""

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
    """A fetched model, complete or begun."""

    name: str
    """Name to use it by."""
    files: tuple[HubFile, ...]
    cache: str
    """Its folder in the hub's cache."""
    others: tuple[str, ...] = ()
    """Names of those files that other programs had fetched before."""

    @property
    def own(self) -> tuple[HubFile, ...]:
        """Files that localspec fetched for it, complete or in part."""
        return tuple(file for file in self.files if file.name not in self.others)

    @property
    def record(self) -> Path:
        """Path of its record."""
        first = self.files[0]
        return _folder() / f"{first.repo.replace('/', '--')}--{first.commit[:12]}--{first.sha256[:12]}.json"


def pulled_models() -> list[Pulled]:
    """Return the models fetched into the cache now in use; damaged records are skipped."""
    found = (_read(path) for path in sorted(_folder().glob("*.json")))
    return [pulled for pulled in found if pulled is not None and pulled.cache == str(hub_folder())]


def remember(name: str, files: tuple[HubFile, ...]) -> Pulled:
    """Record the start of a download; raises OSError."""
    pulled = Pulled(name, files, str(hub_folder()))
    before = _read(pulled.record)
    # Files of an earlier attempt of localspec's count as its own.
    mine = {file.name for file in before.own} if before and before.cache == pulled.cache else set[str]()
    pulled = replace(pulled, others=tuple(file.name for file in files if file.is_here and file.name not in mine))
    pulled.record.parent.mkdir(parents=True, exist_ok=True)
    write_whole(pulled.record, json.dumps({"format": _FORMAT, **asdict(pulled)}, indent=1))
    return pulled


def forget(pulled: Pulled) -> None:
    """Remove the record of a model; raises OSError."""
    pulled.record.unlink(missing_ok=True)


def _folder() -> Path:
    return state_folder() / "pulled"


def _read(path: Path) -> Pulled | None:
    with suppress(OSError, ValueError, TypeError, KeyError):
        content: dict[str, Any] = read_json(path)
        files = tuple(HubFile(**file) for file in content["files"])
        if content["format"] == _FORMAT and files and all(map(_is_sound, files)):
            return Pulled(str(content["name"]), files, str(content["cache"]), tuple(content.get("others", ())))
    return None


def _is_sound(file: HubFile) -> bool:
    """Tell whether a record refers only to files of the cache, so that removing them is safe."""
    names = (file.name, file.repo, file.revision)
    return is_commit(file.commit) and is_checksum(file.sha256) and all(is_safe(str(name)) for name in names)
