"""The memory a model will take, worked out by hand; tests/gguf compares it with what llama.cpp allocates."""

from dataclasses import replace
from pathlib import Path

import pytest
from raw_gguf import Array, Weights, write_raw

from models import shape as shapes
from models.cgroup import spare_in_group
from models.gguf_header import read_model
from models.machine import available_memory
from models.memory import default_context, largest_context, plan_memory
from models.shape import Shape, shape_of

KIB, MIB = 1 << 10, 1 << 20


def shape(tmp_path: Path, values: dict[str, object] | None = None, **changes: object) -> Shape:
    return shape_of(read_model(write_raw(tmp_path / "m.gguf", values, **changes)))  # type: ignore[arg-type]


def llama(**values: object) -> dict[str, object]:
    """Return a model of four layers, each with two key heads of 32 numbers."""
    about = {"block_count": 4, "embedding_length": 128, "attention.head_count": 4, "attention.head_count_kv": 2}
    return {f"llama.{key}": value for key, value in {**about, **values}.items()}


# --- the numbers of a model -------------------------------------------------------------------------------------------


def test_every_layer_caches_its_heads(tmp_path: Path) -> None:
    found = shape(tmp_path, llama())
    assert (found.keys, found.values) == (4 * 2 * 32, 4 * 2 * 32)
    assert (found.head, found.heads, found.width, found.widest) == (32, 4, 128, 128)
    assert (found.vocabulary, found.trained, found.states, found.masks) == (4, 512, 0, 1)


def test_without_key_heads_every_head_is_cached(tmp_path: Path) -> None:
    about = llama()
    del about["llama.attention.head_count_kv"]
    assert shape(tmp_path, about).keys == 4 * 4 * 32


def test_heads_may_differ_from_layer_to_layer(tmp_path: Path) -> None:
    assert shape(tmp_path, llama(**{"attention.head_count_kv": Array([1, 0, 2, 4])})).keys == 7 * 32


def test_keys_and_values_may_have_lengths_of_their_own(tmp_path: Path) -> None:
    found = shape(tmp_path, llama(**{"attention.key_length": 96, "attention.value_length": 64}))
    assert (found.keys, found.values, found.head) == (4 * 2 * 96, 4 * 2 * 64, 96)


def test_layers_with_a_window_may_have_smaller_heads(tmp_path: Path) -> None:
    windows = {"attention.sliding_window": 16, "attention.sliding_window_pattern": Array([1, 1, 0, 1])}
    found = shape(tmp_path, llama(**windows, **{"attention.key_length": 64, "attention.key_length_swa": 32}))
    assert found.keys == (3 * 32 + 64) * 2
    assert found.values == 4 * 2 * 32
    assert found.masks == 2


def test_a_pattern_of_one_number_leaves_all_layers_alike(tmp_path: Path) -> None:
    windows = {"attention.sliding_window": 16, "attention.sliding_window_pattern": 2}
    assert shape(tmp_path, llama(**windows)).keys == 4 * 2 * 32


def test_layers_that_share_a_cache_have_none(tmp_path: Path) -> None:
    assert shape(tmp_path, llama(**{"attention.shared_kv_layers": 3})).keys == 2 * 32


def test_compressed_attention_keeps_one_key_and_no_value(tmp_path: Path) -> None:
    about = {"attention.key_length_mla": 192, "attention.key_length": 576, "attention.head_count_kv": 1}
    found = shape(tmp_path, llama(**about))
    assert (found.keys, found.values) == (4 * 576, 0)


def test_a_recurrent_model_has_states_and_no_cache(tmp_path: Path) -> None:
    about = {"general.architecture": "mamba", "mamba.block_count": 3, "mamba.embedding_length": 64}
    sizes = {"conv_kernel": 4, "inner_size": 128, "state_size": 16, "group_count": 1}
    found = shape(tmp_path, {**about, **{f"mamba.ssm.{key}": value for key, value in sizes.items()}})
    assert (found.keys, found.values, found.masks) == (0, 0, 0)
    assert found.states == 3 * 4 * (3 * (128 + 2 * 16) + 16 * 128)


def test_a_hybrid_counts_each_layer_for_what_it_is_and_keeps_snapshots(tmp_path: Path) -> None:
    about = {"block_count": 2, "embedding_length": 64, "attention.head_count": 2, "attention.head_count_kv": 2}
    values = {"general.architecture": "lfm2", **{f"lfm2.{key}": value for key, value in about.items()}}
    tensors = [Weights("blk.0.shortconv.conv.weight"), Weights("blk.1.attn_k.weight", offset=32)]
    found = shape(tmp_path, {**values, "lfm2.shortconv.l_cache": 3}, tensors=tensors)
    assert found.keys == 2 * 32
    assert found.states == 9 * 4 * 64 * 2


def test_weights_are_the_tensors(tmp_path: Path) -> None:
    tensors = [Weights("output.weight", (64, 2)), Weights("token_embd.weight", (64, 2), kind=2, offset=512)]
    assert shape(tmp_path, tensors=tensors, data=1024).weights == 64 * 2 * 4 + 4 * 18


@pytest.mark.parametrize(
    ("machine", "kind", "twice"), [("x86_64", 2, True), ("x86_64", 8, False), ("aarch64", 8, True)]
)
def test_an_embedding_that_is_the_output_too_may_be_there_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: str, kind: int, twice: bool
) -> None:
    monkeypatch.setattr(shapes.platform, "machine", lambda: machine)
    tensors = [Weights("token_embd.weight", (64, 2), kind=kind)]
    assert shape(tmp_path, tensors=tensors, data=256).weights == 4 * (18 if kind == 2 else 34) * (1 + twice)


def test_experts_count_as_far_as_a_token_sees_them(tmp_path: Path) -> None:
    about = {"expert_used_count": 4, "expert_feed_forward_length": 100, "feed_forward_length": 256}
    assert shape(tmp_path, llama(**about)).widest == 4 * 100 + 4 * 128 // 2


# --- the plan ---------------------------------------------------------------------------------------------------------

SHAPE = Shape(
    weights=100 * MIB, keys=1024, values=512, states=7, head=64, heads=8, width=0, widest=0, vocabulary=0, masks=0,
    trained=4096,
)  # fmt: skip


@pytest.mark.parametrize(
    ("types", "a_token"),
    [
        (("f16", "f16"), 1536 * 2),
        (("q8_0", "q8_0"), 1536 * 34 / 32),
        (("auto", "auto"), 1536 * 34 / 32),
        (("f32", "f16"), 1024 * 4 + 512 * 2),
        (("auto", "f16"), 1024 * 34 / 32 + 512 * 2),
    ],
)
def test_the_cache_is_what_its_types_say(types: tuple[str, str], a_token: float) -> None:
    plan = plan_memory(SHAPE, 1024, types)
    assert (plan.context, plan.weights, plan.cache) == (1024, 100 * MIB, int(1024 * a_token) + 7)
    assert plan.total == plan.weights + plan.cache + plan.buffers


def test_heads_that_are_no_whole_blocks_stay_floats() -> None:
    assert plan_memory(replace(SHAPE, head=80), 256).cache == 256 * 1536 * 2 + 7


def test_a_context_is_rounded_up_to_whole_blocks_of_cells() -> None:
    assert plan_memory(SHAPE, 1).cache == plan_memory(SHAPE, 256).cache < plan_memory(SHAPE, 257).cache


def test_without_a_context_it_is_the_models_own_up_to_8192() -> None:
    assert plan_memory(SHAPE).context == default_context(SHAPE) == 4096
    assert default_context(replace(SHAPE, trained=0)) == default_context(replace(SHAPE, trained=1 << 20)) == 8192


def test_rows_of_logits_and_the_vocabulary_take_room() -> None:
    small, large = (plan_memory(replace(SHAPE, vocabulary=size), 256).buffers for size in (0, 100_000))
    assert large - small == 100_000 * (2 * 32 * 4 + 288)


@pytest.mark.parametrize("pair", [1, 2])
@pytest.mark.parametrize("room", [0, 1, 511, 512, 4096])
def test_the_largest_context_fits_and_the_next_does_not(pair: int, room: int) -> None:
    shapes_, trained = [replace(SHAPE, masks=1)] * pair, 4096
    free = sum(plan_memory(shape_, room).total for shape_ in shapes_) if room else 99 * MIB
    largest = largest_context(shapes_, free)
    assert largest <= trained
    if largest:
        assert sum(plan_memory(shape_, largest).total for shape_ in shapes_) <= free
    assert largest == (0 if room == 0 else room + -room % 256)
    if largest < trained:
        assert sum(plan_memory(shape_, largest + 256).total for shape_ in shapes_) > free


# --- what this machine has --------------------------------------------------------------------------------------------


def group(root: Path, line: str, files: dict[str, str]) -> Path:
    """Lay out the folders of a system in which this process is in one group."""
    for name, text in {
        "proc/self/cgroup": line,
        **{f"sys/fs/cgroup/{key}": text for key, text in files.items()},
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def test_without_groups_there_is_no_limit(tmp_path: Path) -> None:
    assert spare_in_group(tmp_path) is None
    assert available_memory(tmp_path) == pytest.approx(available_memory(), rel=0.2)


def test_version_2_counts_what_is_used_without_files_that_can_go(tmp_path: Path) -> None:
    stat = f"anon 1\ninactive_file {200 * MIB}\nactive_file 5"
    files = {"a/memory.max": str(900 * MIB), "a/memory.current": str(500 * MIB), "a/memory.stat": stat}
    root = group(tmp_path, "0::/a", files)
    assert spare_in_group(root) == 600 * MIB
    assert available_memory(root) == min(600 * MIB, available_memory(root))


def test_version_1_is_under_its_own_folder(tmp_path: Path) -> None:
    files = {"memory/b/memory.limit_in_bytes": str(300 * MIB), "memory/b/memory.usage_in_bytes": str(100 * MIB)}
    assert spare_in_group(group(tmp_path, "5:cpu:/b\n9:memory:/b", files)) == 200 * MIB


def test_the_tightest_of_all_groups_around_counts(tmp_path: Path) -> None:
    inner = {"a/b/memory.max": str(800 * MIB), "a/b/memory.current": "0"}
    outer = {"a/memory.max": str(500 * MIB), "a/memory.current": str(100 * MIB)}
    assert spare_in_group(group(tmp_path, "0::/a/b", inner | outer)) == 400 * MIB


def test_in_a_container_the_mount_itself_is_the_group(tmp_path: Path) -> None:
    files = {"memory.max": str(500 * MIB), "memory.current": str(MIB)}
    assert spare_in_group(group(tmp_path, "0::/../../elsewhere", files)) == 499 * MIB


@pytest.mark.parametrize(
    "files",
    [
        {"a/memory.max": "max", "a/memory.current": "5"},
        {"a/memory.max": "nonsense", "a/memory.current": "5"},
        {"a/memory.max": "500"},
        {"memory/a/memory.limit_in_bytes": "9223372036854771712", "memory/a/memory.usage_in_bytes": "5"},
    ],
)
def test_what_is_no_limit_limits_nothing(tmp_path: Path, files: dict[str, str]) -> None:
    assert spare_in_group(group(tmp_path, "0::/a\n9:memory:/a", files)) is None


def test_a_group_that_is_over_its_limit_has_nothing_left(tmp_path: Path) -> None:
    assert spare_in_group(group(tmp_path, "0::/a", {"a/memory.max": "500", "a/memory.current": "900"})) == 0
