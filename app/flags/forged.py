"""Draft models that `forge` made: used for their target with no flag."""

from app.shell.paths import forged_folder
from drafters.registry import AUTO, DrafterSpec, parse_drafter
from models.errors import LocalspecError
from models.library.catalog import find_model
from models.library.forged import forged, forged_model


def drafter_for(target: str, text: str = AUTO) -> DrafterSpec:
    """Read a drafter for a target as `parse_drafter`; auto is with the draft model that was forged for it, if any.

    A forged head is found when the target is loaded. A target that is not there is no error here.
    """
    spec, folder = parse_drafter(text), forged_folder()
    # Most machines have none, and then no target is looked for.
    if spec.kind != AUTO or spec.model or not forged(folder):
        return spec
    try:
        made = forged_model(folder, find_model(target))
    except LocalspecError:
        return spec
    return DrafterSpec(AUTO, "" if made is None else str(made))
