"""Other threads, caches and attention over weights that stay in memory; exactness where the cache stands."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tiny_gguf import LlamaFileType, write_llama

from models.errors import MemoryLimitError
from models.llama.bindings import llama_cpp
from models.llama.exact_width import WIDEST, exact_branches, exact_width, exact_width_here
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

TEXT = [104, 101, 108, 108, 111]


@pytest.fixture
def model(tmp_path: Path) -> Iterator[LlamaModel]:
    path = write_llama(tmp_path / "tiny.gguf", n_embd=128, file_type=LlamaFileType.MOSTLY_Q8_0)
    model = LlamaModel(path, LlamaOptions(context_size=512, threads=1))
    yield model
    model.close()


def test_reopened_as_it_was_a_model_says_the_same(model: LlamaModel) -> None:
    before = model.decode(TEXT, rows=2).copy()
    model.reopen(model.options)
    assert model.length == 0
    assert np.array_equal(model.decode(TEXT, rows=2), before)


def test_what_is_not_weights_can_change(model: LlamaModel) -> None:
    assert model.cache_types == ("q8_0", "bf16") or model.cache_types == ("f16", "f16")
    wanted = LlamaOptions(
        context_size=1024, threads=1, max_rows=30, flash_attention=False, cache_type_k="f16", cache_type_v="f32"
    )
    model.reopen(wanted)
    assert (model.context_size, model.max_rows, model.cache_types) == (1024, 30, ("f16", "f32"))
    assert model.decode(TEXT * 6, rows=30).shape[0] == 30


def test_what_was_decided_with_the_weights_stays(model: LlamaModel) -> None:
    rearranged = model.options.extra_buffers
    model.reopen(LlamaOptions(threads=1, gpu_layers=0, extra_buffers=not rearranged))
    assert (model.options.gpu_layers, model.options.extra_buffers) == (-1, rearranged)


def test_threads_change_and_the_cache_stays(model: LlamaModel) -> None:
    model.decode(TEXT, rows=0)
    model.use_threads(2, 1)
    api = llama_cpp()
    assert (api.llama_n_threads(model._cache.context), api.llama_n_threads_batch(model._cache.context)) == (2, 1)
    assert (model.options.threads, model.options.batch_threads, model.length) == (2, 1, len(TEXT))


def test_a_cache_that_does_not_fit_closes_the_model(model: LlamaModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models.llama.context.available_memory", lambda: 1)
    with pytest.raises(MemoryLimitError):
        model.reopen(LlamaOptions(context_size=4096, threads=1))
    with pytest.raises(ValueError, match="closed"):
        model.decode(TEXT, rows=1)


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_exactness_is_looked_for_in_passes_as_narrow_as_the_model_takes(model: LlamaModel, rows: int) -> None:
    model.reopen(LlamaOptions(batch_size=1, max_rows=rows, threads=1))
    assert model.batch_size == rows + 1
    assert 1 <= exact_width(model) <= rows
    assert exact_branches(model) <= (rows >= 3), "a tree of a token, its second and a leaf has no room"


def test_exactness_deep_in_a_text_leaves_the_cache_as_it_is(model: LlamaModel) -> None:
    model.decode(TEXT * 10, rows=0)
    assert 1 <= exact_width_here(model) <= WIDEST
    assert model.length == 50
    after = model.decode([1], rows=1).copy()
    model.rewind(0)
    model.decode(TEXT * 10, rows=0)
    assert np.array_equal(model.decode([1], rows=1), after)


def test_a_difference_that_only_shows_deep_in_a_text_is_noticed(
    model: LlamaModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("models.llama.exact_width.np.array_equal", lambda *_: model.length < 50)
    assert exact_width(model) == WIDEST
    model.decode(TEXT * 10, rows=0)
    assert exact_width_here(model) == 1
