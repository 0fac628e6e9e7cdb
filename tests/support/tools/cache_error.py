"""What types of cached keys and values change: python tests/support/run.py cache_error MODEL TEXT

Reads a text with each type and compares the distributions of the next token with those of an f16 cache: the mean
divergence in bits, and how often the most likely token is the same.
"""

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

_KINDS = ("f16", "q8_0", "q5_1", "q5_0", "q4_1", "iq4_nl", "q4_0")
_TOKENS, _WIDTH, _FROM = 768, 32, 256
"""Tokens of the text, of a pass, and those before the first row that counts."""


def main(model: str, text: str) -> None:
    """Print one line for each type."""
    whole: NDArray[np.float32] | None = None
    for kind in _KINDS:
        rows = _rows(Path(model), Path(text).read_text(encoding="utf-8"), kind)
        whole = rows if whole is None else whole
        bits = (np.exp(whole) * (whole - rows)).sum(axis=1).mean() / np.log(2)
        same = (whole.argmax(axis=1) == rows.argmax(axis=1)).mean()
        print(f"{kind:7} {bits:.4f} bits  {same:.1%} of {len(rows)}", flush=True)


def _rows(model: Path, text: str, kind: str) -> NDArray[np.float32]:
    """Return the logarithms of the probabilities after each token, shape (tokens, vocabulary)."""
    options = LlamaOptions(context_size=_TOKENS, cache_type_k=kind, cache_type_v=kind)
    opened, found = LlamaModel(model, options), []
    tokens = opened.vocab.tokenize(text, special=False)[:_TOKENS]
    for start in range(0, len(tokens) - _WIDTH + 1, _WIDTH):
        rows = opened.decode(tokens[start : start + _WIDTH], _WIDTH)
        if start >= _FROM:
            shifted = rows - rows.max(axis=1, keepdims=True)
            found.append(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))
    opened.close()
    return np.concatenate(found)


if __name__ == "__main__":
    main(*sys.argv[1:])
