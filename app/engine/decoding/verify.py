"""Verification: applies the accept rule to a draft, and chooses the token after the accepted ones.

    accepted     draft token that becomes text
    rejected     the first draft token that is not accepted, and all after it
    replacement  the token emitted in place of the first rejected one
    residual     the distribution a replacement is drawn from, by the rules that draw
    bonus        the token after a draft that was accepted whole: its row came with the pass
    sibling      another proposal for one place; when it is accepted, its own row judges the siblings that follow it,
                 or gives a bonus token
    emitted      accepted + 1, always

Coupled rule: the target's token is `Sampler.pick` of its row, which depends on the row, the seed and the position
alone. The draft decides how many rows are used, never what they say; so the text is that of plain decoding, whatever
drafts. Residual and block rule: the draft is judged by chance (`app.engine.decoding.rules`), so the text has the
target's distribution, but another draft gives another text. Typical rule: approximate.

Siblings are judged by the coupled and the residual rule. The block rule accepts a chain as a whole, by a random number
for each length; what is left of the target for a sibling of such a chain is not known in closed form, so a draft for it
has none.

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
from models.sampling.distribution import Distribution, one_hot
from models.sampling.sampler import Sampler


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of verifying a draft."""

    accepted: int
    """Number of accepted tokens of the chain, from the first."""
    next_token: int
    """The target's token after them: replacement, bonus, or the plain token of an empty draft."""
    is_bonus: bool
    """Whether `next_token` is a bonus: it follows the last draft token of its path."""
    branch: tuple[int, ...] = ()
    """Accepted siblings after them, each following the one before; `next_token` comes after these."""

    def emitted(self, draft: Draft) -> tuple[int, ...]:
        """Return the tokens that this verdict emits, before a cut at the end of the answer."""
        return (*draft.tokens[: self.accepted], *self.branch, self.next_token)


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

    def pick_after(self, row: int, place: int, branch: Sequence[int]) -> int:
        """Return the target's token after siblings, of which the first stands at a place, from the last one's row."""
        return self.sampler.pick(self.logits[row], self.tokens, (*self.draft.tokens[:place], *branch))

    def served_after(self, row: int, place: int, branch: Sequence[int]) -> Distribution:
        """Return the target's distribution after siblings; see `pick_after`."""
        return self.sampler.served(self.logits[row], self.tokens, (*self.draft.tokens[:place], *branch))


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
    instead = verdict.branch[0] if verdict.branch else verdict.next_token
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
    """Return the verdict where the target picks a sibling of a place; None where it picks another token."""
    draft, branch, row = rows.draft, list[int](), place
    siblings = draft.beside(row) if draft.siblings else []
    while (row := next((row for row, proposal in siblings if proposal == token), 0)) > 0:
        branch.append(token)
        token = rows.pick_after(row, place, branch)
        siblings = draft.beside(row)
    return Verdict(place, token, is_bonus=not siblings, branch=tuple(branch)) if branch else None


def _residual(rows: Rows, noise_source: JudgingNoise) -> Verdict:
    """Accept each token with its acceptance probability; draw the replacement of a rejected one from the residual."""
    draft = rows.draft
    for place, proposal in enumerate(draft.tokens):
        target, drawn_from = rows.served(place), draft.drawn_from(place)
        if not noise_source.happens(accept_chance(target.of(proposal), drawn_from.of(proposal)), place):
            others = None if draft.probs is None else drawn_from.without(proposal)
            return _residual_beside(rows, noise_source, place, residual(target, drawn_from), others)
    return _whole(rows, noise_source)


def _residual_beside(
    rows: Rows, noise_source: JudgingNoise, place: int, target: Distribution, drawn_from: Distribution | None
) -> Verdict:
    """Judge the siblings of a rejected token in order, then those after an accepted one, and so on.

    `target` is the residual, `drawn_from` the draft distribution without the rejected token; None: nothing is left of
    it, or the draft is deterministic.
    """
    draft, branch, row, turn = rows.draft, tuple[int, ...](), place, 1
    while True:
        siblings = draft.beside(row)
        accepted, target = judge_siblings(
            siblings, target, drawn_from, noise_source, place + len(branch), turn, drawn=draft.probs is not None
        )
        if accepted is None:
            is_bonus = bool(branch) and not siblings
            return Verdict(place, noise_source.draw(target, place + len(branch)), is_bonus=is_bonus, branch=branch)
        row, token = accepted
        branch, turn = (*branch, token), 0
        target, drawn_from = rows.served_after(row, place, branch), draft.drawn_after(row)


def judge_siblings(
    siblings: Sequence[tuple[int, int]],
    target: Distribution,
    drawn_from: Distribution | None,
    noise_source: JudgingNoise,
    place: int,
    turn: int,
    *,
    drawn: bool,
) -> tuple[tuple[int, int] | None, Distribution]:
    """Return the accepted one of the siblings (row, token) of a place, or None, and what is left of the target.

    Each was drawn from `drawn_from` without those before it, and is judged by that, against the residual that these
    left. One that was not `drawn` counts as certain. `turn` numbers the random numbers of the place.
    """
    for each, (row, token) in enumerate(siblings, start=turn):
        judged_by = drawn_from if drawn else one_hot(token)
        if judged_by is None:
            break
        if noise_source.happens(accept_chance(target.of(token), judged_by.of(token)), place, each):
            return (row, token), target
        target, drawn_from = residual(target, judged_by), judged_by.without(token)
    return None, target


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
