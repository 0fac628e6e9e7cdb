"""Tokens of a draft model with a smaller vocabulary, as tokens of the target that it was made for.

Each token of the target is one token of the draft model, so a text has as many tokens for both: its own where the draft
model has it, else the nearest that it has. The draft model proposes the tokens that it has, and no others.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from models.pair import Spellings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class TokenMap:
    """The tokens of both."""

    kept: "NDArray[np.int32]"
    """The target's token for each of the draft model, ascending; shape (vocabulary of the draft model,)."""
    nearest: "NDArray[np.int32]"
    """The draft model's token for each of the target; shape (vocabulary of the target,)."""

    def reasons(self, target: Spellings, draft: Spellings) -> list[str]:
        """Return the reasons why a draft model with these tokens can't draft for a target; [] for a good pair."""
        if target.size != len(self.nearest) or target.kind != draft.kind:
            return [
                f"its tokens are {len(self.kept):,} of {len(self.nearest):,} of another target: this one has "
                f"{target.size:,} ({target.kind})"
            ]
        for token, own in enumerate(self.kept.tolist()):
            if target.text(own) != draft.text(token):
                return [f"token {own} is {target.text(own)!r} for the target, {draft.text(token)!r} for the draft"]
        return []
