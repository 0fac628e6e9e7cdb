"""--strict on a device that rounds almost every width differently: passes of one width, and sums of one length.

No GPU is needed: what one does is put in the place of what a processor does.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import LlamaFileType
from tiny_gguf import write_llama

import app.engine.costs.exact_settings
from app.engine.costs.exact_settings import Strict
from models.llama.cache import Cache
from models.llama.exact_width import WIDEST
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.llama.strict import TIMED_WIDTHS, Checked, Difference, check

CLOCK = time.perf_counter
NOT_EXACT = Checked(1, (8,), False, Difference(2, 8, 1.5))


def opened(path: Path, **options: Any) -> LlamaModel:
    return LlamaModel(path, LlamaOptions(**{"context_size": 1024, "threads": 1, **options}))


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_llama(tmp_path / "tiny.gguf", n_ctx=1024, n_layer=1, n_embd=128, file_type=LlamaFileType.MOSTLY_Q8_0)


@pytest.mark.parametrize(("exact", "taken"), [({8, 16}, 8), ({16}, 16), ({4, 8, 16}, 4)])
def test_on_a_gpu_passes_are_padded_until_all_have_one_width(
    tiny: Path, exact: set[int], taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(model: LlamaModel, *_: object) -> Checked:
        rows = model.options.pad_rows
        return Checked(rows, (8,), False, Difference(rows + 1, 8, 1.5)) if rows in exact else NOT_EXACT

    measured_costs = {1: 1.0, 4: 1.1, 8: 1.4, 16: 1.9}
    monkeypatch.setattr(app.engine.costs.exact_settings, "has_gpu", lambda _: True)
    monkeypatch.setattr(app.engine.costs.exact_settings, "check", look)
    measured_cost = lambda model, *_: dict.fromkeys(TIMED_WIDTHS, measured_costs[model.options.pad_rows])  # noqa: E731
    monkeypatch.setattr(app.engine.costs.exact_settings, "measure_steady", measured_cost)
    monkeypatch.setattr(
        app.engine.costs.exact_settings,
        "timed_passes",
        lambda model, *_: [(1, measured_costs[model.options.pad_rows])] * 3,
    )
    found = Strict(lambda options: LlamaModel(tiny, options), CLOCK, lambda _: None).settle(opened(tiny))
    assert found.model.options.pad_rows == taken
    assert f"passes padded to {app.engine.costs.exact_settings._ROWS_ON_GPU[taken]} tokens" in found.note
    found.model.close()


def sums_by_blocks(model: LlamaModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a model's rows depend on how many cells its pass attends to, as a GPU's may that splits its sums by them."""
    run, rows_of, attended = Cache.run, Cache.rows, [0]

    def seen(cache: Cache) -> int:
        cells = model.length + model._copied + cache.batch.struct.n_tokens
        attended[0] = cells + -cells % 256
        return run(cache)

    monkeypatch.setattr(Cache, "run", seen)
    monkeypatch.setattr(Cache, "rows", lambda *places: rows_of(*places) + np.float32(attended[0]))


@pytest.mark.parametrize("rows", [4, 8])
def test_sums_that_depend_on_the_block_are_exact_where_passes_end_with_it(
    tiny: Path, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = opened(tiny, pad_rows=rows)
    sums_by_blocks(model, monkeypatch)
    found = check(model, CLOCK, 1.0, widest=8)
    assert found.width == 8
    assert found.depths[1] == 256 - rows
    # Broken on purpose: a pass is done whole wherever it ends.
    monkeypatch.setattr(Cache, "even_width", lambda *_: WIDEST)
    found = check(model, CLOCK, 1.0, widest=8)
    assert found.width == 1
    assert found.difference is not None
    assert found.difference.depth == 256 - rows
    model.close()


@pytest.mark.parametrize("rows", [1, 8])
def test_on_a_gpu_the_deepest_look_is_before_a_block_and_padded_passes_have_no_branches(
    tiny: Path, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = opened(tiny, pad_rows=rows)
    monkeypatch.setattr("models.llama.strict.has_gpu", lambda _: True)
    found = check(model, CLOCK, 1.0, widest=8)
    assert (found.depths[-1] + rows) % 256 == 0
    assert found.depths[-1] > found.depths[1]
    assert found.branches is (rows == 1)
    monkeypatch.setattr("models.llama.strict.has_gpu", lambda _: False)
    assert check(model, CLOCK, 1.0, widest=8).branches
    model.close()


def test_what_is_looked_at_before_a_block_shows_a_pass_that_is_not_padded(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = opened(tiny)
    sums_by_blocks(model, monkeypatch)
    assert check(model, CLOCK, 1.0, widest=8).width == 1
    model.close()
