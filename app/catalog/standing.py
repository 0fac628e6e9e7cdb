"""The draft model that needs no flag, as foreseen for a target: whether it would be loaded, and what it would gain."""

from dataclasses import dataclass
from typing import Any

from app.catalog.words import size
from app.engine.costs.known_costs import known_target
from app.engine.costs.speedup_for_files import Foreseen, foresee_file
from app.engine.costs.standing_model import TEXT_CONTEXT
from app.shell.paths import machine_memory
from models.errors import LocalspecError
from models.gguf.header import read_model
from models.gguf.pair import ReadModel, check_read, read
from models.library.catalog import STARTER, find_model, is_same_model
from models.llama.cache_types import CacheTypes
from models.llama.memory import Need


@dataclass(frozen=True, slots=True)
class Standing:
    """The starter as a draft model for one target."""

    foreseen: Foreseen
    need: int
    """Bytes of memory."""

    @property
    def line(self) -> str:
        """Return what it would do, in a sentence."""
        prediction = self.foreseen.prediction
        if not prediction.pays:
            return "Without a flag the suffix index alone drafts: the target is too quick for the starter to pay off."
        cases = ", ".join(f"{case.text} {case.most.speed_up:.1f}" for case in prediction.cases)
        return (
            f"Without a flag the starter drafts text too, if {size(self.need)} more memory is free. "
            f"Predicted speed-up: {cases}."
        )

    @property
    def record(self) -> dict[str, Any]:
        """Return it as JSON."""
        prediction = self.foreseen.prediction
        cases = [{"text": case.text, "speed_up": case.most.speed_up} for case in prediction.cases]
        return {"model": STARTER, "pays": prediction.pays, "need": self.need, "predicted": cases}


def standing_of(target: ReadModel, cache_types: CacheTypes) -> Standing | None:
    """Return the starter as foreseen for a target; None where it is not installed, is the target, or can't draft."""
    try:
        path = find_model(STARTER)
        if is_same_model(STARTER, str(target.info.path)):
            return None
        draft = read(read_model(path))
        found = check_read(target, draft)
    except LocalspecError:
        return None
    if found.reasons or not target.template:
        return None
    memory = machine_memory()
    known = known_target(memory, target.info.path)
    bytes_a_token = target.bytes_a_token, draft.bytes_a_token
    foreseen = foresee_file(memory, known, bytes_a_token[0], path, bytes_a_token[1], as_text=bool(found.differences))
    return Standing(foreseen, Need(draft.info.shape, draft.info.layers, cache_types).plan(TEXT_CONTEXT).total)
