"""Verification: applies the accept rule to a draft, and chooses the token after the accepted ones.

    accepted     draft token that becomes text
    rejected     the first draft token that is not accepted, and all after it
    replacement  the token emitted in place of the first rejected one
    residual     the distribution a replacement is drawn from, by the rules that draw
    bonus        the token after a draft that was accepted whole: its row came with the pass
    sibling      a second proposal for one place; when it is accepted, its own row gives a bonus token too
    emitted      accepted + 1, always

Coupled rule: the target's token is `Sampler.pick` of its row, which depends on the row, the seed and the position
alone. The draft decides how many rows are used, never what they say; so the text is that of plain decoding, whatever
drafts. Residual and block rule: the draft is judged by chance (`app.engine.decoding.rules`), so the text has the
target's distribution, but another draft gives another text. Typical rule: approximate.

A deterministic draft (`probs` is None) is the one-hot case of each.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.engine.decoding.disagreement import Disagreement
from app.engine.decoding.judging_noise import JudgingNoise, SeededNoise
from app.engine.decoding.rules import accept_chance, block, residual, typical_threshold
from drafters.base import Draft
from models.base import Logits
from models.sampling.accept import Accept
from models.sampling.distribution import Distribution
from models.sampling.sampler import Sampler


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of verifying a draft."""

    accepted: int
    """Number of accepted tokens of the chain, from the first."""
    next_token: int
    """The target's token after them: replacement, bonus, or the plain token of an empty draft."""
    is_bonus: bool
    """Whether `next_token` is a bonus: no token on its path was rejected."""
    sibling: int | None = None
    """Accepted sibling after them, before `next_token`; None: none."""

    def emitted(self, draft: Draft) -> tuple[int, ...]:
        """Return the tokens that this verdict emits, before a cut at the end of the answer."""
        kept = draft.tokens[: self.accepted]
        return (*kept, self.next_token) if self.sibling is None else (*kept, self.sibling, self.next_token)


@dataclass(frozen=True, slots=True)
class Rows:
    """Target's rows for a draft: one for every verified token, and one after it."""

    logits: Logits
    draft: Draft
    sampler: Sampler
    tokens: Sequence[int]
    """Tokens of the text before the draft."""

    def pick(self, place: int) -> int:
        """Return the target's own token at a place of the chain."""
        return self.sampler.pick(self.logits[place], self.tokens, self.draft.tokens[:place])

    def served(self, place: int) -> Distribution:
        """Return the target's distribution at a place of the chain.

        Penalties count the text and the chain before that place, and no rejected token.
        """
        return self.sampler.served(self.logits[place], self.tokens, self.draft.tokens[:place])

    def pick_after(self, row: int, place: int, sibling: int) -> int:
        """Return the target's token after a sibling, from the sibling's row."""
        return self.sampler.pick(self.logits[row], self.tokens, (*self.draft.tokens[:place], sibling))


def verify(
    logits: Logits, draft: Draft, sampler: Sampler, tokens: Sequence[int], noise_source: JudgingNoise | None = None
) -> Verdict:
    """Verify a draft of k tokens by k + 1 rows; row i, shape (vocabulary,), follows `tokens` + the draft's first i.

    The rule is the sampler's. A sibling's row comes after those of the chain, in order.
    """
    rows = Rows(logits, draft, sampler, tokens)
    if sampler.accept is Accept.COUPLED or not draft.tokens:
        return _coupled(rows)
    noise_source = noise_source or SeededNoise(sampler.params.seed, len(tokens))
    judge = {Accept.RESIDUAL: _residual, Accept.BLOCK: _block, Accept.TYPICAL: _typical}[sampler.accept]
    return judge(rows, noise_source)


def disagreement(logits: Logits, draft: Draft, verdict: Verdict) -> Disagreement | None:
    """Return the disagreement at the rejected draft token; None where none was rejected.

    Rows are as for `verify`; their whole softmax counts, before penalties, cuts and temperature.
    """
    place = verdict.accepted
    if place == len(draft.tokens):
        return None
    row = logits[place]
    instead = verdict.next_token if verdict.sibling is None else verdict.sibling
    both = row[[draft.tokens[place], instead]].astype(np.float64)
    top = row.max()
    probs = np.exp(both - top) / np.exp(row - top).sum(dtype=np.float64)
    return Disagreement(float(probs[0]), float(probs[1]))


def _coupled(rows: Rows) -> Verdict:
    """Accept draft tokens while the target picks the same tokens."""
    draft = rows.draft
    for place, proposal in enumerate(draft.tokens):
        token = rows.pick(place)
        if token != proposal:
            return _beside(rows, place, token) or Verdict(place, token, is_bonus=False)
    k = len(draft.tokens)
    return Verdict(k, rows.pick(k), is_bonus=k > 0)


def _beside(rows: Rows, place: int, token: int) -> Verdict | None:
    """Return the verdict where the target picks the sibling of a place; None where it picks another token."""
    sibling = rows.draft.sibling(place)
    if sibling is None or sibling[1] != token:
        return None
    return Verdict(place, rows.pick_after(sibling[0], place, token), is_bonus=True, sibling=token)


def _residual(rows: Rows, noise_source: JudgingNoise) -> Verdict:
    """Accept each token with its acceptance probability; draw the replacement of a rejected one from the residual."""
    draft = rows.draft
    for place, proposal in enumerate(draft.tokens):
        target, drawn_from = rows.served(place), draft.drawn_from(place)
        if noise_source.happens(accept_chance(target.of(proposal), drawn_from.of(proposal)), place):
            continue
        target = residual(target, drawn_from)
        sibling, others = draft.sibling(place), drawn_from.without(proposal)
        if sibling is not None and others is not None:
            # The sibling was drawn from the draft distribution without the first token, so it is judged by that.
            row, token = sibling
            if noise_source.happens(accept_chance(target.of(token), others.of(token)), place, turn=1):
                after = rows.sampler.served(rows.logits[row], rows.tokens, (*draft.tokens[:place], token))
                return Verdict(place, noise_source.draw(after, place + 1), is_bonus=True, sibling=token)
            target = residual(target, others)
        return Verdict(place, noise_source.draw(target, place), is_bonus=False)
    return _whole(rows, noise_source)


def _block(rows: Rows, noise_source: JudgingNoise) -> Verdict:
    """Accept the draft up to the last place whose random number is below its acceptance probability."""
    draft = rows.draft
    k = len(draft.tokens)
    targets = [rows.served(place) for place in range(k)]
    drawn_from = [draft.drawn_from(place) for place in range(k)]
    judged = block(targets, drawn_from, draft.tokens)
    kept = max(
        (place + 1 for place, chance in enumerate(judged.chances) if noise_source.happens(chance, place)), default=0
    )
    if kept == k:
        return _whole(rows, noise_source)
    replacement = residual(targets[kept], drawn_from[kept], judged.scales[kept])
    return Verdict(kept, noise_source.draw(replacement, kept), is_bonus=False)


def _typical(rows: Rows, noise_source: JudgingNoise) -> Verdict:
    """Accept every token above the typical threshold."""
    for place, proposal in enumerate(rows.draft.tokens):
        target = rows.served(place)
        if target.of(proposal) <= typical_threshold(target):
            return Verdict(place, noise_source.draw(target, place), is_bonus=False)
    return _whole(rows, noise_source)


def _whole(rows: Rows, noise_source: JudgingNoise) -> Verdict:
    k = len(rows.draft.tokens)
    return Verdict(k, noise_source.draw(rows.served(k), k), is_bonus=True)
