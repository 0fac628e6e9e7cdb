"""Medusa heads whose matrices are computed, not trained: they draft for a real target, and are accepted at times."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.forge.files.medusa_file import MedusaFile, write_medusa
from app.forge.files.reading import matrix_of
from app.forge.training.head_facts import norm_epsilon
from app.forge.training.medusa_start import closed_form, normed
from models.gguf.fingerprint import fingerprint
from models.gguf.header import read_model
from models.heads.tap import Tap
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

Matrix = NDArray[np.float32]
PASS = 32
CONTEXT = 1024


class Recorder:
    """Listens to a model's passes, and keeps what its last layer returns."""

    def __init__(self, model: LlamaModel, layers: int) -> None:
        self._tap = Tap(model, (layers,))
        self._tap.enable()
        self.rows: list[Matrix] = []
        model.listeners.add(self)

    def take(self, context: Any, start: int, place: int, count: int) -> None:  # noqa: ARG002
        self.rows.append(self._tap.read(context, count).copy())

    def skip(self, length: int) -> None: ...

    def leave_context(self) -> None: ...

    def join_context(self) -> None: ...


def layers_of(target: Path) -> int:
    header = read_model(target)
    return header.number(f"{header.text('general.architecture')}.block_count") or 0


def last_rows(target: Path, tokens: Sequence[int]) -> Matrix:
    """Return a target's last hidden rows after the tokens of a text, before its last norm."""
    layers = layers_of(target)
    model = LlamaModel(target, LlamaOptions(context_size=CONTEXT, max_rows=PASS, layers=(layers,), threads=1))
    try:
        recorder = Recorder(model, layers)
        for start in range(0, len(tokens) - PASS + 1, PASS):
            if model.length + PASS > model.context_size:
                model.rewind(0)
            model.decode(tokens[start : start + PASS], PASS)
        return np.concatenate(recorder.rows)
    finally:
        model.close()


def write_computed_medusa(
    path: Path,
    target: Path,
    tokens: Sequence[int],
    *,
    heads: int = 4,
    kept: Sequence[int] = (),
    kind: str = "f32",
    gates: Matrix | None = None,
    digest: str = "",
) -> Path:
    """Write the heads of a target that follow from a text; return `path`. With `kept` they draft these tokens alone."""
    norm, epsilon = matrix_of(target, "output_norm.weight"), norm_epsilon(target)
    rows = normed(last_rows(target, tokens), norm, epsilon)
    linear = closed_form([rows], heads)
    every = np.arange(len(matrix_of(target, "output.weight", "token_embd.weight")))
    content = MedusaFile(
        linear,
        np.zeros_like(linear) if gates is None else gates,
        np.zeros(linear.shape[:2], np.float32) if gates is None else gates[:, 0] + 0.1,
        norm / 2,
        epsilon,
        np.array(kept or every, np.int64),
        layers_of(target),
        2.0,
    )
    write_medusa(path, content, digest or fingerprint(target).digest, kind)
    return path
