"""Copies of layer inputs, for targets whose graph hands out none: the same numbers, and no bit of a pass is another."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tiny_gguf
from plain_texts import drafted_in_plain_texts
from tiny_block_heads import write_block_head

from drafters.blocks import head_drafter
from models import layer_rows
from models.errors import LocalspecError, PairError
from models.gguf.header import read_model
from models.gguf.heads import read_head, unsuitable
from models.heads.copying import let_copy
from models.heads.loading import join, load_head
from models.heads.tap import Tap
from models.kernels.takeover import Kernels
from models.layer_rows import LayerRows
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

LAYERS = (1, 2, 3)
OPTIONS = LlamaOptions(context_size=256, threads=1, extra_buffers=False)
TEXT = [(7 * place) % 250 for place in range(50)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("copies")
    named = tiny_gguf.write_swa(folder / "named.gguf", n_layer=4)
    return {
        "named": named,
        "handed": tiny_gguf.write_llama(folder / "handed.gguf", n_layer=4),
        "head": write_block_head(folder / "head.gguf", named, LAYERS),
        "of embedding": write_block_head(folder / "embedding.gguf", named, (0, 1, 2)),
    }


@pytest.fixture(params=["compiled", "in Python"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Choose what makes the copies."""
    if request.param == "in Python":
        monkeypatch.setattr(layer_rows, "kernels", lambda: Kernels(None))
    elif layer_rows.kernels().library is None:
        pytest.skip("there are no compiled kernels here")
    return str(request.param)


def opened(path: Path, layers: tuple[int, ...] = ()) -> LlamaModel:
    return LlamaModel(path, LlamaOptions(context_size=256, threads=1, extra_buffers=False, layers=layers))


@pytest.mark.usefixtures("way")
def test_copies_are_what_llama_cpp_hands_out(files: dict[str, Path]) -> None:
    copying, handing = opened(files["handed"], LAYERS), opened(files["handed"])
    try:
        taps = [Tap(model, LAYERS) for model in (copying, handing)]
        for tap in taps:
            tap.enable()
        start = 0
        for width in (1, 2, 17, 30):
            for model in (copying, handing):
                model.decode(TEXT[start : start + width], 1)
            rows = [tap.read(model.handles[1], width) for tap, model in zip(taps, (copying, handing), strict=True)]
            assert rows[0].shape == (width, 3 * copying.row_width)
            assert rows[0].any()
            assert np.array_equal(*rows)
            start += width
    finally:
        copying.close()
        handing.close()


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", ["named", "handed"])
def test_no_bit_of_a_pass_is_another(files: dict[str, Path], name: str) -> None:
    copying, plain = opened(files[name], LAYERS), opened(files[name])
    try:
        for tokens, rows in ((TEXT, 5), (TEXT[:1], 1), (TEXT[:7], 7)):
            assert np.array_equal(copying.decode(tokens, rows), plain.decode(tokens, rows))
        tree = (-1, 0, -1)
        assert np.array_equal(copying.decode(TEXT[:4], 4, tree), plain.decode(TEXT[:4], 4, tree))
    finally:
        copying.close()
        plain.close()


@pytest.mark.usefixtures("way")
def test_a_head_drafts_for_a_target_that_hands_out_no_layers(files: dict[str, Path]) -> None:
    target = opened(files["named"])
    target.decode(TEXT, 0)
    drafter = head_drafter(join(load_head(files["head"], target), target))
    try:
        assert target.options.layers == LAYERS
        assert target.length == 0
        assert drafted_in_plain_texts(drafter, target, TEXT, 40) > 300
        rows = drafter.model._tap.rows(0, 5)  # type: ignore[attr-defined]
        assert rows.any(axis=1).all()
    finally:
        drafter.close()
        target.close()


def test_a_target_without_a_head_copies_nothing(files: dict[str, Path]) -> None:
    target = opened(files["named"])
    try:
        assert target.layer_rows is None
        target.reopen(OPTIONS)
        assert target.layer_rows is None
        let_copy(target, LAYERS)
        target.reopen(OPTIONS)
        assert isinstance(target.layer_rows, LayerRows)
    finally:
        target.close()


@pytest.fixture
def unnamed(files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[LlamaModel]:
    """Open a target none of whose layers has the name that is looked for."""
    monkeypatch.setattr(layer_rows, "_NAME", b"no-such-")
    monkeypatch.setattr(layer_rows, "kernels", lambda: Kernels(None))
    target = opened(files["named"])
    yield target
    target.close()


def test_a_target_that_does_not_name_its_layers_is_refused(unnamed: LlamaModel) -> None:
    with pytest.raises(LocalspecError) as failure:
        let_copy(unnamed, LAYERS)
    assert "does not hand out its layers" in failure.value.title
    assert unnamed.length == 0
    assert not unnamed.layer_rows or not unnamed.layer_rows.rows(1).any()


def test_a_head_of_the_embedding_is_refused_for_such_a_target(files: dict[str, Path]) -> None:
    head = read_head(read_model(files["of embedding"]))
    assert head is not None
    reasons = unsuitable(head, read_model(files["named"]))
    assert reasons == ["it reads the embedding, which models of the architecture gemma2 do not hand out"]
    target = opened(files["named"])
    try:
        with pytest.raises(PairError):
            load_head(files["of embedding"], target)
    finally:
        target.close()


@pytest.mark.parametrize("layers", [(), (0, 1), tuple(range(1, 18))])
def test_what_can_not_be_copied_is_refused(layers: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="can't be copied"):
        LayerRows(layers, 64)
