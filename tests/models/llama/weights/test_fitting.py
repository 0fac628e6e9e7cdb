"""What is put on a GPU follows llama.cpp's rules, never takes more than there is, and leaves nothing out that fits."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.gguf.header import Header, Tensor
from models.llama.weights.fitting import Layout, Weights, best_layout, layout_of, unmatched, weights_of
from models.llama.weights.placement import ALL_LAYERS, USUAL, Override, Placement

MIB = 1 << 20
LAYERS, DENSE, EXPERTS, OUTPUT, TABLE = 8, 10 * MIB, 90 * MIB, 30 * MIB, 20 * MIB
CACHE, BUFFERS = 16 * MIB, 5 * MIB


def header(*, experts: bool = True, tied: bool = False) -> Header:
    """Return a header of eight layers, each with attention and, of a mixture, three matrices of experts."""
    sizes = {"token_embd.weight": TABLE, "rope_freqs.weight": 1 * MIB} | ({} if tied else {"output.weight": OUTPUT})
    for layer in range(LAYERS):
        sizes[f"blk.{layer}.attn_q.weight"] = DENSE
        for part in ("gate", "up", "down"):
            kind = "exps" if experts else "x"
            sizes[f"blk.{layer}.ffn_{part}_{kind}.weight"] = EXPERTS // 3
    tensors = tuple(Tensor(name, "Q8_0", size, size, 32) for name, size in sizes.items())
    values = {"general.architecture": "qwen3moe", "qwen3moe.block_count": LAYERS}
    return Header(Path("big.gguf"), 3, values, tensors, (Path("big.gguf"),), sum(sizes.values()))


def weights(placement: Placement = USUAL, *, experts: bool = True, tied: bool = False) -> Weights:
    return weights_of(header(experts=experts, tied=tied), placement, CACHE, BUFFERS)


def test_everything_that_fits_goes_to_the_gpu() -> None:
    need = LAYERS * (DENSE + EXPERTS) + OUTPUT + CACHE + BUFFERS
    layout = best_layout(weights(), need)
    assert (layout.is_whole, layout.expert_layers, layout.on_gpu) == (True, 0, need)
    assert layout.in_main == TABLE + 1 * MIB
    assert best_layout(weights(), need - 1) != layout


@pytest.mark.parametrize("kept", [1, 3, LAYERS])
def test_experts_of_the_first_layers_leave_first_and_no_more_of_them_than_have_to(kept: int) -> None:
    need = LAYERS * DENSE + (LAYERS - kept) * EXPERTS + OUTPUT + CACHE + BUFFERS
    layout = best_layout(weights(), need)
    assert (layout.is_whole, layout.expert_layers, layout.on_gpu) == (True, kept, need)
    assert layout.in_main == kept * EXPERTS + TABLE + 1 * MIB


def test_with_all_experts_in_main_memory_layers_leave_as_well() -> None:
    layout = best_layout(weights(), 3 * DENSE + OUTPUT + CACHE * 3 // LAYERS + BUFFERS)
    assert (layout.layers, layout.expert_layers) == (4, LAYERS)
    assert "3 of 8 layers and the output on the GPU, the experts of all layers in main memory" in layout.words


def test_a_model_without_experts_leaves_layer_by_layer() -> None:
    layout = best_layout(weights(experts=False), 5 * (DENSE + EXPERTS) + OUTPUT + CACHE * 5 // LAYERS + BUFFERS)
    assert (layout.layers, layout.expert_layers) == (6, 0)
    assert "experts" not in layout.words


def test_nothing_goes_to_a_gpu_without_room() -> None:
    layout = best_layout(weights(), 1 * MIB)
    assert (layout.layers, layout.on_gpu, layout.expert_layers) == (0, 0, 0)
    assert layout.words.startswith("no layer on the GPU")


@given(st.integers(0, 1200 * MIB), st.booleans(), st.sampled_from([0, 2, ALL_LAYERS]))
def test_a_choice_fits_and_the_next_larger_one_does_not(room: int, experts: bool, fixed: int) -> None:
    found, chosen = weights(experts=experts), best_layout(weights(experts=experts), room, fixed)
    assert chosen.on_gpu <= room
    least = LAYERS if fixed == ALL_LAYERS else fixed
    if experts and chosen.is_whole and chosen.expert_layers > least:
        assert found.layout(chosen.layers, chosen.expert_layers - 1).on_gpu > room
    elif not chosen.is_whole:
        assert found.layout(chosen.layers + 1, chosen.expert_layers or (LAYERS if experts else 0)).on_gpu > room
    assert chosen.expert_layers >= least or not experts or chosen.layers == 0


def test_layers_are_counted_as_llama_cpp_does_the_output_first() -> None:
    assert layout_of(weights(), 1, 0).on_gpu == OUTPUT + BUFFERS
    assert layout_of(weights(), 3, 0).on_gpu == OUTPUT + 2 * (DENSE + EXPERTS) + CACHE * 2 // LAYERS + BUFFERS
    assert layout_of(weights(), -1, 0) == layout_of(weights(), LAYERS + 1, 0) == layout_of(weights(), 99, 0)
    assert layout_of(weights(), 0, ALL_LAYERS) == replace(layout_of(weights(), 0, 0), expert_layers=0)


def test_a_table_that_is_the_output_too_is_in_both_memories() -> None:
    layout = layout_of(weights(tied=True), 1, 0)
    assert layout.on_gpu == TABLE + BUFFERS
    assert layout.in_main == LAYERS * (DENSE + EXPERTS) + TABLE + 1 * MIB + CACHE


def test_the_first_override_that_matches_counts() -> None:
    rules = (Override(r"blk\.[01]\.ffn_up", "CUDA0"), Override("ffn_", "CPU"))
    layout = layout_of(weights(Placement(overrides=rules)), -1, 0)
    assert layout.on_gpu == LAYERS * DENSE + 2 * (EXPERTS // 3) + OUTPUT + CACHE + BUFFERS


def test_overrides_without_a_tensor_are_named() -> None:
    rules = (Override("exps", "CPU"), Override("no_such", "CPU"))
    assert unmatched(header(), Placement(overrides=rules)) == ("no_such=CPU",)


def test_the_words_name_both_memories() -> None:
    words = Layout(9, 8, 2, 5 << 30, 700 * MIB).words
    assert words == (
        "all 8 layers on the GPU, the experts of the first 2 layers in main memory; 5.0 GiB there, 700 MiB in main "
        "memory"
    )
    assert "the first 1 layer in main" in Layout(9, 8, 1, 1, 1).words
