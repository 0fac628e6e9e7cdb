"""Screened output matrices of heads: a head computes the rows of likely tokens alone, and its target all rows."""

from pathlib import Path

import numpy as np
import pytest
import tiny_gguf
from closed_form_head import write_closed_form_head
from gguf import LlamaFileType
from plain_texts import drafted_in_plain_texts
from tiny_block_heads import write_block_head

from drafters.blocks import head_drafter
from models.heads.head_model import HeadModel
from models.heads.loading import join, load_head
from models.llama import screen
from models.llama.bindings import kernels
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

LAYERS = (0, 1, 2)
OPTIONS = LlamaOptions(context_size=256, threads=1, extra_buffers=False)
TEXT = [(11 * place) % 251 for place in range(40)]

pytestmark = pytest.mark.skipif(kernels().library is None, reason="there are no compiled kernels here")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write a target whose output matrix the kernels read, and heads that share it."""
    folder = tmp_path_factory.mktemp("screened")
    target = tiny_gguf.write_llama(folder / "t.gguf", n_layer=3, file_type=LlamaFileType.MOSTLY_Q8_0)
    return {
        "target": target,
        "eagle3": write_closed_form_head(folder / "eagle3.gguf", target, TEXT * 20, LAYERS),
        "dflash": write_block_head(folder / "dflash.gguf", target, LAYERS),
    }


def joined(files: dict[str, Path], kind: str) -> tuple[LlamaModel, HeadModel]:
    target = LlamaModel(files["target"], OPTIONS)
    return target, join(load_head(files[kind], target), target)


@pytest.mark.parametrize("kind", ["eagle3", "dflash"])
def test_unlikely_tokens_are_left_out_of_the_head_alone(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(screen, "_FEWEST", 128)
    screened = joined(files, kind)
    monkeypatch.setattr(screen, "_FEWEST", 8192)
    whole = joined(files, kind)
    try:
        assert screened[1].head.screen.is_open
        assert not whole[1].head.screen.is_open
        rows, own = [], []
        for target, head in (screened, whole):
            rows.append(target.decode(TEXT[:-1], 3).copy())
            head.decode(TEXT[:-2], 0)
            own.append(head.decode(TEXT[-2:], 1)[0].copy())
        assert np.isfinite(rows[0]).all()
        assert np.array_equal(*rows)
        kept = np.isfinite(own[0])
        assert 1 < kept.sum() < 0.5 * len(kept)
        assert np.isfinite(own[1]).all()
        assert np.allclose(own[0][kept], own[1][kept], rtol=0, atol=1e-3)
    finally:
        for target, head in (screened, whole):
            head.close()
            target.close()


def test_a_screened_head_changes_no_text(files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "_FEWEST", 128)
    target, head = joined(files, "eagle3")
    drafter = head_drafter(head)
    try:
        assert drafted_in_plain_texts(drafter, target, TEXT, 30) > 300
    finally:
        drafter.close()
        target.close()
