"""The accept rule: which draft tokens are what the target itself would have said.

    accepted     draft token equal to the token that the target emits at its place
    replacement  the target's own token at the first place where they differ
    bonus        the target's token after a draft that was accepted whole: its row came with the pass
    emitted      accepted + 1, always

Coupled rule: the target's token is `Sampler.pick` of its row, which depends on the row, the seed and the position
alone. The draft decides how many rows are used, never what they say; so the text is that of plain decoding, whatever
drafts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from drafters.base import Draft
from models.base import Logits
from models.sampling import Sampler


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the target made of a draft."""

    accepted: int
    """Number of draft tokens kept, from the first."""
    next_token: int
    """The target's token after them: replacement, bonus, or the plain token of an empty draft."""
    is_bonus: bool
    """Whether the whole of a draft was accepted."""


def verify(rows: Logits, draft: Draft, sampler: Sampler, tokens: Sequence[int]) -> Verdict:
    """Judge a draft of k tokens by k + 1 rows; row i, shape (vocabulary,), follows `tokens` + the draft's first i.

    Penalties see exactly that history: row by row, and nothing of what is rejected.
    """
    for i, guess in enumerate(draft.tokens):
        token = sampler.pick(rows[i], tokens, draft.tokens[:i])
        if token != guess:
            return Verdict(i, token, is_bonus=False)
    k = len(draft.tokens)
    return Verdict(k, sampler.pick(rows[k], tokens, draft.tokens), is_bonus=k > 0)
