"""The memory a model will take, worked out by hand; tests/gguf compares it with what llama.cpp allocates."""

from dataclasses import replace
from pathlib import Path

import pytest
from raw_gguf import Array, Weights, write_raw

from models.errors import MemoryLimitError
from models.gguf import shape as shapes
from models.gguf.header import read_model
from models.gguf.shape import Shape, shape_of
from models.llama.devices import Device, Kind
from models.llama.memory import Need, Room, default_context, fit_context, largest_context, plan_memory, room_for
from models.system.cgroup import cores_in_group, spare_in_group
from models.system.machine import available_memory, physical_cores, usable_threads

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
    assert plan_memory(found, 256, ("auto", "f16")).cache == 256 * 4 * 576 * 2


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
    monkeypatch.setattr(shapes, "has_amx", lambda: False)
    tensors = [Weights("token_embd.weight", (64, 2), kind=kind)]
    assert shape(tmp_path, tensors=tensors, data=256).weights == 4 * (18 if kind == 2 else 34) * (1 + twice)


@pytest.mark.parametrize(
    ("name", "rows", "block"),
    [("blk.0.ffn_up.weight", 32, 38), ("blk.0.ffn_up_exps.weight", 32, 34), ("blk.0.x", 2, 34)],
)
def test_with_amx_a_matrix_is_as_large_as_it_is_laid_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, rows: int, block: int
) -> None:
    monkeypatch.setattr(shapes, "has_amx", lambda: True)
    blocks = 2 * rows
    tensors = [Weights(name, (64, rows), kind=8)]
    assert shape(tmp_path, tensors=tensors, data=34 * blocks).weights == block * blocks
    tied = [Weights("token_embd.weight", (64, rows), kind=8)]
    assert shape(tmp_path, tensors=tied, data=34 * blocks).weights == (34 + (34 if rows == 2 else 38)) * blocks


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
        (("auto", "auto"), 1024 * 34 / 32 + 512 * 2),
        (("f32", "f16"), 1024 * 4 + 512 * 2),
        (("auto", "q8_0"), 1536 * 34 / 32),
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


@pytest.mark.parametrize("trained", [100, 300, 512])
def test_the_largest_context_is_all_that_was_trained_also_where_that_is_no_whole_block(trained: int) -> None:
    assert largest_context([replace(SHAPE, trained=trained)], 1 << 40) == trained


def test_without_flash_attention_each_head_has_scores_for_the_whole_text() -> None:
    shape_ = replace(SHAPE, masks=1)
    flash, scores = (plan_memory(shape_, 4096, ("f16", "f16"), flash=flash).buffers for flash in (True, False))
    assert scores - flash == 2 * 8 * 4096 * 70 * 4
    assert plan_memory(shape_, 256, flash=False).cache == plan_memory(shape_, 256, ("f16", "f16")).cache


def test_on_a_gpu_the_cache_is_of_floats_and_passes_are_wider() -> None:
    main, gpu = (plan_memory(replace(SHAPE, masks=1), 1024, on_gpu=on_gpu) for on_gpu in (False, True))
    assert gpu.cache == 1024 * 1536 * 2 + 7
    assert gpu.buffers - main.buffers == (520 - 70) * 1024 * 2


# --- a context that fits ----------------------------------------------------------------------------------------------

GIB = 1 << 30
CUDA = Device("CUDA", "CUDA0", "a card", Kind.GPU, 20 * GIB, 24 * GIB)
CHIP = Device("Vulkan", "Vulkan0", "on the chip", Kind.INTEGRATED, 6 * GIB, 8 * GIB)
METAL = replace(CUDA, back_end="MTL", name="MTL0")
CPU = Device("CPU", "CPU", "a processor", Kind.PROCESSOR, 9 * GIB, 9 * GIB)
SMALL = Need(replace(SHAPE, masks=1), layers=4)


@pytest.mark.parametrize(
    ("devices", "layers", "room"),
    [
        ((), -1, Room(4 * GIB)),
        ((CPU,), -1, Room(4 * GIB)),
        ((CUDA, CPU), -1, Room(20 * GIB, on_gpu=True)),
        ((CUDA, CPU), 5, Room(20 * GIB, on_gpu=True)),
        ((CUDA, CPU), 4, Room(4 * GIB)),
        ((CUDA, CPU), 0, Room(4 * GIB)),
        ((CUDA, replace(CUDA, free=GIB)), -1, Room(21 * GIB, on_gpu=True)),
        ((CUDA, CHIP), -1, Room(20 * GIB, on_gpu=True)),
        ((CHIP, CPU), -1, Room(4 * GIB, on_gpu=True)),
        ((replace(CHIP, free=GIB),), -1, Room(GIB, on_gpu=True)),
        ((METAL,), -1, Room(4 * GIB, on_gpu=True)),
        ((replace(CUDA, free=0, total=0),), -1, Room(4 * GIB)),
        ((replace(CUDA, free=0),), -1, Room(0, on_gpu=True)),
    ],
)
def test_models_go_where_all_their_layers_do(devices: tuple[Device, ...], layers: int, room: Room) -> None:
    assert room_for([replace(SMALL, gpu_layers=layers)], 4 * GIB, devices) == room


def test_a_draft_that_is_split_keeps_both_out_of_the_gpu() -> None:
    needs = [SMALL, replace(SMALL, gpu_layers=2)]
    assert room_for(needs, 4 * GIB, (CUDA,)) == Room(4 * GIB)


@pytest.mark.parametrize(("free", "usable"), [(64 * GIB, 60 * GIB), (256 * MIB, 192 * MIB), (MIB, 0), (0, 0)])
def test_some_of_the_memory_is_left(free: int, usable: int) -> None:
    assert Room(free).usable == usable


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("pair", [1, 2])
def test_a_context_that_fits_is_the_longest_and_leaves_some_room(pair: int, on_gpu: bool) -> None:
    needs = [SMALL, Need(replace(SHAPE, weights=MIB, masks=1))][:pair]
    room = Room(sum(need.plan(2048, on_gpu=on_gpu).total for need in needs) + 64 * MIB + 1, on_gpu=on_gpu)
    fit = fit_context(needs, room)
    assert fit.context == 2048
    assert fit.plans == tuple(need.plan(2048, on_gpu=on_gpu) for need in needs)
    assert sum(plan.total for plan in fit.plans) <= room.usable
    assert fit_context(needs, replace(room, free=room.free - 2)).context == 2048 - 256
    assert fit.note.startswith("Context 2,048: the most that fits in ")
    assert (" on the GPU" in fit.note, "target and draft take" in fit.note) == (on_gpu, pair == 2)


def test_a_context_that_fits_is_never_longer_than_what_the_target_was_trained_on() -> None:
    fit = fit_context([SMALL, Need(replace(SHAPE, trained=512))], Room(GIB))
    assert fit.context == 4096
    assert fit.note.startswith("Context 4,096: all that the model was trained on; target and draft take ")


@pytest.mark.parametrize(("cache_types", "flash"), [(("f32", "f32"), True), (("auto", "auto"), False)])
def test_how_a_model_is_run_counts(cache_types: tuple[str, str], flash: bool) -> None:
    need = Need(replace(SHAPE, masks=1), cache_types=cache_types, flash=flash)
    room = Room(SMALL.plan(2048).total + 64 * MIB)
    assert fit_context([need], room).context < fit_context([SMALL], room).context == 2048


def test_more_caches_share_the_weights() -> None:
    one, three = SMALL.plan(1024), replace(SMALL, caches=3).plan(1024)
    assert (three.weights, three.cache, three.buffers) == (one.weights, 3 * one.cache, 3 * one.buffers)


@pytest.mark.parametrize("pair", [1, 2])
def test_where_none_fits_the_error_has_the_account_of_the_shortest(pair: int) -> None:
    room = Room(100 * MIB)
    with pytest.raises(MemoryLimitError) as failure:
        fit_context([SMALL] * pair, room)
    assert failure.value.exit_code == 5
    cause = failure.value.cause
    assert f"For that, {('it needs', 'target and draft need')[pair - 1]} " in cause
    assert f"weights {100 * pair} MiB, cache " in cause
    assert cause.endswith("; 36 MiB of 100 MiB free may be used.")


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


@pytest.mark.parametrize(
    ("groups", "files", "cores"),
    [
        ("0::/a", {"a/cpu.max": "200000 100000"}, 2),
        ("0::/a", {"a/cpu.max": "150000 100000"}, 1),
        ("0::/a", {"a/cpu.max": "5000 100000"}, 1),
        ("0::/a/b", {"a/cpu.max": "100000 100000", "a/b/cpu.max": "max 100000"}, 1),
        ("0::/a/b/c", {"a/cpu.max": "150000 100000", "a/b/c/cpu.max": "400000 100000"}, 1),
        ("0::/docker/x", {"cpu.max": "250000 100000"}, 2),
        (
            "4:cpu,cpuacct:/docker/x",
            {"cpu,cpuacct/cpu.cfs_quota_us": "150000", "cpu,cpuacct/cpu.cfs_period_us": "100000"},
            1,
        ),
        ("0::/../../elsewhere", {"cpu.max": "300000 100000"}, 3),
        ("4:cpu,cpuacct:/b", {"cpu/b/cpu.cfs_quota_us": "400000", "cpu/b/cpu.cfs_period_us": "100000"}, 4),
        ("4:cpu,cpuacct:/b", {"cpu/b/cpu.cfs_quota_us": "-1", "cpu/b/cpu.cfs_period_us": "100000"}, None),
        ("4:cpuset:/b", {"cpu/b/cpu.cfs_quota_us": "400000", "cpu/b/cpu.cfs_period_us": "100000"}, None),
        ("0::/a", {"a/cpu.max": "max 100000"}, None),
        ("0::/a", {"a/cpu.max": "nonsense"}, None),
        ("0::/a", {"a/cpu.max": "100000"}, None),
        ("0::/a", {"a/cpu.max": ""}, None),
        ("0::/a", {"a/memory.max": "500"}, None),
    ],
)
def test_a_quota_of_time_is_a_number_of_cores(
    tmp_path: Path, groups: str, files: dict[str, str], cores: int | None
) -> None:
    assert cores_in_group(group(tmp_path, groups, files)) == cores


def test_no_more_cores_are_used_than_the_quota_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models.system.machine.psutil.cpu_count", lambda logical: 64 if logical else 32)
    monkeypatch.setattr("models.system.machine.os.sched_getaffinity", lambda _: range(64), raising=False)
    assert physical_cores(tmp_path) == 32
    assert physical_cores(group(tmp_path, "0::/a", {"a/cpu.max": "350000 100000"})) == 3


def test_hyper_threads_of_one_core_are_one_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four cores with two threads each, a cpuset has both threads of one core and one of another."""
    for number in range(8):
        topology = tmp_path / f"sys/devices/system/cpu/cpu{number}/topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text(f"{number % 4 // 2}\n")
        (topology / "core_id").write_text(f"{number % 2}\n")
    monkeypatch.setattr("models.system.machine.psutil.cpu_count", lambda logical=True: 8 if logical else 4)
    for allowed, cores in (({0, 4, 1}, 2), ({0, 4}, 1), ({0, 1, 2, 3}, 4), (set(range(8)), 4)):
        monkeypatch.setattr("models.system.machine.os.sched_getaffinity", lambda _, found=allowed: found, raising=False)
        assert (physical_cores(tmp_path), usable_threads(tmp_path)) == (cores, len(allowed))
    assert usable_threads(group(tmp_path, "0::/a", {"a/cpu.max": "150000 100000"})) == 1
    assert physical_cores(tmp_path) == 1
