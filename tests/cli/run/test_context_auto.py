"""`-c auto`: the longest context that fits, for a model or a pair, said in a note; where none fits, exit code 5."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_here import localspec_here
from tiny_gguf import write_hybrid, write_llama

import app.catalog.inspection
import app.engine.runtime.load
import app.engine.runtime.machine_measurements
from app.engine.costs.standing_model import TEXT_CONTEXT
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.loader import Loader
from app.flags.load_plan import read_plan
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.errors import MemoryLimitError
from models.gguf.model_info import model_info
from models.llama.devices import Device, Kind
from models.llama.load import LlamaOptions
from models.llama.memory import Need, plan_memory
from models.llama.model import LlamaModel

MIB = 1 << 20
LEFT = 64 * MIB
FLAGS: dict[str, Any] = {
    "ctx_size": 0, "threads": 1, "threads_batch": 0, "gpu_layers": -1, "flash_attn": "auto", "cache_type_k": "auto",
    "cache_type_v": "auto", "draft": "off", "draft_max": None, "allow_rounding": False,
}  # fmt: skip
Room = Callable[[int], None]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return write_llama(tmp_path / "target.gguf", n_ctx=8192, n_layer=4)


@pytest.fixture
def draft(tmp_path: Path) -> Path:
    return write_llama(tmp_path / "draft.gguf", n_ctx=512, n_layer=1, seed=1)


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Room:
    """Set what is free in main memory, where it is asked how long a context may be."""

    def free(count: int) -> None:
        for module in (app.engine.runtime.load, app.catalog.inspection):
            monkeypatch.setattr(module, "available_memory", lambda: count)

    return free


def loader(plan: LoadPlan) -> Loader:
    return Loader(plan, AbortFlag(), lambda: 0.0, lambda _, __: None)


def plan_of(target: Path, memory: Path, drafter: str = "off", **options: Any) -> LoadPlan:
    chosen = LlamaOptions(threads=1, extra_buffers=False, **options)
    return LoadPlan(str(target), parse_drafter(drafter), chosen, memory, fit_context=True)


def loaded(plan: LoadPlan) -> tuple[int, list[str]]:
    """Load a target and return its context, and the notes."""
    asked = loader(plan)
    model = asked.target()
    assert isinstance(model, LlamaModel)
    model.close()
    return model.context_size, asked.notes


def need(path: Path, context: int, **how: Any) -> int:
    return plan_memory(model_info(path).shape, context, **how).total


# --- loading ----------------------------------------------------------------------------------------------------------


def test_the_longest_context_that_fits_is_loaded_and_said(target: Path, tmp_path: Path, room: Room) -> None:
    room(need(target, 2048) + LEFT)
    context, notes = loaded(plan_of(target, tmp_path / "memory.json"))
    assert context == 2048
    assert len(notes) == 1
    assert notes[0].startswith("Context 2,048: the most that fits in 69 MiB free; it takes 5 MiB.")


def test_it_is_never_longer_than_what_the_model_was_trained_on(target: Path, tmp_path: Path) -> None:
    context, notes = loaded(plan_of(target, tmp_path / "memory.json"))
    assert context == 8192
    assert "all that the model was trained on" in notes[0]


def test_a_draft_model_counts_and_gets_as_long_a_context(target: Path, draft: Path, tmp_path: Path, room: Room) -> None:
    room(need(target, 2048) + need(draft, 2048) + LEFT)
    plan = plan_of(target, tmp_path / "memory.json", str(draft))
    assert loaded(replace(plan, drafter=parse_drafter("off")))[0] > 2048
    asked = loader(plan)
    model = asked.target()
    drafting = asked.draft_model(str(draft), model)
    assert (model.context_size, drafting.model.context_size) == (2048, 2048)
    assert "target and draft take" in asked.notes[0]
    drafting.close()
    model.close()


def test_each_answer_that_is_given_at_once_has_a_cache(target: Path, tmp_path: Path, room: Room) -> None:
    whole = Need(model_info(target).shape, caches=3)
    room(whole.plan(1024).total + LEFT)
    plan = plan_of(target, tmp_path / "memory.json")
    assert (loaded(replace(plan, slots=3))[0], loaded(plan)[0] > 1024) == (1024, True)


@pytest.mark.parametrize(
    ("options", "how"),
    [
        ({"cache_type_k": "f32", "cache_type_v": "f32"}, {"cache_types": ("f32", "f32")}),
        ({"flash_attention": False}, {"flash": False}),
    ],
)
def test_how_the_model_is_run_counts(
    target: Path, tmp_path: Path, room: Room, options: dict[str, Any], how: dict[str, Any]
) -> None:
    room(need(target, 2048, **how) + LEFT)
    assert loaded(plan_of(target, tmp_path / "memory.json", **options))[0] == 2048


def test_what_was_measured_is_remembered_for_every_context_that_fits(
    target: Path, tmp_path: Path, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[int] = []

    def measure(model: LlamaModel) -> int:
        measured.append(model.context_size)
        return 4

    monkeypatch.setattr(app.engine.runtime.machine_measurements, "exact_width", measure)
    for context in (1024, 2048):
        room(need(target, context) + LEFT)
        asked = loader(plan_of(target, tmp_path / "memory.json"))
        model = asked.target()
        assert (model.context_size, asked.exact_width(model)) == (context, 4)
        model.close()
    assert measured == [1024]


def test_layers_without_a_cache_do_not_stand_in_its_way(
    tmp_path: Path, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    hybrid = write_hybrid(tmp_path / "hybrid.gguf", n_ctx=1 << 20)
    plan = plan_memory(model_info(hybrid).shape, 1 << 19)
    room(plan.total + LEFT)
    monkeypatch.setattr("models.llama.context.available_memory", lambda: plan.total)
    assert loaded(plan_of(hybrid, tmp_path / "memory.json"))[0] == 1 << 19


def test_the_gpus_memory_counts_where_all_layers_go_there(
    target: Path, tmp_path: Path, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = need(target, 2048, on_gpu=True) + LEFT
    card = Device("CUDA", "CUDA0", "a card", Kind.GPU, free, free)
    monkeypatch.setattr(app.engine.runtime.load, "gpus", lambda: (card,))
    room(0)
    context, notes = loaded(plan_of(target, tmp_path / "memory.json"))
    assert (context, "on the GPU" in notes[0]) == (2048, True)
    room(need(target, 512) + LEFT)
    assert loaded(plan_of(target, tmp_path / "memory.json", gpu_layers=0))[0] == 512


def test_where_none_fits_it_ends_in_5_with_the_figures(target: Path, tmp_path: Path, room: Room) -> None:
    room(LEFT)
    with pytest.raises(MemoryLimitError) as failure:
        loader(plan_of(target, tmp_path / "memory.json")).target()
    assert failure.value.exit_code == 5
    assert "weights" in failure.value.cause
    assert "0 MiB of 64 MiB free" in failure.value.cause


def test_a_context_beyond_what_the_model_was_trained_on_is_said(draft: Path, tmp_path: Path) -> None:
    def asked_for(tokens: int) -> tuple[int, list[str]]:
        return loaded(replace(plan_of(draft, tmp_path / "memory.json", context_size=tokens), fit_context=False))

    said = "Context 1,024: the model was trained on 512 tokens, and beyond those may make no sense."
    assert [asked_for(tokens) for tokens in (0, 512, 1024)] == [(512, []), (512, []), (1024, [said])]


def test_without_being_asked_nothing_changes(target: Path, tmp_path: Path, room: Room) -> None:
    room(0)
    plan = replace(plan_of(target, tmp_path / "memory.json", context_size=512), fit_context=False)
    assert loaded(plan) == (512, [])


def test_the_toy_has_a_context_of_its_own(tmp_path: Path, room: Room) -> None:
    room(0)
    asked = loader(replace(plan_of(Path("toy"), tmp_path / "memory.json"), model="toy"))
    assert (asked.target().context_size, asked.notes) == (512, [])


# --- flags and settings -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "tokens", "fits"), [("auto", 0, True), (4096, 4096, False), (0, 0, False)])
def test_the_flag_becomes_a_plan(asked: object, tokens: int, fits: bool) -> None:
    plan = read_plan("toy", {**FLAGS, "ctx_size": asked})
    assert (plan.options.context_size, plan.fit_context) == (tokens, fits)


@pytest.mark.parametrize("written", ["AUTO", " auto", "512", "0"])
@pytest.mark.parametrize("command", [("models", "info"), ("check",)])
def test_numbers_and_auto_are_taken(target: Path, tmp_path: Path, command: tuple[str, ...], written: str) -> None:
    done = localspec_here(*command, str(target), "-c", written, "--json", home=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("written", ["autos", "1.5", "", "-1", str(1 << 25)])
@pytest.mark.parametrize("command", [("run",), ("bench",), ("verify",), ("models", "info"), ("check",)])
def test_everything_else_is_refused(tmp_path: Path, command: tuple[str, ...], written: str) -> None:
    done = localspec_here(*command, "starter", "-c", written, home=tmp_path)
    assert done.returncode == 2
    assert "-c" in done.stderr
    assert written in done.stderr


@pytest.mark.parametrize("command", ["run", "bench", "verify"])
def test_a_settings_file_may_say_auto(tmp_path: Path, command: str) -> None:
    (tmp_path / "config.toml").write_text('ctx-size = "auto"\n')
    extra = {"LOCALSPEC_CONFIG": str(tmp_path / "config.toml")}
    shown = json.loads(localspec_here("config", "show", "--json", home=tmp_path, extra=extra).stdout)["settings"]
    assert {"command": command, "key": "ctx-size", "value": "auto", "origin": "user"} in shown
    (tmp_path / "config.toml").write_text('ctx-size = "most"\n')
    assert localspec_here("run", "toy", "x", home=tmp_path, extra=extra).returncode == 2


# --- models info and check --------------------------------------------------------------------------------------------


def test_models_info_shows_the_context_that_fits(target: Path, tmp_path: Path, room: Room) -> None:
    room(need(target, 1024) + LEFT)
    done = localspec_here("models", "info", str(target), "-c", "auto", "--json", home=tmp_path)
    plan = json.loads(done.stdout)["memory_plan"]
    assert (plan["context"], plan["fits"], plan["on_gpu"]) == (1024, True, False)
    assert "note: Context 1,024: the most that fits" in done.stderr
    room(LEFT)
    done = localspec_here("models", "info", str(target), "-c", "auto", home=tmp_path)
    assert (done.returncode, done.stdout) == (5, "")
    assert "weights" in done.stderr


def test_models_info_compares_with_the_gpus_memory(
    target: Path, tmp_path: Path, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.catalog.inspection, "gpus", lambda: (card,))
    room(1 << 40)
    needs = Need(model_info(target).shape).plan(8192, on_gpu=True).total
    for free, fits in ((needs, True), (needs - 1, False)):
        card = Device("CUDA", "CUDA0", "a card", Kind.GPU, free, free)
        done = localspec_here("models", "info", str(target), "--json", home=tmp_path)
        plan = json.loads(done.stdout)["memory_plan"]
        assert (plan["fits"], plan["on_gpu"], plan["total"], plan["available"]) == (fits, True, needs, free)
    assert " are free on the GPU." in localspec_here("models", "info", str(target), home=tmp_path).stdout


def test_check_takes_the_context_at_which_both_fit(target: Path, draft: Path, tmp_path: Path, room: Room) -> None:
    room(need(target, 1024) + need(draft, 1024) + LEFT)
    names = (str(target), str(draft))
    done = localspec_here("check", *names, "-c", "auto", "--json", home=tmp_path)
    assert (done.returncode, json.loads(done.stdout)["context"]) == (0, 1024)
    assert "target and draft take" in done.stderr


def test_check_shows_the_shortest_where_none_fits(
    target: Path, tmp_path: Path, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    room(LEFT)
    monkeypatch.setattr("app.catalog.checking.available_memory", lambda: 5)
    done = localspec_here("check", str(target), "-c", "auto", home=tmp_path)
    assert done.returncode == 5
    assert "Memory with a context of 256 tokens:" in done.stdout


def test_the_draft_model_that_needs_no_flag_counts(target: Path, draft: Path, tmp_path: Path, room: Room) -> None:
    taken = need(draft, TEXT_CONTEXT)
    room(need(target, 2048) + taken + LEFT)
    plan = plan_of(target, tmp_path / "memory.json", "auto")
    assert loaded(plan)[0] > 2048
    assert loaded(replace(plan, standing=str(draft)))[0] == 2048
    named = write_llama(tmp_path / "named.gguf", n_ctx=512, n_layer=1, seed=2)
    room(need(target, 1024) + need(named, 1024) + taken + LEFT)
    beside = replace(plan, standing=str(draft), drafter=parse_drafter(str(named)))
    assert loaded(beside)[0] == 1024
    alone = replace(beside, drafter=parse_drafter(f"model:{named}"))
    assert loaded(alone)[0] > 1024
    room(need(target, 2048) + taken + LEFT)
    for without in (
        replace(plan, standing=str(target)),
        replace(plan, standing=str(draft), drafter=parse_drafter("off")),
    ):
        assert loaded(without)[0] > 2048
