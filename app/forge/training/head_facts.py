"""Facts about a target that heads are made from, read from its header and its answers."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from app.forge.answering.parts import Parts
from app.forge.files.head_file import HeadSizes
from app.forge.target import facts_of
from models.errors import PairError
from models.gguf.header import Header, read_model
from models.gguf.heads import HeadFile, HeadKind, unsuitable

_LEAST_LAYERS = 6
_HEAD = 64
"""Numbers in one head of attention, where the width divides by it."""


@dataclass(frozen=True, slots=True)
class HeadFacts:
    """What a head has to know of its target."""

    width: int
    """Numbers of a hidden row."""
    layers: tuple[int, int, int]
    """Layers whose inputs the head reads: the third, the middle one, the third last."""
    vocabulary: int
    epsilon: float
    base: float
    """Base of the rotary embedding."""
    context: int

    @property
    def sizes(self) -> HeadSizes:
        """Sizes of the head."""
        inner = -(-8 * self.width // 3 // 32) * 32
        head = _HEAD if self.width % _HEAD == 0 else _even_divisor(self.width)
        return HeadSizes(self.width, inner, self.width // head, self.context, self.epsilon, self.base, self.layers)

    @property
    def kept(self) -> int:
        """Tokens of the head's output: an eighth of the vocabulary, at least 4,096."""
        return most_kept(self.vocabulary)

    @property
    def parameters(self) -> int:
        """Weights that are trained."""
        return 3 * self.width**2 + 7 * self.width**2 + 3 * self.width * self.sizes.feed_forward


def head_facts(target: Path) -> HeadFacts:
    """Return a target's facts; raises PairError, with every reason, for one that no head can be made for."""
    header, facts = read_model(target), facts_of(target)
    layers, width = facts.blocks, facts.width
    tapped = (2, layers // 2, layers - 3)
    reasons = (
        _reasons(header, width, tapped)
        if layers >= _LEAST_LAYERS
        else [f"it has {layers} layers; a head reads three of at least {_LEAST_LAYERS}"]
    )
    if reasons:
        raise PairError(
            f"No draft head can be made for {target.name}.",
            cause="\n".join(f"- {reason}" for reason in reasons),
            hint="The suffix index and the starter draft for any model, with no flag.",
        )
    architecture = facts.architecture
    return HeadFacts(
        width,
        tapped,
        facts.vocabulary,
        norm_epsilon(target),
        _real(header, f"{architecture}.rope.freq_base", 10000.0),
        facts.context,
    )


def most_kept(vocabulary: int) -> int:
    """Return how many tokens heads draft, of a vocabulary of so many: an eighth, at least 4,096."""
    return min(vocabulary, max(4096, vocabulary // 8 // 256 * 256))


def kept_tokens(parts: Parts, vocabulary: int) -> NDArray[np.int64]:
    """Return the tokens that heads draft: those that the target's answers had most often, ascending."""
    counts = np.zeros(vocabulary, np.int64)
    for drawn in parts.drawn():
        counts += np.bincount(drawn, minlength=vocabulary)[:vocabulary]
    # Small ids are frequent tokens, which serves where too few were seen.
    return np.sort(np.argsort(-counts, kind="stable")[: most_kept(vocabulary)])


def norm_epsilon(target: Path) -> float:
    """Return the number that a target's norms add before they divide."""
    header = read_model(target)
    return _real(header, f"{header.text('general.architecture')}.attention.layer_norm_rms_epsilon", 1e-5)


def _reasons(header: Header, width: int, layers: tuple[int, int, int]) -> list[str]:
    head = HeadFile(header.path, HeadKind.EAGLE3, "eagle3", width, width, layers, borrows=True, faults=())
    reasons = unsuitable(head, header)
    if not any(tensor.name == "token_embd.weight" for tensor in header.tensors):
        reasons.append("its file has no embedding")
    return reasons


def _real(header: Header, key: str, usual: float) -> float:
    value = header.values.get(key)
    return float(value) if isinstance(value, int | float) and value > 0 else usual


def _even_divisor(width: int) -> int:
    """Return the largest even number of at most 64 that divides the width; the width itself where none does."""
    return next((size for size in range(_HEAD, 0, -2) if width % size == 0), width)
