"""Blocks left out: the file says what the switched model says; agreement, cost and search by numbers."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader, LlamaFileType
from tiny_gguf import write_experts, write_llama, write_recurrent, write_swa

from app.forge.files.pruned_file import block_bytes, block_count, check_prunable, write_pruned
from app.forge.pruning.agreement import LONGEST, Agreement, agreement_of
from app.forge.pruning.cost import PROMPT_PASS, expected
from app.forge.pruning.search import search
from models.errors import LocalspecError, PairError
from models.gguf.header import read_model
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.llama.weights import left_out as left_out_module
from models.llama.weights.left_out import BlockSwitch

TEXT = list(range(97, 120))
PLACED = {"gpu_layers": 0, "extra_buffers": False}


def rows(path: Path) -> np.ndarray:
    model = LlamaModel(path, LlamaOptions(context_size=64, threads=1, **PLACED))
    try:
        return model.decode(TEXT, len(TEXT)).copy()
    finally:
        model.close()


def quantised(path: Path, kind: LlamaFileType) -> Path:
    return write_llama(path, n_layer=6, n_embd=256, file_type=kind)


@pytest.mark.parametrize(
    "write",
    [
        lambda path: write_llama(path, n_layer=6),
        lambda path: write_experts(path, n_layer=5),
        lambda path: quantised(path, LlamaFileType.MOSTLY_Q4_1),
        lambda path: quantised(path, LlamaFileType.MOSTLY_Q8_0),
        lambda path: quantised(path, LlamaFileType.MOSTLY_IQ2_XXS),
        lambda path: quantised(path, LlamaFileType.MOSTLY_BF16),
    ],
)
def test_a_file_without_blocks_says_what_the_switched_model_says(write: Callable[[Path], Path], tmp_path: Path) -> None:
    target = write(tmp_path / "target.gguf")
    whole = rows(target)
    write_pruned(tmp_path / "pruned.gguf", target, {1, 3})
    model = LlamaModel(target, LlamaOptions(context_size=64, threads=1, **PLACED))
    try:
        switch = BlockSwitch(model)
        switch.leave_out({1, 3})
        assert np.array_equal(model.decode(TEXT, len(TEXT)), rows(tmp_path / "pruned.gguf"))
        for blocks in ({0, 3}, ()):
            model.rewind(0)
            switch.leave_out(blocks)
        assert np.array_equal(model.decode(TEXT, len(TEXT)), whole)
    finally:
        model.close()
    assert not np.array_equal(rows(tmp_path / "pruned.gguf"), whole)


def test_blocks_are_renumbered_and_everything_else_is_kept_bit_by_bit(tmp_path: Path) -> None:
    target, pruned = write_llama(tmp_path / "target.gguf", n_layer=6), tmp_path / "pruned.gguf"
    write_pruned(pruned, target, {0, 4})
    before, after = ({tensor.name: tensor for tensor in GGUFReader(path).tensors} for path in (target, pruned))
    for place, block in enumerate((1, 2, 3, 5)):
        for part in ("attn_q.weight", "ffn_down.weight", "ffn_norm.weight"):
            assert np.array_equal(after[f"blk.{place}.{part}"].data, before[f"blk.{block}.{part}"].data)
    assert np.array_equal(after["token_embd.weight"].data, before["token_embd.weight"].data)
    assert not any(name.startswith("blk.4.") for name in after)
    one, other = read_model(target), read_model(pruned)
    assert (block_count(other), block_bytes(other)) == (4, block_bytes(one))
    assert {name: value for name, value in one.values.items() if isinstance(value, str | float)} == {
        name: value for name, value in other.values.items() if isinstance(value, str | float)
    }


def test_a_full_disk_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = write_llama(tmp_path / "target.gguf", n_layer=6)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gguf.GGUFWriter.write_tensors_to_file", full)
    with pytest.raises(OSError, match="No space left"):
        write_pruned(tmp_path / "pruned.gguf", target, {1})
    assert [path.name for path in tmp_path.iterdir()] == ["target.gguf"]


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda path: write_recurrent(path, n_layer=7), "blocks of mamba are not known to be all alike"),
        (lambda path: write_swa(path, n_layer=6), "are not known to be all alike"),
        (lambda path: write_llama(path, n_layer=3), "it has 3 blocks, of at least 4"),
    ],
)
def test_targets_whose_blocks_differ_are_refused(write: Callable[[Path], Path], words: str, tmp_path: Path) -> None:
    with pytest.raises(PairError) as caught:
        check_prunable(write(tmp_path / "target.gguf"))
    assert words in caught.value.cause


def test_an_engine_that_keeps_its_weights_to_itself_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left_out_module, "_GET", ("no_such_function",))
    model = LlamaModel(write_llama(tmp_path / "target.gguf"), LlamaOptions(context_size=64, threads=1, **PLACED))
    try:
        with pytest.raises(LocalspecError, match="does not hand out its weights"):
            BlockSwitch(model)
    finally:
        model.close()


def test_agreement_counts_runs_that_end_with_a_mistake_or_the_answer() -> None:
    found = agreement_of([np.array([True, True, False, True]), np.array([False])])
    assert (found.places, found.right) == (5, 3 / 5)
    # Runs from each place: 2, 1, 0, 1; 0.
    assert found.lengths[:3] == (3 / 5, 4 / 5, 4 / 5)
    assert len(found.lengths) == LONGEST


PASSES = {1: 1.0, 2: 1.1, 3: 1.2, 4: 1.3, PROMPT_PASS: 8.0}


def test_the_best_draft_length_weighs_right_tokens_against_steps() -> None:
    always = expected((1.0, 2.0, 3.0), 0.25, PASSES, prompt=0.0)
    # Three steps, the first of which reads two tokens, and a pass of four tokens.
    assert (always.length, always.speed_up) == (3, pytest.approx(4 / (0.25 * 3.1 + 1.3)))
    seldom = expected((0.3, 0.35, 0.36), 0.25, PASSES, prompt=0.0)
    assert (seldom.length, seldom.speed_up) == (1, pytest.approx(1.3 / (0.25 * 1.03 + 1.1)))


def test_a_draft_model_reads_the_prompt_at_a_cost() -> None:
    # Four prompt tokens for each token of an answer, each an eighth of a step.
    found = expected((1.0,), 0.5, PASSES, prompt=4.0)
    assert found.speed_up == pytest.approx(2 / (0.5 * (1.1 + 2 * 4 / 8) + 1.1))


def importance(weights: dict[int, float]) -> Callable[[frozenset[int]], Agreement]:
    """Return a measure in which each block costs a share of right tokens."""

    def measure(left_out: frozenset[int]) -> Agreement:
        right = max(0.0, 1 - sum(weights[block] for block in left_out))
        return Agreement(1000, right, tuple(right * length for length in range(1, LONGEST + 1)))

    return measure


def test_the_search_leaves_out_the_blocks_that_are_missed_least() -> None:
    weights = dict.fromkeys(range(8), 0.3) | {2: 0.01, 5: 0.02, 6: 0.05}
    found = search(8, importance(weights), lambda: 0.0)
    assert [set(each.left_out) for each in found[:3]] == [{2}, {2, 5}, {2, 5, 6}]
    assert max(len(each.left_out) for each in found) <= 6


def test_the_search_ends_where_too_little_is_right_and_when_its_time_is_over() -> None:
    heavy = search(8, importance(dict.fromkeys(range(8), 0.5)), lambda: 0.0)
    assert [len(each.left_out) for each in heavy] == [1, 2]
    asked: list[frozenset[int]] = []

    def measure(left_out: frozenset[int]) -> Agreement:
        asked.append(left_out)
        return importance(dict.fromkeys(range(8), 0.1))(left_out)

    assert len(search(8, measure, lambda: 1.0)) == 1
    assert len(asked) == 1
