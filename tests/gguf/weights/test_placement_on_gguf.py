"""Weights on chosen devices: the same rows, the planned memory, and sentences for what can't be placed."""

import gc
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_here import localspec_here
from run_localspec import ROOT, environment
from tiny_gguf import write_experts, write_llama

from app.engine.runtime.load import LoadPlan, ModelOpener
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.errors import UsageError
from models.llama.devices import Device, Kind
from models.llama.load import LlamaOptions, need_of
from models.llama.model import LlamaModel
from models.llama.weights.placed import place_weights
from models.llama.weights.placement import ALL_LAYERS, Override, Placement

OPTIONS = LlamaOptions(context_size=256, threads=1, extra_buffers=False)
TEXT = [104, 101, 108, 108, 111, 32, 116, 104, 101, 32, 116, 104]
MIB = 1 << 20
_MEMORY = """
import sys
from pathlib import Path
from models.llama.bindings import kernels
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.llama.weights.placement import ALL_LAYERS, Placement

def used():
    return int(next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in line).split()[1])

kernels()
small = LlamaModel(Path(sys.argv[1]), LlamaOptions(context_size=256, threads=1))
small.decode([1] * 64, 32)
small.close()
before = used()
placement = Placement(expert_layers=ALL_LAYERS)
model = LlamaModel(Path(sys.argv[2]), LlamaOptions(context_size=2048, threads=1, placement=placement))
model.decode([1] * 64, 32)
print((used() - before) << 10)
"""


def gpu(mebibytes: float, name: str = "CUDA0") -> Device:
    size = int(mebibytes * MIB)
    return Device("CUDA", name, "a card", Kind.GPU, size, size)


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_experts(tmp_path_factory.mktemp("mixture") / "mixture.gguf", n_layer=4, n_embd=128, experts=16)


def rows(path: Path, placement: Placement) -> np.ndarray:
    model = LlamaModel(path, replace(OPTIONS, placement=placement))
    found = model.decode(TEXT, len(TEXT)).copy()
    model.close()
    return found


@contextmanager
def logged() -> Iterator[list[str]]:
    """Yield the lines that llama.cpp logs, those for developers too."""
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    log, handler = logging.getLogger("localspec.llama_cpp"), Kept()
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


PLACEMENTS = {
    "all experts": (Placement(expert_layers=ALL_LAYERS), 12),
    "experts of two layers": (Placement(expert_layers=2), 6),
    "a pattern": (Placement(overrides=(Override(r"blk\.[13]\.attn_q", "CPU"),)), 2),
    "both": (Placement(expert_layers=1, overrides=(Override("attn_k", "CPU"),)), 7),
}


@pytest.mark.parametrize("name", PLACEMENTS)
def test_llama_cpp_takes_the_rules_and_computes_the_same(mixture: Path, name: str) -> None:
    placement, count = PLACEMENTS[name]
    with logged() as lines:
        placed = rows(mixture, placement)
    assert sum("buffer type overridden to CPU" in line for line in lines) == count
    assert np.array_equal(placed, rows(mixture, Placement()))


def test_lists_of_rules_outlive_garbage_collection(mixture: Path) -> None:
    for number in range(4):
        placement = Placement(overrides=tuple(Override(f"blk\\.{each}\\.attn", "CPU") for each in range(number + 1)))
        gc.collect()
        with logged() as lines:
            rows(mixture, placement)
        assert sum("overridden" in line for line in lines) == 5 * min(number + 1, 4)


def test_an_unknown_device_is_refused_with_the_known_ones(mixture: Path) -> None:
    with pytest.raises(UsageError) as refused:
        rows(mixture, Placement(overrides=(Override("exps", "CUDA7"),)))
    assert "there is no device 'CUDA7'" in refused.value.title
    assert "CPU" in refused.value.cause


def test_a_pattern_that_only_python_reads_is_refused(mixture: Path) -> None:
    with pytest.raises(UsageError, match=r"not one that llama\.cpp reads"):
        rows(mixture, Placement(overrides=(Override(r"(?<=a)b", "CPU"),)))


def test_more_shares_than_devices_are_refused(mixture: Path) -> None:
    with pytest.raises(UsageError, match="--tensor-split has 16 shares"):
        rows(mixture, Placement(split=(1.0,) * 16))
    assert np.array_equal(rows(mixture, Placement(split=(1.0,))), rows(mixture, Placement()))


# --- planning ---------------------------------------------------------------------------------------------------------


def planned(path: Path, mebibytes: float, **how: Any) -> tuple[LlamaOptions, tuple[str, ...]]:
    options = replace(OPTIONS, placement=Placement(fits=True, **how))
    placed = place_weights(path, options, 1, devices=(gpu(mebibytes),))
    assert placed.options.placement.fits is False
    assert placed.layout is not None
    return placed.options, placed.notes


def test_what_fits_is_all_then_fewer_experts_then_fewer_layers_then_nothing(mixture: Path) -> None:
    need = need_of(mixture, OPTIONS, 1).plan(256, on_gpu=True)
    # Free memory of a GPU from which a sixteenth, at least 64 MiB, is left.
    sizes = {"all": need.total / MIB + 70, "few": (need.buffers + need.cache) / MIB + 67, "none": 64.5}
    options, notes = planned(mixture, sizes["all"])
    assert (options.gpu_layers, options.placement.expert_layers) == (-1, 0)
    assert notes[0].startswith("-ngl auto: all 4 layers on the GPU; ")
    options, notes = planned(mixture, sizes["few"])
    assert (options.gpu_layers, options.placement.expert_layers) == (-1, ALL_LAYERS)
    assert "the experts of all layers in main memory" in notes[0]
    options, notes = planned(mixture, sizes["none"])
    assert options.gpu_layers == 0
    assert "no layer on the GPU" in notes[0]


def test_a_dense_model_has_no_experts_to_keep(tmp_path: Path) -> None:
    dense = write_llama(tmp_path / "dense.gguf")
    options, notes = planned(dense, 4096, expert_layers=2)
    assert (options.gpu_layers, options.placement.expert_layers) == (-1, 0)
    assert notes[0] == "dense.gguf has no experts, so --n-cpu-moe 2 changes nothing."
    _, notes = planned(dense, 4096, expert_layers=ALL_LAYERS)
    assert notes[0] == "dense.gguf has no experts, so --cpu-moe changes nothing."


def test_other_models_on_the_gpu_take_their_part(mixture: Path) -> None:
    need = need_of(mixture, OPTIONS, 1)
    free = gpu(need.plan(256, on_gpu=True).total / MIB + 70)
    options = replace(OPTIONS, placement=Placement(fits=True))
    alone = place_weights(mixture, options, 1, devices=(free,))
    beside = place_weights(mixture, options, 1, (need,), devices=(free,))
    assert alone.options.gpu_layers == -1
    assert beside.options.gpu_layers == 0


def test_a_plan_without_a_gpu_says_so(mixture: Path) -> None:
    options = replace(OPTIONS, placement=Placement(fits=True, expert_layers=1, overrides=(Override("nothing", "CPU"),)))
    placed = place_weights(mixture, options, 1, devices=())
    assert placed.layout is None
    assert placed.notes == (
        "-ot nothing=CPU: no tensor of mixture.gguf has such a name.",
        "The engine finds no GPU here, so all layers run on the processor: no effect of -ngl auto, --n-cpu-moe 1 and "
        "-ot.",
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Placement(expert_layers=2), "no effect of --n-cpu-moe 2."),
        (Placement(expert_layers=ALL_LAYERS), "no effect of --cpu-moe."),
        (Placement(split=(3.0, 1.0)), "no effect of --tensor-split."),
        (Placement(fits=True, split=(3.0, 1.0)), "no effect of -ngl auto and --tensor-split."),
    ],
)
def test_a_note_names_the_flag_that_was_given(mixture: Path, given: Placement, words: str) -> None:
    placed = place_weights(mixture, replace(OPTIONS, placement=given), 1, devices=())
    assert placed.notes == (f"The engine finds no GPU here, so all layers run on the processor: {words}",)


def test_a_load_follows_the_plan_and_passes_its_notes_on(mixture: Path, tmp_path: Path) -> None:
    options = replace(OPTIONS, placement=Placement(fits=True))
    plan = LoadPlan(str(mixture), parse_drafter("off"), options, tmp_path / "memory.json")
    opened, notes = ModelOpener(plan, AbortFlag(), lambda: 0.0, lambda *_: None).target()
    assert isinstance(opened.model, LlamaModel)
    assert opened.model.options.placement.fits is False
    assert any("-ngl auto" in note for note in notes)
    opened.model.close()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read where Linux has it")
def test_memory_is_planned_within_a_twentieth_of_what_is_used(tmp_path: Path) -> None:
    small = write_llama(tmp_path / "small.gguf")
    large = write_experts(tmp_path / "large.gguf", n_layer=6, n_embd=512, experts=8, n_ctx=2048)
    plan = need_of(large, LlamaOptions(context_size=2048), 1).plan(2048)
    done = subprocess.run(
        [sys.executable, "-c", _MEMORY, str(small), str(large)],
        cwd=ROOT,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) == pytest.approx(plan.total, rel=0.05)
    assert plan.total > 150 * MIB


# --- the command line -------------------------------------------------------------------------------------------------


def test_check_shows_the_placement(mixture: Path, tmp_path: Path) -> None:
    shown = localspec_here("check", str(mixture), "--n-cpu-moe", "2", "-ngl", "auto", home=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "no effect of -ngl auto and --n-cpu-moe 2." in " ".join(shown.stdout.split())
    record = json.loads(localspec_here("check", str(mixture), "--cpu-moe", "--json", home=tmp_path).stdout)
    assert record["placement"]["layout"] is None
    assert record["placement"]["notes"]
    assert json.loads(localspec_here("check", str(mixture), "--json", home=tmp_path).stdout)["placement"] is None


@pytest.mark.parametrize(
    ("flag", "value", "words"),
    [("-ot", "exps=GPU9", "there is no device 'GPU9'"), ("-ot", "exps", "is not PATTERN=DEVICE")],
)
@pytest.mark.parametrize("command", ["run", "check"])
def test_what_can_not_be_placed_is_an_error_of_usage(
    mixture: Path, tmp_path: Path, command: str, flag: str, value: str, words: str
) -> None:
    more = ("hi", "-n", "1") if command == "run" else ()
    done = localspec_here(command, str(mixture), *more, flag, value, home=tmp_path)
    assert (done.returncode, words in done.stderr) == (2, True), done.stderr
