"""The accept rules as arithmetic: no model, no noise. Works on floats, and on exact fractions to prove it.

    target, draft    distributions of the token at one place, both as served: after penalties, cuts and temperature
    accept chance    min(1, target / draft) of the guessed token
    residual         what target has over draft, normalised: what a rejected guess is replaced from
    block            the draft judged as a whole: how likely it is to be kept up to each place
    typical          plausible enough, measured against how undecided the target is

Sources: accept chance and residual, Leviathan et al. 2023 (arXiv 2211.17192) and Chen et al. 2023 (2302.01318);
several guesses for one place, drawn without replacement, Jeon et al. 2024 (2402.14160) and Chen et al. 2024
(2402.12374); block verification, Sun et al. 2024 (2403.10444); typical acceptance, Cai et al. 2024 (2401.10774).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.sampling.distribution import Distribution, excess, normalised

_PLAUSIBLE = 0.09
_UNDECIDED = 0.3
"""Medusa's two settings of the typical rule: a fixed threshold, and a factor for distributions that are flat."""


def accept_chance(target_prob: Any, draft_prob: Any) -> Any:
    """Return the chance to keep a guess that was drawn with `draft_prob`, which is above 0."""
    return 1 if target_prob >= draft_prob else target_prob / draft_prob


def residual(target: Distribution, draft: Distribution, scale: Any = 1) -> Distribution:
    """Return what replaces a rejected guess: the positive part of scale * target - draft, normalised.

    Where nothing is left, which takes rounding to be asked for, the target itself.
    """
    return normalised(*excess(target, draft, scale)) or target


@dataclass(frozen=True, slots=True)
class Block:
    """How a whole draft stands, place by place."""

    scales: tuple[Any, ...]
    """Chance so far that its beginning could be kept, before each place and at the end: one more than tokens."""
    chances: tuple[Any, ...]
    """Chance of each place's coin; the last coin that comes up tells how many tokens are kept."""


def block(targets: Sequence[Distribution], drafts: Sequence[Distribution], tokens: Sequence[int]) -> Block:
    """Judge a draft of k tokens: k distributions of the draft and at least as many of the target."""
    scales: list[Any] = [1]
    for target, draft, token in zip(targets, drafts, tokens, strict=False):
        kept = scales[-1] * target.of(token) / draft.of(token)
        scales.append(1 if kept >= 1 else kept)
    chances = [
        _kept_here(scale, excess(target, draft, scale)[1].sum())
        for scale, target, draft in zip(scales[1:], targets[1:], drafts[1:], strict=False)
    ]
    return Block(tuple(scales), (*chances, *scales[len(tokens) :]))


def _kept_here(scale: Any, left: Any) -> Any:
    # A draft that is certain so far and at the next place as likely as the target wants: nothing to correct.
    return 1 if scale == 1 else left / (left + 1 - scale)


def typical_threshold(target: Distribution) -> float:
    """Return the probability from which on the typical rule keeps a guess."""
    probs = target.probs[target.probs > 0].astype(np.float64)
    entropy = -(probs * np.log(probs)).sum()
    return float(min(_PLAUSIBLE, _UNDECIDED * np.exp(-entropy)))
