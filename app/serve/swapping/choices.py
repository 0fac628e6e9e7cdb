"""Models that requests may name, each with the plan of its load."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app.engine.runtime.load import TOY, TOY_FIM, LoadPlan
from app.flags.forged import drafter_for
from drafters.registry import AUTO
from models.gguf.file import check_file, is_there
from models.library.catalog import find_model
from models.library.local import local_names

ALL = "all"
"""Stands for every model on this machine."""


@dataclass(frozen=True, slots=True)
class ModelChoices:
    """The models of a server by their ids; the first one is loaded at the start."""

    names: Mapping[str, str]
    """Name or path of each model, by its id."""
    is_open: bool = False
    """Whether requests may name a model; else every name means the one model."""

    @property
    def first(self) -> str:
        """Id of the model that is loaded at the start."""
        return next(iter(self.names))

    def find(self, name: str) -> str | None:
        """Return the id of a model that a request names; None for an unknown one."""
        if name in self.names:
            return name
        return next((id_ for id_, model in self.names.items() if model == name), None)

    def plan(self, id_: str, first: LoadPlan) -> LoadPlan:
        """Return the plan of a load like that of the first model.

        Another model has no use for the first one's draft model: what pays off is chosen for it.
        """
        if id_ == self.first:
            return first
        name, drafter = self.names[id_], first.drafter
        usual = drafter.model or drafter.kind == AUTO
        return replace(first, model=name, drafter=drafter_for(name) if usual else drafter)


def read_choices(model: str, alias: str, names: Sequence[str]) -> ModelChoices:
    """Return the choices of a server that starts with a model; raises ModelFileError for a name without a model.

    `names` are the further models, or `ALL`. An id is a name as given, of a path its file's without the ending.
    """
    found = {alias or _id(model): model}
    for name in names:
        for one in local_names() if name == ALL else (name,):
            if name != ALL and one not in (TOY, TOY_FIM) and not is_there(path := find_model(one)):
                check_file(path)
            if one not in found.values():
                found.setdefault(_id(one), one)
    return ModelChoices(found, is_open=bool(names))


def _id(name: str) -> str:
    return Path(name).stem if name.endswith(".gguf") else name
