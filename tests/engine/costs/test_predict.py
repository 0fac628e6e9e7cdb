"""The predicted speed-up: its formula, what is known of this machine, and the bytes that a token reads."""

import json
from pathlib import Path

import pytest
from raw_gguf import VOCABULARY, Weights, write_raw

from app.engine.constants import ACCEPTANCE
from app.engine.costs.known_costs import KnownCosts, known_draft, known_target
from app.engine.costs.speedup_for_files import foresee, foresee_file
from app.engine.costs.speedup_model import Costs, Gain, assumed_verify, best_gain, expected_emitted, predict
from app.engine.costs.tuned import Setting, Tuned, TunedDraft, store_tuned, store_tuned_draft
from models.gguf.bytes_read import bytes_a_token
from models.gguf.header import read_model
from models.llama.load import LlamaOptions
from models.llama.probe import identity
from models.system.machine import physical_cores
from models.system.remembered import Remembered

AVX_512 = {1: 1.0, 2: 1.41, 3: 1.8, 4: 1.5, 5: 1.9, 8: 2.7}


def test_a_round_emits_the_targets_token_and_the_guesses_before_the_first_wrong_one() -> None:
    assert expected_emitted(0.5, 0) == 1
    assert expected_emitted(0.5, 2) == pytest.approx((1 - 0.5**3) / (1 - 0.5))
    assert expected_emitted(1.0, 7) == 8
    assert expected_emitted(0.0, 7) == 1


def test_the_best_length_is_found_among_the_widths_whose_cost_is_known() -> None:
    gain = best_gain(0.97, Costs(AVX_512, 0.4))
    assert gain.length == 3
    assert gain.speed_up == pytest.approx((1 + 0.97 + 0.97**2 + 0.97**3) / (1.5 + 3 * 0.4))
    # Three rows cost more than four there: no draft of two is ever best.
    assert {best_gain(share / 100, Costs(AVX_512, 0.1)).length for share in range(101)} <= {0, 1, 3, 4, 7}


def test_what_does_not_pay_is_not_drafted() -> None:
    assert best_gain(0.97, Costs({1: 1, 2: 2, 3: 3}, 0.01)) == Gain(0, 1.0)
    assert best_gain(0.97, Costs({1: 1}, 0.01)) == Gain(0, 1.0)
    assert not predict(1.0, AVX_512).pays
    assert predict(0.05, AVX_512).pays


def test_measured_passes_leave_one_figure_and_assumed_ones_a_range() -> None:
    measured, assumed = predict(0.3, AVX_512), predict(0.3, None)
    assert all(case.least == case.most for case in measured.cases)
    assert assumed.least == 1.0 < assumed.most
    assert [case.acceptance for case in measured.cases] == sorted(ACCEPTANCE.values())
    assert assumed.lengths == (0, max(case.most.length for case in assumed.cases))
    assert assumed_verify(0.25)[5] == 2


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_raw(tmp_path / "m.gguf")


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    return tmp_path / "machine.json"


def test_nothing_is_known_of_a_model_that_never_ran(memory: Path, file: Path, tmp_path: Path) -> None:
    assert known_target(memory, file) is known_draft(memory, file) is None
    other = write_raw(tmp_path / "other.gguf")
    Remembered(memory).put(f"curve LlamaOptions() {identity(other)}", {"1": 1.0, "2": 1.5})
    assert known_target(memory, file) is None
    assert known_target(memory, other) == KnownCosts({1: 1.0, 2: 1.5}, None)


def test_the_quickest_of_several_measurements_counts_with_its_own_exact_width(memory: Path, file: Path) -> None:
    known = Remembered(memory)
    # Of some caches the width was looked at deep in a text too.
    for name, looked, first, widest in (("slow", "32", 3.0, 2), ("quick", "32 deep", 1.0, 4), ("busy", "32", 2.0, 8)):
        known.put(f"curve {name} {identity(file)}", {"1": first, "2": 4.0, "4": 5.0, "8": 6.0})
        known.put(f"exact width {looked} {name} {identity(file)}", widest)
    found = known_target(memory, file)
    assert found == KnownCosts({1: 1.0, 2: 4.0, 4: 5.0, 8: 6.0}, 4)
    assert found.verify == {1: 1.0, 2: 4.0, 4: 5.0}


def test_a_device_on_which_no_wider_pass_is_exact_drafts_all_the_same() -> None:
    assert KnownCosts({1: 2.0, 8: 4.0}, 1).verify == {1: 1.0, 8: 2.0}


def test_what_tune_stored_is_found_and_not_what_was_chosen_with_rounding(memory: Path, file: Path) -> None:
    tuned = Tuned(Setting(1, 1), 3, {1: 0.5, 2: 0.6, 3: 0.9, 4: 1.0}, 16, {16: 0.5, 1024: 0.8})
    store_tuned(memory, file, LlamaOptions(), tuned, allow_rounding=True)
    assert known_target(memory, file) is None
    store_tuned(memory, file, LlamaOptions(), tuned)
    assert known_target(memory, file) == KnownCosts({1: 0.5, 2: 0.6, 3: 0.9, 4: 1.0}, 3)


def test_the_step_of_a_draft_model_makes_no_target_of_it(memory: Path, file: Path) -> None:
    store_tuned_draft(memory, file, LlamaOptions(), TunedDraft(Setting(1, 1), {1024: 0.3, 16: 0.2}))
    assert known_draft(memory, file) == KnownCosts({1: 0.2}, None)
    assert known_target(memory, file) is None


@pytest.mark.parametrize(
    "record",
    [{"1": 0.0, "2": 1}, {"1": True, "2": 1}, {"1": "1", "2": 1}, {"2": 1.0}, [1, 2], {"one": 1, "2": 1}, {"1": 1e300}],
)
def test_a_damaged_record_is_not_found(memory: Path, file: Path, record: object) -> None:
    memory.write_text(json.dumps({f"curve x {identity(file)}": record}))
    assert known_target(memory, file) is None
    memory.write_text("[")
    assert known_draft(memory, file) is None


def test_seconds_are_compared_with_seconds_and_bytes_with_bytes(memory: Path, file: Path) -> None:
    target = KnownCosts({1: 2.0, 2: 2.5}, None)
    assert foresee(target, 100, 30).prediction.step == 0.3
    assert foresee(target, 100, 30, KnownCosts({1: 1.0}, None)).prediction.step == 0.5
    Remembered(memory).put(f"curve x {identity(file)}", {"1": 1.0})
    assert foresee_file(memory, target, 100, file, 30).step_measured
    unmeasured = foresee_file(memory, None, 100, file, 30)
    assert (unmeasured.step_measured, unmeasured.prediction.step) == (False, 0.3)


def read_by_a_token(path: Path, names: dict[str, tuple[int, ...]], **values: object) -> float:
    """Return the bytes, for tensors of four-byte numbers that are all zeros."""
    tensors = [Weights(name, shape, 0, 0) for name, shape in names.items()]
    path = write_raw(path, {**VOCABULARY, **values}, tensors=tensors, data=1 << 12)  # type: ignore[dict-item]
    return bytes_a_token(read_model(path))


def test_a_token_reads_one_row_of_its_embeddings_but_all_of_a_table_that_is_the_output_too(tmp_path: Path) -> None:
    rest = {"blk.0.attn_q.weight": (4, 4), "blk.0.attn_norm.weight": (4,)}
    tied = {"token_embd.weight": (4, 8), **rest}
    assert read_by_a_token(tmp_path / "tied.gguf", tied) == (32 + 16 + 4) * 4
    assert read_by_a_token(tmp_path / "own.gguf", {**tied, "output.weight": (4, 8)}) == (32 + 16 + 4) * 4
    looked_up = {**tied, "per_layer_token_embd.weight": (64, 8)}
    assert read_by_a_token(tmp_path / "looked.gguf", looked_up) == (32 + 16 + 4) * 4


def test_a_token_reads_the_experts_that_it_uses(tmp_path: Path) -> None:
    tensors = {"token_embd.weight": (4, 8), "output.weight": (4, 8), "blk.0.ffn_up_exps.weight": (4, 4, 8)}
    sizes = {"llama.expert_count": 8, "llama.expert_used_count": 2}
    assert read_by_a_token(tmp_path / "mixed.gguf", tensors, **sizes) == (32 + 128 / 4) * 4
    assert read_by_a_token(tmp_path / "silent.gguf", tensors) == (32 + 128) * 4


def test_records_of_other_flags_and_other_cores_do_not_count_where_there_are_usual_ones(
    memory: Path, file: Path
) -> None:
    known, cores = Remembered(memory), physical_cores()
    places = {
        f"Options(flash_attention=None) {cores} cores": (1.0, 3),
        f"Options(flash_attention=False) {cores} cores": (0.9, 1),
        f"Options(flash_attention=None) {cores + 1} cores": (0.5, 1),
    }
    for place, (first, widest) in places.items():
        known.put(f"curve {place} {identity(file)}", {"1": first, "2": 2.0})
        known.put(f"exact width 32 {place} {identity(file)}", widest)
    assert known_target(memory, file) == KnownCosts({1: 1.0, 2: 2.0}, 3)


def test_a_tuned_copy_that_was_deleted_says_nothing_of_the_draft_model(
    memory: Path, file: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(b"GGUF")
    store_tuned_draft(memory, file, LlamaOptions(), TunedDraft(Setting(2, 2), {0: 0.2}, copy))
    assert known_draft(memory, file) == KnownCosts({1: 0.2}, None)
    copy.unlink()
    assert known_draft(memory, file) is None
