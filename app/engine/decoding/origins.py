"""Where each emitted token came from: who guessed it, or why the target said it itself."""

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Saved rounds are listed and exported without any of the engine.
    from app.engine.decoding.round import Round


class Origin(StrEnum):
    """Where an emitted token came from."""

    PLAIN = "plain"
    """The target's own, in a round that guessed nothing."""
    MODEL = "draft model"
    """Guessed by the draft model, and accepted."""
    SUFFIX = "suffix index"
    """Copied from a repeat in the text, and accepted."""
    LOOKUP = "prompt lookup"
    """Copied from the conversation, and accepted."""
    MEMORY = "memory"
    """Copied from earlier runs, and accepted."""
    CHECKED = "copy, read by the draft model"
    """Copied, found plausible by the draft model that went on from there, and accepted."""
    SIBLING = "second guess"
    """The draft model's second choice, checked beside the first, and accepted."""
    FORCED = "no choice"
    """The only one that the form of the answer allows."""
    OTHER = "other drafter"
    """Guessed by a drafter without a name here, and accepted."""
    REPLACEMENT = "replacement"
    """The target's own, where it rejected a guess."""
    BONUS = "bonus"
    """The target's own, after every guess was accepted: it came with the same pass."""


_OF_SOURCE = {
    "suffix": Origin.SUFFIX,
    "lookup": Origin.LOOKUP,
    "memory": Origin.MEMORY,
    "grammar": Origin.FORCED,
}


def origin_of_source(source: str) -> Origin:
    """Return what a draft's source makes of its accepted tokens."""
    if source.startswith("model:"):
        free = next((name for name in _OF_SOURCE if source.endswith(f"+{name}")), None)
        return Origin.MODEL if free is None else Origin.CHECKED
    return _OF_SOURCE.get(source, Origin.OTHER)


def origins(round_: "Round") -> tuple[Origin, ...]:
    """Return the origin of each token that a round emitted."""
    if not round_.draft.tokens:
        return (Origin.PLAIN,) * len(round_.emitted)
    verdict = round_.verdict
    kept = [origin_of_source(round_.draft.source)] * verdict.accepted
    if verdict.sibling is not None:
        kept.append(Origin.SIBLING)
    last = Origin.BONUS if verdict.is_bonus else Origin.REPLACEMENT
    # An answer may end within the draft.
    return tuple([*kept, last][: len(round_.emitted)])
