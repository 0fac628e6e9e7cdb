"""Facts about the models on this machine for a first choice: abilities, memory, and what drafts for each."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from app.catalog.candidates import Candidate, Candidates
from app.catalog.foreseen import range_words, standing_of
from app.catalog.words import size
from app.shell.paths import headers_file, machine_memory
from models.errors import LocalspecError
from models.gguf.header import read_model
from models.gguf.pair import ReadModel, read
from models.gguf.parameter_count import parameter_count
from models.library.catalog import STARTER
from models.library.local import LocalModel, local_models
from models.llama.devices import gpus
from models.llama.memory import Room, room_for
from models.system.machine import available_memory
from models.text.prompts import ChatTemplate
from models.text.thoughts import Effort

_SEPARATOR = " · "


@dataclass(frozen=True, slots=True)
class Facts:
    """A model of this machine as it is offered."""

    model: LocalModel
    abilities: str
    """Size, abilities, and whether it fits in memory, in one line."""
    drafting: str
    """The drafter, and the predicted speed-up where one is known, in one line."""
    draft: str | None
    """Name of the local draft model to use; None: none is needed or known."""

    @property
    def arguments(self) -> list[str]:
        """Arguments of localspec that open a chat with it."""
        return ["run", self.model.name, *(["--draft", self.draft] if self.draft else [])]


class Overview:
    """Reads the models of this machine: first what their headers say, then what can draft for each."""

    def __init__(self) -> None:
        """Read the headers."""
        self.room = room_for([], available_memory(), gpus())
        self.models = local_models(known=headers_file())
        self._finder = Candidates(self.models, machine_memory(), self.room)

    def first(self) -> list[Facts]:
        """Return the usable models without their drafters, the starter last."""
        usable = [model for model in self.models if model.info is not None]
        return [_facts(model, self.room) for model in sorted(usable, key=lambda one: one.name == STARTER)]

    def complete(self, facts: Sequence[Facts]) -> Iterator[Facts]:
        """Yield the facts again with what drafts for each model, and whether it thinks; reads vocabularies."""
        for one in facts:
            # A file that was removed or damaged since is offered as it was: opening it says why it fails.
            with suppress(LocalspecError, OSError):
                yield self._completed(one)

    def _completed(self, facts: Facts) -> Facts:
        header = read(read_model(facts.model.path), facts.model.info)
        best = self._finder.suggest(facts.model).best
        drafting = _drafting(header, best)
        draft = best.name if best is not None and best.model is not None else None
        return Facts(facts.model, _abilities(facts.model, self.room, thinks=_thinks(header.template)), drafting, draft)


def _facts(model: LocalModel, room: Room) -> Facts:
    return Facts(model, _abilities(model, room, thinks=False), "", None)


def _abilities(model: LocalModel, room: Room, *, thinks: bool) -> str:
    info = model.info
    assert info is not None, "only usable models are offered"
    fits = "fits in memory" if model.fits else f"needs {size(model.need or 0)} of memory, {size(room.free)} are free"
    parts = (
        parameter_count(info.parameters),
        info.quantisation,
        size(info.size),
        "infill" if info.fim else "",
        "thinks" if thinks else "",
        fits,
    )
    return _SEPARATOR.join(filter(None, parts))


def _thinks(template: str) -> bool:
    with suppress(LocalspecError):
        return bool(template) and Effort.ON in ChatTemplate(template).efforts
    return False


def _drafting(header: ReadModel, best: Candidate | None) -> str:
    """Return what drafts for a model, in a line."""
    if header.info.memory == "none":
        return "no drafter: its memory can't take tokens back"
    if best is not None and best.model is not None:
        assert best.model.info is not None, "a candidate can be used"
        short = f"{parameter_count(best.parameters)} {best.model.info.quantisation}"
        return f"drafter {short}: {range_words(best.foreseen).replace('-', ' to ')} times as fast (predicted)"
    if best is not None:
        return f"copies drafts from the text; a draft model can be fetched: {best.name}"
    standing = standing_of(header, ("auto", "auto"))
    if standing is None or not standing.foreseen.prediction.pays:
        return "copies drafts from the text"
    most = f"{standing.foreseen.prediction.most:.1f}"
    return f"copies drafts from the text, and the starter drafts: up to {most} times as fast (predicted)"
