"""What `tune` stored is used by the loads it was measured for, and by no other; the user's flags win."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny_gguf import write_llama

import app.engine.costs.tuned
import models.llama.probe
from app.engine.costs.tuned import (
    Setting,
    Tuned,
    TunedDraft,
    apply_tuned,
    load_tuned,
    load_tuned_draft,
    measured_for,
    store_tuned,
    store_tuned_draft,
)
from models.llama.load import LlamaOptions

AUTO = LlamaOptions()
QUICK = Setting(3, 5, flash_attention=False, cache_type_k="f16", cache_type_v="f16", extra_buffers=False)
TUNED = Tuned(QUICK, 4, {1: 0.05, 2: 0.08, 64: 1.5}, 16, {16: 0.05, 1024: 0.07})
DRAFT = TunedDraft(QUICK, {16: 0.014, 512: 0.02}, beats_copies=True)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_llama(tmp_path / "tiny.gguf")


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "machine.json"


# --- applying ---------------------------------------------------------------------------------------------------------


def test_what_the_user_left_open_is_filled_in() -> None:
    filled = apply_tuned(LlamaOptions(context_size=99, max_rows=5), TUNED)
    assert filled == QUICK.options(LlamaOptions(context_size=99, max_rows=5))
    assert measured_for(filled, TUNED)


def test_without_a_record_nothing_changes() -> None:
    assert apply_tuned(AUTO, None) is AUTO


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"threads": 7}, {"threads": 7, "batch_threads": 0}),
        ({"batch_threads": 7}, {"threads": 3, "batch_threads": 7}),
        ({"threads": 7, "batch_threads": 6}, {"threads": 7, "batch_threads": 6}),
        ({"flash_attention": True}, {"flash_attention": True, "cache_type_k": "auto", "cache_type_v": "auto"}),
        ({"cache_type_k": "q8_0"}, {"flash_attention": None, "cache_type_k": "q8_0", "cache_type_v": "auto"}),
        ({"cache_type_v": "q8_0"}, {"flash_attention": None, "cache_type_k": "auto", "cache_type_v": "q8_0"}),
    ],
)
def test_a_flag_of_the_user_wins_with_what_belongs_to_it(given: dict[str, Any], expected: dict[str, Any]) -> None:
    filled = apply_tuned(replace(AUTO, **given), TUNED)
    assert {name: getattr(filled, name) for name in expected} == expected
    assert not measured_for(filled, TUNED)


@pytest.mark.parametrize(
    ("given", "same"), [((3, 5), True), ((0, 5), True), ((5, 5), False), ((3, 0), False), ((0, 2), False)]
)
def test_attention_comes_with_the_threads_that_it_was_seen_to_be_exact_with(given: tuple[int, int], same: bool) -> None:
    # A cache of f16 is exact with one thread; with two it may be so at no width, and drafts are then made all the same.
    filled = apply_tuned(LlamaOptions(threads=given[0], batch_threads=given[1]), TUNED)
    chosen = (filled.flash_attention, filled.cache_type_k, filled.cache_type_v)
    assert chosen == ((False, "f16", "f16") if same else (None, "auto", "auto"))
    assert filled.extra_buffers is False
    assert measured_for(filled, TUNED) is same


def test_a_rule_that_lets_tuned_values_win_is_noticed() -> None:
    asked = LlamaOptions(threads=7, flash_attention=True)
    overruled = TUNED.setting.options(asked)
    assert (overruled.threads, overruled.flash_attention) != (7, True)
    kept = apply_tuned(asked, TUNED)
    assert (kept.threads, kept.flash_attention) == (7, True)


def test_extra_buffers_that_crash_are_never_turned_on() -> None:
    fast = replace(TUNED, setting=replace(QUICK, extra_buffers=True))
    assert apply_tuned(LlamaOptions(extra_buffers=False), fast).extra_buffers is False


def test_one_number_of_threads_stands_for_both() -> None:
    even = replace(TUNED, setting=Setting(4, 4))
    assert measured_for(LlamaOptions(threads=4), even)
    assert not measured_for(LlamaOptions(threads=4, batch_threads=2), even)


# --- keeping ----------------------------------------------------------------------------------------------------------


def test_what_is_stored_is_found(model: Path, memory: Path) -> None:
    assert load_tuned(memory, model, AUTO) is None
    store_tuned(memory, model, AUTO, TUNED)
    store_tuned_draft(memory, model, AUTO, DRAFT)
    assert load_tuned(memory, model, LlamaOptions(threads=9)) == TUNED
    assert load_tuned_draft(memory, model, AUTO) == DRAFT
    assert DRAFT.step == 0.014


def test_threads_that_were_given_are_no_finding(model: Path, memory: Path) -> None:
    given, single = LlamaOptions(threads=1), replace(TUNED, setting=Setting(1, 1))
    store_tuned(memory, model, given, single)
    store_tuned_draft(memory, model, given, DRAFT)
    for options in (AUTO, LlamaOptions(threads=2)):
        assert load_tuned(memory, model, options, allow_rounding=True) is None
        assert load_tuned_draft(memory, model, options) is None
    found = load_tuned(memory, model, given)
    assert found == single
    assert measured_for(apply_tuned(given, found), single)
    assert load_tuned_draft(memory, model, given) == DRAFT


def test_what_was_measured_with_the_threads_that_are_given_comes_first(model: Path, memory: Path) -> None:
    given, single = LlamaOptions(threads=1), replace(TUNED, setting=Setting(1, 1))
    store_tuned(memory, model, AUTO, TUNED)
    store_tuned(memory, model, AUTO, TUNED, allow_rounding=True)
    store_tuned(memory, model, given, single)
    assert load_tuned(memory, model, given) == load_tuned(memory, model, given, allow_rounding=True) == single
    assert load_tuned(memory, model, AUTO) == load_tuned(memory, model, LlamaOptions(threads=3)) == TUNED


def test_a_draft_whose_copy_for_these_threads_is_gone_runs_as_without_them(
    model: Path, memory: Path, tmp_path: Path
) -> None:
    given, copy = LlamaOptions(threads=1), write_llama(tmp_path / "copy.gguf", seed=1)
    store_tuned_draft(memory, model, AUTO, DRAFT)
    store_tuned_draft(memory, model, given, replace(DRAFT, copy=copy))
    copy.unlink()
    assert load_tuned_draft(memory, model, given) == DRAFT


def test_a_choice_that_rounds_is_for_loads_that_allow_it(model: Path, memory: Path) -> None:
    store_tuned(memory, model, AUTO, TUNED, allow_rounding=True)
    assert load_tuned(memory, model, AUTO) is None
    assert load_tuned(memory, model, AUTO, allow_rounding=True) == TUNED
    exact = replace(TUNED, setting=Setting(2, 2))
    store_tuned(memory, model, AUTO, exact)
    assert load_tuned(memory, model, AUTO) == exact
    assert load_tuned(memory, model, AUTO, allow_rounding=True) == TUNED


def test_an_exact_choice_serves_a_load_that_allows_rounding_too(model: Path, memory: Path) -> None:
    store_tuned(memory, model, AUTO, TUNED)
    assert load_tuned(memory, model, AUTO, allow_rounding=True) == TUNED


Change = Callable[[Path, pytest.MonkeyPatch], object]
CHANGES: dict[str, Change] = {
    "another file": lambda model, _: write_llama(model, n_layer=1),
    "another build": lambda _, patch: patch.setattr(models.llama.probe, "VERSION", "0.0.0"),
    "another machine": lambda _, patch: patch.setattr(models.llama.probe, "machine_id", lambda: "another"),
    "another number of cores": lambda _, patch: patch.setattr(app.engine.costs.tuned, "physical_cores", lambda: 77),
    "a GPU": lambda _, patch: patch.setattr(app.engine.costs.tuned, "has_gpu", lambda _: True),
    "another meaning": lambda _, patch: patch.setattr(app.engine.costs.tuned, "TUNED_KEY", "tuned 9, "),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_measured_for_something_else_is_not_used(
    model: Path, memory: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    store_tuned(memory, model, AUTO, TUNED)
    store_tuned_draft(memory, model, AUTO, DRAFT)
    assert load_tuned(memory, model, AUTO) == TUNED
    CHANGES[change](model, monkeypatch)
    assert load_tuned(memory, model, AUTO) is None
    assert load_tuned_draft(memory, model, AUTO) is None


def test_layers_on_a_gpu_are_part_of_what_was_measured(
    model: Path, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.engine.costs.tuned, "has_gpu", lambda options: options.gpu_layers != 0)
    store_tuned(memory, model, LlamaOptions(gpu_layers=10), TUNED)
    assert load_tuned(memory, model, LlamaOptions(gpu_layers=20)) is None
    assert load_tuned(memory, model, LlamaOptions(gpu_layers=0)) is None
    assert load_tuned(memory, model, LlamaOptions(gpu_layers=10)) == TUNED


def test_a_copy_that_is_gone_or_changed_is_not_used(model: Path, memory: Path, tmp_path: Path) -> None:
    copy = write_llama(tmp_path / "copy.gguf", seed=1)
    tuned = replace(DRAFT, copy=copy)
    store_tuned_draft(memory, model, AUTO, tuned)
    assert load_tuned_draft(memory, model, AUTO) == tuned
    write_llama(copy, seed=1, n_layer=1)
    assert load_tuned_draft(memory, model, AUTO) is None
    copy.unlink()
    assert load_tuned_draft(memory, model, AUTO) is None


DAMAGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "nothing": lambda _: None,
    "no setting": lambda record: record.pop("setting"),
    "no threads": lambda record: record["setting"].update(threads=0),
    "threads in words": lambda record: record["setting"].update(threads="two"),
    "far too many threads": lambda record: record["setting"].update(batch_threads=10**9),
    "an unknown cache": lambda record: record["setting"].update(cache_type_k="q4_7"),
    "attention in words": lambda record: record["setting"].update(flash_attention="yes"),
    "a setting too many": lambda record: record["setting"].update(turbo=True),
    "no curve": lambda record: record.update(verify={}),
    "a curve without one": lambda record: record["verify"].pop("1"),
    "a free pass": lambda record: record["verify"].update({"2": 0}),
    "no number": lambda record: record["verify"].update({"2": "fast"}),
    "not finite": lambda record: record["verify"].update({"2": float("nan")}),
    "a width in words": lambda record: record["verify"].update({"two": 1.0}),
    "no exact width": lambda record: record.update(exact_width=0),
    "a curve that is a list": lambda record: record.update(verify=[1, 2]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_is_as_good_as_none(model: Path, memory: Path, damage: str) -> None:
    store_tuned(memory, model, AUTO, TUNED)
    ((key, record),) = json.loads(memory.read_text()).items()
    DAMAGES[damage](record)
    memory.write_text(json.dumps({key: record}))
    assert (load_tuned(memory, model, AUTO) == TUNED) is (damage == "nothing")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b"7"])
def test_a_damaged_file_is_as_good_as_none(model: Path, memory: Path, content: bytes) -> None:
    memory.parent.mkdir()
    memory.write_bytes(content)
    assert load_tuned(memory, model, AUTO) is None
    assert load_tuned_draft(memory, model, AUTO) is None
    store_tuned(memory, model, AUTO, TUNED)
    assert load_tuned(memory, model, AUTO) == TUNED
