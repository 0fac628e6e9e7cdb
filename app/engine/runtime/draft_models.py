"""The draft models of a target that names one, or a head: that one, and the standing one where "auto" may choose."""

from collections.abc import Mapping

from app.engine.runtime.load import ModelOpener, Notes, may_choose
from drafters.base import ModelDrafter
from drafters.registry import DrafterSpec
from models.base import LanguageModel


def named_models(
    opener: ModelOpener, spec: DrafterSpec, standing: str, target: LanguageModel, seconds: Mapping[int, float]
) -> tuple[list[ModelDrafter], Notes]:
    """Load the draft model or head that a spec names and, if that pays, the model `standing` beside it, after it.

    `seconds` is the target's T(w) by width. Raises as `ModelOpener.draft_model`, for the named one alone.
    """
    named, notes = opener.draft_model(spec.model, target)
    if not may_choose(spec, standing):
        return [named], notes
    try:
        found = opener.standing_model(target, seconds)
    except BaseException:
        named.close()
        raise
    if found and found.name == named.name:
        # A copy of the standing model's file.
        found.close()
        return [named], notes
    return [named, found] if found else [named], notes
