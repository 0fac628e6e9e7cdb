"""Files of draft models with a smaller vocabulary: rows of the kept tokens, bit by bit, and a map from the target's."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.forge.files.copying import write_copy
from models.errors import PairError
from models.gguf.header import Header, read_model
from models.gguf.token_map import KEPT, NEAREST, token_map_of
from models.token_map import TokenMap

_BY_TOKEN = frozenset({"token_embd.weight", "output.weight", "output.bias"})
"""Tensors with a row, or a number, for each token."""
_TOKENS, _TYPES, _SCORES, _MERGES = (f"tokenizer.ggml.{name}" for name in ("tokens", "token_type", "scores", "merges"))
_NORMAL, _UNUSED = 1, 5
"""Types of tokens: ordinary text, and rows that only round the size up."""


def check_trimmable(draft: Path) -> None:
    """Raise PairError, with every reason, for a draft model whose vocabulary can't be made smaller."""
    header = read_model(draft)
    if reasons := _reasons(header):
        raise PairError(
            f"The vocabulary of {draft.name} can't be made smaller.",
            cause="\n".join(f"- {reason}" for reason in reasons),
            hint="Name another draft model with --draft.",
        )


def always_kept(draft: Path) -> list[int]:
    """Return the tokens that every vocabulary needs: controls, single bytes, and those that have a role."""
    from gguf import GGUFReader

    fields = GGUFReader(draft).fields
    spellings, types = fields[_TOKENS].contents(), _types(fields)
    # Other tokenizers have a type for bytes, and single characters by the thousand.
    byte = 1 if fields["tokenizer.ggml.model"].contents() == "gpt2" else 0
    roles = {field.contents() for name, field in fields.items() if name.endswith("_token_id")}
    return [
        token
        for token, (spelling, kind) in enumerate(zip(spellings, types, strict=True))
        if token in roles or len(spelling) == byte or kind not in (_NORMAL, _UNUSED)
    ]


def ordinary(draft: Path) -> NDArray[np.bool_]:
    """Return for each token of a draft model whether it can come up in a text: rows that pad the vocabulary do not."""
    from gguf import GGUFReader

    fields = GGUFReader(draft).fields
    types = np.array(_types(fields))
    spelled = np.array([not text.startswith("[PAD") for text in fields[_TOKENS].contents()])
    found: NDArray[np.bool_] = (types != _UNUSED) & spelled
    return found


def write_trimmed(path: Path, draft: Path, token_map: TokenMap) -> None:
    """Write a draft model with the kept tokens alone; raises OSError, and then leaves no file."""
    from gguf import GGUFReader

    kept, fields = token_map.kept, GGUFReader(draft).fields
    places = {int(token): place for place, token in enumerate(kept)}
    spellings = fields[_TOKENS].contents()
    there = {spellings[token] for token in places}
    values: dict[str, Any] = {KEPT: kept.tolist(), NEAREST: token_map.nearest.tolist()}
    for name in (_TOKENS, _TYPES, _SCORES):
        if name in fields:
            whole = fields[name].contents()
            values[name] = [whole[token] for token in kept]
    if _MERGES in fields:
        values[_MERGES] = _merges(fields[_MERGES].contents(), there)
    for name, field in fields.items():
        if name.endswith("_token_id") and name.startswith("tokenizer."):
            values[name] = places.get(field.contents(), field.contents())
        elif name.endswith(".vocab_size"):
            values[name] = len(kept)

    def change(name: str, data: Any, kind: Any) -> tuple[str, Any, Any]:
        return name, np.ascontiguousarray(data[kept]) if name in _BY_TOKEN else data, kind

    write_copy(path, draft, values, change)


def output_bytes(header: Header) -> int:
    """Return the bytes of the output matrix."""
    sizes = {tensor.name: tensor.size for tensor in header.tensors}
    return sizes.get("output.weight", sizes.get("token_embd.weight", 0))


def _merges(merges: Sequence[str], there: set[str]) -> list[str]:
    """Return the merges that lead from kept tokens to a kept token; at least one, as the engine asks for a list."""
    found = [merge for merge in merges if {*(parts := merge.split(" ", 1)), "".join(parts)} <= there]
    return found or list(merges[:1])


def _types(fields: Any) -> list[int]:
    size = len(fields[_TOKENS].data)
    return list(fields[_TYPES].contents()) if _TYPES in fields else [_NORMAL] * size


def _reasons(header: Header) -> list[str]:
    tokens = header.array(_TOKENS)
    size = tokens.count if tokens else 0
    found = ["it was made smaller already"] if token_map_of(header) is not None else []
    if not any(tensor.name == "token_embd.weight" and tensor.rows == size for tensor in header.tensors):
        found.append("its file has no embedding with a row for each token")
    found += [
        f"its file has another table with a row for each token ({tensor.name})"
        for tensor in header.tensors
        if tensor.rows == size and tensor.name not in _BY_TOKEN
    ]
    return found
