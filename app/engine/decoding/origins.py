"""Origin of each emitted token: the drafter that proposed it, or the reason for a token of the target."""

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Listing and exporting saved rounds must not import the engine.
    from app.engine.decoding.round import Round


class Origin(StrEnum):
    """Origin of an emitted token."""

    PLAIN = "plain"
    """Token of the target in a round without a draft."""
    MODEL = "draft model"
    """Accepted token of the draft model."""
    TEXT = "text of a draft model"
    """Accepted token of a draft model with other tokens, which drafts text."""
    HEAD = "draft head"
    """Accepted token of a draft head, which drafts from the target's hidden rows."""
    SUFFIX = "suffix index"
    """Accepted token copied from a repetition in the text."""
    LOOKUP = "prompt lookup"
    """Accepted token copied from the conversation."""
    MEMORY = "memory"
    """Accepted token copied from earlier runs."""
    CHECKED = "copy, read by the draft model"
    """Accepted token of a copy that the draft model read and continued."""
    SIBLING = "second guess"
    """Accepted sibling, or a token that follows one: another proposal than the chain's, verified beside it."""
    FORCED = "no choice"
    """Only token that the form of the answer allows."""
    OTHER = "other drafter"
    """Accepted token of any other drafter."""
    REPLACEMENT = "replacement"
    """Token of the target in place of a rejected draft token."""
    BONUS = "bonus"
    """Token of the target after a fully accepted draft, from that draft's pass."""


_OF_SOURCE = {
    "suffix": Origin.SUFFIX,
    "lookup": Origin.LOOKUP,
    "memory": Origin.MEMORY,
    "grammar": Origin.FORCED,
}
_HEADS = ("mtp", "eagle3", "gemma4-assistant", "medusa")
_OF_MODELS = {"model:": Origin.MODEL, "text:": Origin.TEXT, **dict.fromkeys(_HEADS, Origin.HEAD)}
"""Origins by the beginning of a source that is a draft model or head."""


def origin_of_source(source: str) -> Origin:
    """Return the origin of accepted tokens of a draft with this source."""
    model = next((origin for prefix, origin in _OF_MODELS.items() if source.startswith(prefix)), None)
    if model is not None:
        return Origin.CHECKED if any(source.endswith(f"+{name}") for name in _OF_SOURCE) else model
    return _OF_SOURCE.get(source, Origin.OTHER)


def origins(round_: "Round") -> tuple[Origin, ...]:
    """Return the origin of each token that a round emitted."""
    if not round_.draft.tokens:
        return (Origin.PLAIN,) * len(round_.emitted)
    verdict = round_.verdict
    kept = [origin_of_source(round_.draft.source)] * verdict.accepted
    kept += [Origin.SIBLING] * len(verdict.branch)
    last = Origin.BONUS if verdict.is_bonus else Origin.REPLACEMENT
    # An answer may end inside the draft.
    return tuple([*kept, last][: len(round_.emitted)])
