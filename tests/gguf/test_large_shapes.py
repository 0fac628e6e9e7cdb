"""Files with the shapes of large models and random weights: they load, and say the same at every width."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from large_gguf import SHAPES, write_shape

from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

SMALL = {"width": 512, "heads": 4, "key_heads": 2, "feed_forward": 768, "vocabulary": 320}


@pytest.mark.parametrize("kind", ["Q4_K_M", "Q2_K", "TQ1_0", "TQ2_0"])
@pytest.mark.parametrize("name", ["7b", "30b-a3b"])
def test_a_shape_of_any_type_runs_and_is_exact(tmp_path: Path, name: str, kind: str) -> None:
    shape = replace(SHAPES[name], **SMALL)
    path = write_shape(tmp_path / "model.gguf", shape, kind, layers=3)
    model = LlamaModel(path, LlamaOptions(context_size=256, threads=1))
    try:
        text = [300 + place for place in range(8)]
        rows = model.decode(text, rows=8).copy()
        model.rewind(0)
        single = [model.decode([token], rows=1)[0].copy() for token in text]
        assert np.isfinite(rows).all()
        assert 0.1 < rows.std() < 100
        assert np.array_equal(rows, single)
    finally:
        model.close()


def test_a_layer_has_the_bytes_of_one_of_the_real_model(tmp_path: Path) -> None:
    """46.8 million weights, of which a byte has somewhat less than two in Q4_K_M."""
    path = write_shape(tmp_path / "model.gguf", SHAPES["1.5b"], layers=2)
    more = write_shape(tmp_path / "more.gguf", SHAPES["1.5b"], layers=4)
    layer = (more.stat().st_size - path.stat().st_size) / 2
    assert 24 * 2**20 < layer < 32 * 2**20
