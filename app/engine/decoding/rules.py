"""Accept rules as arithmetic, without models and randomness; for floats, and for exact fractions in proofs.

    target, draft    distributions of the token at one place, both as served: after penalties, cuts and temperature
    accept chance    min(1, target / draft) of the draft token: its acceptance probability
    residual         positive part of target - draft, normalised: a rejected token's replacement is drawn from it
    block            the draft judged as a whole: the probability of keeping it up to each place
    typical          accepts tokens above a threshold that falls with the target's entropy

Sources: accept chance and residual, Leviathan et al. 2023 (arXiv 2211.17192) and Chen et al. 2023 (2302.01318);
several proposals for one place, drawn without replacement, Jeon et al. 2024 (2402.14160) and Chen et al. 2024
(2402.12374); block verification, Sun et al. 2024 (2403.10444); typical acceptance, Cai et al. 2024 (2401.10774).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.sampling.distribution import Distribution, excess, normalised

_PLAUSIBLE = 0.09
_UNDECIDED = 0.3
"""Medusa's two settings of the typical rule: a fixed threshold, and a factor for flat distributions."""


def accept_chance(target_prob: Any, draft_prob: Any) -> Any:
    """Return the acceptance probability of a token drawn with `draft_prob`, which is above 0."""
    return 1 if target_prob >= draft_prob else target_prob / draft_prob


def residual(target: Distribution, draft: Distribution, scale: Any = 1) -> Distribution:
    """Return the distribution of a replacement: the positive part of scale * target - draft, normalised.

    Where rounding leaves no positive part, the target itself.
    """
    return normalised(*excess(target, draft, scale)) or target


@dataclass(frozen=True, slots=True)
class Block:
    """Probabilities of the block rule for a whole draft, by place."""

    scales: tuple[Any, ...]
    """Probability of keeping the draft up to each place, before each place and at the end: k + 1 values."""
    chances: tuple[Any, ...]
    """Acceptance probability of each place; the last random number below it gives the number of accepted tokens."""


def block(targets: Sequence[Distribution], drafts: Sequence[Distribution], tokens: Sequence[int]) -> Block:
    """Return the block rule's probabilities for k draft tokens, from k draft and k or more target distributions."""
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
    # A draft certain so far, and at the next place as likely as under the target: nothing to correct.
    return 1 if scale == 1 else left / (left + 1 - scale)


def typical_threshold(target: Distribution) -> float:
    """Return the target probability above which the typical rule accepts a token."""
    probs = target.probs[target.probs > 0].astype(np.float64)
    entropy = -(probs * np.log(probs)).sum()
    return float(min(_PLAUSIBLE, _UNDECIDED * np.exp(-entropy)))
