"""Several answers at once: more caches over weights that are loaded already, for the target and its draft model."""

from collections.abc import Iterator
from dataclasses import replace

from app.engine.adaptive import Adaptive
from app.engine.calibrate import VerifyCurve
from app.engine.load import Guessing, Loader
from drafters.base import NullDrafter
from drafters.draft_model import DraftModel
from drafters.registry import DrafterSpec
from models.base import LanguageModel
from models.errors import MemoryLimitError
from models.llama import LlamaModel
from models.toy import ToyModel


def twins(
    loader: Loader, spec: DrafterSpec, target: LanguageModel, guessing: Guessing, count: int
) -> Iterator[tuple[LanguageModel, Guessing]]:
    """Yield `count` more caches over a target's weights, each with somebody who guesses as the first one's does.

    Ends early, with a note of the loader, where there is no memory for another.
    """
    for number in range(count):
        try:
            yield _another(loader, spec, target, guessing)
        except MemoryLimitError as error:
            loader.notes.append(f"Answers at once: {number + 1} of {count + 1}. {error.cause}".strip())
            return


def _another(
    loader: Loader, spec: DrafterSpec, target: LanguageModel, guessing: Guessing
) -> tuple[LanguageModel, Guessing]:
    twin = _twin(target)
    try:
        return twin, like(loader, spec, twin, guessing)
    except BaseException:
        twin.close()
        raise


def like(loader: Loader, spec: DrafterSpec, target: LanguageModel, guessing: Guessing) -> Guessing:
    """Return who guesses for a twin of a target as another does for the first; what passes cost is known already."""
    adaptive = guessing.adaptive
    if adaptive is None:
        return Guessing(NullDrafter())
    model = None if guessing.model is None else DraftModel(_twin(guessing.model.model), target.vocab)
    # The learnt part of a curve depends on how long a text is, and each has its own.
    cost = adaptive.model and replace(adaptive.model, curve=VerifyCurve(adaptive.model.curve.measured))
    own = Adaptive(VerifyCurve(adaptive.curve.measured), target.max_rows - 1, cost)
    return loader.together(spec, target, model, own, guessing.exact_draft or 0)


def _twin(model: LanguageModel) -> LanguageModel:
    assert isinstance(model, LlamaModel | ToyModel), "what a loader loads is one of the two"
    return model.twin()
