"""An EAGLE-3 head whose weights are computed, not trained: it drafts for a real model, and is accepted now and then.

Such a head fuses three of its target's layers into one row, and reads it beside the embedding of the pending token.
Here the sum of a matrix times the layers and another times the embedding is the best linear prediction, by ridge
regression, of the target's last hidden row one token later. Multiplied with the target's own output matrix it predicts
the token after the pending one. The first matrix is the one that fuses. The second is the value matrix of an attention
in which each token attends to itself: query and key are its embedding. The feed-forward part is zero.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFWriter
from numpy.typing import NDArray

from app.forge.files.reading import copy_vocabulary, matrix_of
from app.forge.training.closed_form import normed
from models.gguf.header import read_model
from models.gguf.heads import needs_copies
from models.heads.tap import Tap
from models.llama.bindings import llama_cpp
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

Matrix = NDArray[np.float32]
PASS = 64
CONTEXT = 1024
_RIDGE = 1e-4
"""Weight of the penalty, of the mean square of the features."""
_HEADS = 4
_SHARPNESS = 2.0
"""Factor of query and key: the larger, the less a token attends to others."""


class Recorder:
    """Listens to a model's passes, and keeps layers and last hidden row of each token."""

    def __init__(self, model: LlamaModel, layers: Sequence[int]) -> None:
        self._tap = Tap(model, layers)
        self._tap.enable()
        self._width = model.row_width
        self.features: list[Matrix] = []
        self.hidden: list[Matrix] = []
        # All tokens then have a row of logits, so it works for passes with as many rows only.
        llama_cpp().llama_set_embeddings(model.handles[1], True)
        model.listeners.add(self)

    def take(self, context: Any, start: int, place: int, count: int) -> None:  # noqa: ARG002
        self.features.append(self._tap.read(context, count))
        pointer = llama_cpp().llama_get_embeddings(context)
        self.hidden.append(np.ctypeslib.as_array(pointer, shape=(count, self._width)).copy())

    def leave_context(self) -> None: ...

    def join_context(self) -> None: ...


def write_closed_form_head(
    path: Path, target: Path, tokens: Sequence[int], layers: Sequence[int], kept: Sequence[int] = ()
) -> Path:
    """Write the head of a target that follows from some tokens, best of its own answers; return `path`.

    With `kept` it drafts these tokens alone.
    """
    features, hidden = recorded(target, tokens, layers)
    embedded = normed(embedding(target)[np.asarray(tokens[: len(hidden)])])
    both = np.concatenate((features[:-1], embedded[1:]), axis=1)
    matrix = regression(both, hidden[1:])
    width = hidden.shape[1]
    return write_head(path, target, layers, matrix[:, : 3 * width], matrix[:, 3 * width :], kept)


def recorded(path: Path, tokens: Sequence[int], layers: Sequence[int]) -> tuple[Matrix, Matrix]:
    """Return the inputs of three layers and the last hidden row after each token, (n, 3 * width) and (n, width)."""
    copied = tuple(layers) if needs_copies(read_model(path)) else ()
    model = LlamaModel(path, LlamaOptions(context_size=CONTEXT, max_rows=PASS, layers=copied))
    try:
        recorder = Recorder(model, layers)
        for start in range(0, len(tokens) - PASS + 1, PASS):
            if model.length + PASS > model.context_size:
                model.rewind(0)
            model.decode(tokens[start : start + PASS], PASS)
        return np.concatenate(recorder.features), np.concatenate(recorder.hidden)
    finally:
        model.close()


def embedding(path: Path) -> Matrix:
    """Return a model's embedding, (tokens, width)."""
    return matrix_of(path, "token_embd.weight")


def regression(features: Matrix, wanted: Matrix) -> Matrix:
    """Return the matrix, (columns of `wanted`, columns of `features`), that predicts one from the other."""
    x, y = features.astype(np.float64), wanted.astype(np.float64)
    gram = x.T @ x
    gram[np.diag_indices_from(gram)] += _RIDGE * np.diag(gram).mean()
    solved: Matrix = np.linalg.solve(gram, x.T @ y).T.astype(np.float32)
    return solved


def write_head(
    path: Path,
    target: Path,
    layers: Sequence[int],
    fusing: Matrix,
    of_embedding: Matrix,
    kept: Sequence[int] = (),
) -> Path:
    """Write the file of a head with these two matrices, (width, 3 * width) and (width, width); return `path`."""
    width = fusing.shape[0]
    file = GGUFWriter(path, "eagle3")
    file.add_block_count(1)
    file.add_context_length(CONTEXT)
    file.add_embedding_length(width)
    file.add_feed_forward_length(width)
    file.add_head_count(_HEADS)
    file.add_head_count_kv(_HEADS)
    file.add_rope_dimension_count(width // _HEADS)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_array("eagle3.target_layers", list(layers))
    file.add_uint32("eagle3.target_hidden_size", width)
    copy_vocabulary(file, target)
    ones, one, zero = np.ones(width, np.float32), np.eye(width, dtype=np.float32), np.zeros((width, width), np.float32)
    own = np.concatenate((_SHARPNESS * one, zero), axis=1)
    tensors = {
        "fc": fusing,
        "output_norm": ones,
        **{f"blk.0.{name}": ones for name in ("attn_norm", "attn_norm_2", "ffn_norm")},
        **{f"blk.0.{name}": own for name in ("attn_q", "attn_k")},
        "blk.0.attn_v": np.concatenate((of_embedding, zero), axis=1),
        "blk.0.attn_output": one,
        **{f"blk.0.{name}": zero for name in ("ffn_gate", "ffn_up", "ffn_down")},
    }
    if kept:
        tensors["output"] = embedding(target)[list(kept)]
        file.add_tensor("d2t", np.array(kept, np.int64))
    for name, values in tensors.items():
        file.add_tensor(f"{name}.weight", values)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return path
