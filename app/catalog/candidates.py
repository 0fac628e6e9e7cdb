"""Candidates for a target's draft model: models of this machine, and fetchable ones of its family, best first."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.engine.costs.known_costs import KnownCosts, known_target
from app.engine.costs.speedup_for_files import Foreseen, foresee, foresee_file
from models.errors import ModelFileError
from models.gguf.header import read_model
from models.gguf.model_info import ModelInfo
from models.gguf.pair import ReadModel, check_read, read
from models.gguf.strings import KnownStrings
from models.library.families import Sibling, is_sibling, sibling_of
from models.library.local import LocalModel
from models.llama.memory import Room, default_context, plan_memory

_PADDING = 4096
"""Maximum difference between vocabularies of one family: ids that only round the size up."""
_BYTES_A_WEIGHT = 0.7
"""Bytes per weight of a small model in four or five bits with a finer output table, as in Qwen2.5 0.5B Q4_K_M."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that could draft for a target."""

    name: str
    """Name to use it by; for a model elsewhere the repository to fetch."""
    model: LocalModel | None
    """None: not on this machine."""
    parameters: int
    foreseen: Foreseen
    need: int | None
    """Bytes of both models at the target's default context; None for a model elsewhere."""
    fits: bool | None

    @property
    def usable(self) -> bool:
        """Whether drafting pays off with it and, as far as known, both fit in memory."""
        return self.foreseen.prediction.pays and self.fits is not False


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Candidates for one target."""

    target: LocalModel
    candidates: tuple[Candidate, ...]
    """Best predicted speed-up first."""
    known: KnownCosts | None
    """Costs of the target measured on this machine."""

    @property
    def best(self) -> Candidate | None:
        """The recommended one: a usable local one, else a fetchable one; None: no draft model is needed."""
        usable = [candidate for candidate in self.candidates if candidate.usable]
        return next((candidate for candidate in usable if candidate.model), usable[0] if usable else None)


class Candidates:
    """Finds candidates among the models of this machine; reads each header at most once."""

    def __init__(self, here: Sequence[LocalModel], memory: Path, room: Room) -> None:
        """Take the models, the file of measured costs, and the devices that models go to."""
        self._here = [model for model in here if model.info is not None]
        self._memory = memory
        self._room = room
        self._read: dict[Path, ReadModel | None] = {}
        self._strings = KnownStrings()

    def targets(self) -> list[LocalModel]:
        """Return the models for which another local one can draft."""
        return [model for model in self._here if any(self._pairs(model))]

    def suggest(self, target: LocalModel) -> Suggestion:
        """Return the candidates for a target, including fetchable ones; raises ModelFileError for a damaged one."""
        known = known_target(self._memory, target.path)
        found = [self._local(target, known, draft) for draft in self._pairs(target)]
        found += self._to_fetch(target, known, found)
        found.sort(key=lambda each: (-each.foreseen.prediction.most, -each.foreseen.prediction.least, not each.model))
        return Suggestion(target, tuple(found), known)

    def _pairs(self, target: LocalModel) -> Iterator[LocalModel]:
        assert target.info is not None, "what can't be used is no target"
        for draft in self._here:
            assert draft.info is not None, "only models that can be used are kept"
            if draft.path != target.path and _may_draft(target.info, draft.info) and self._agree(target, draft):
                yield draft

    def _agree(self, target: LocalModel, draft: LocalModel) -> bool:
        """Tell whether two models are a pair; a damaged file is not."""
        one, other = self._header(target), self._header(draft)
        if one is None or other is None:
            return False
        # Vocabularies are read only here: a damaged file may end in the middle of one.
        try:
            found = check_read(one, other)
            return not (found.reasons or found.differences)
        except ModelFileError:
            return False

    def _header(self, model: LocalModel) -> ReadModel | None:
        """Return the header for pair checks; None for a file that was damaged since it was listed."""
        if model.path not in self._read:
            try:
                self._read[model.path] = read(read_model(model.path, self._strings), model.info)
            except ModelFileError:
                self._read[model.path] = None
        return self._read[model.path]

    def _local(self, target: LocalModel, known: KnownCosts | None, draft: LocalModel) -> Candidate:
        assert target.info is not None, "what can't be used is no target"
        assert draft.info is not None, "only models that can be used are kept"
        read_by_target, read_by_draft = self._bytes(target), self._bytes(draft)
        foreseen = foresee_file(self._memory, known, read_by_target, draft.path, read_by_draft)
        context = default_context(target.info.shape)
        shapes, on_gpu = (target.info.shape, draft.info.shape), self._room.on_gpu
        need = sum(plan_memory(shape, context, on_gpu=on_gpu).total for shape in shapes)
        return Candidate(draft.name, draft, draft.info.parameters, foreseen, need, need <= self._room.free)

    def _to_fetch(self, target: LocalModel, known: KnownCosts | None, found: Sequence[Candidate]) -> list[Candidate]:
        sibling = _sibling(target)
        if sibling is None or any(is_sibling(_names(each.model), sibling) for each in found if each.model):
            return []
        foreseen = foresee(known, self._bytes(target), sibling.parameters * _BYTES_A_WEIGHT)
        return [Candidate(sibling.repo, None, sibling.parameters, foreseen, None, None)]

    def _bytes(self, model: LocalModel) -> float:
        header = self._header(model)
        if header is None:
            raise ModelFileError(f"{model.path.name} can no longer be read.", hint="Try again.")
        return header.bytes_a_token


def _may_draft(target: ModelInfo, draft: ModelInfo) -> bool:
    """Tell whether two vocabularies are worth comparing, from data that is already read."""
    return (
        target.tokenizer == draft.tokenizer
        and abs(target.vocabulary - draft.vocabulary) <= _PADDING
        and draft.parameters < target.parameters
        and draft.memory == "rewind"
        and target.memory != "none"
    )


def _sibling(target: LocalModel) -> Sibling | None:
    """Return the fetchable draft model for a target, if it is smaller."""
    assert target.info is not None, "what can't be used is no target"
    sibling = sibling_of(_names(target))
    smaller = sibling is not None and sibling.parameters < target.info.parameters
    return sibling if smaller and sibling and not is_sibling(_names(target), sibling) else None


def _names(model: LocalModel) -> str:
    """Return all names of a model."""
    title = model.info.title if model.info else ""
    return f"{model.name} {model.path.name} {title}"
