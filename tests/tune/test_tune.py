"""Tuning in virtual time: a model whose passes cost what a test says, on a clock that only they move."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from raw_gguf import write_raw

from app.engine.costs.timer import Timer, measured_cost
from app.engine.costs.tuned import Setting
from app.tune.measuring import threads as tune_threads
from app.tune.measuring.draft_model import KINDS, DraftTuner, clear_unfinished
from app.tune.measuring.target import CURVE, Tuner, affordable, measure_curve
from app.tune.measuring.threads import ThreadPrice, quickest_threads, spread, starved
from models.base import Logits, RewindSupport
from models.errors import Cancelled, LocalspecError
from models.llama.exact_width import WIDEST
from models.llama.load import LlamaOptions
from models.toy import ToyModel, ToyVocab

Cost = Callable[[LlamaOptions, int, int], float]
"""Seconds of a pass, from options, width and tokens in the cache before it."""
SEVERAL = LlamaOptions(threads=4)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def usual(options: LlamaOptions, width: int, depth: int) -> float:
    """Cost less without flash attention, the more the deeper; a little more with weights as they are."""
    attention = depth * (1e-5 if options.flash_attention is False else 3e-5)
    return (0.01 + attention) * (1 + 0.5 * (width - 1)) * (1.0 if options.extra_buffers else 1.2)


class CostedModel:
    """A model that says nothing, takes its time, and rounds passes wider than `exact` says."""

    name = "priced"
    description = "llama 1B Q8_0"
    chat_template = None
    cache_types = ("q8_0", "q8_0")

    def __init__(self, clock: Clock, options: LlamaOptions, cost: Cost, exact: Cost, broken_after: int) -> None:
        self.vocab = ToyVocab()
        self.rewind_support = RewindSupport(None, "attention cache")
        self._clock, self._cost, self._exact, self._left = clock, cost, exact, broken_after
        self.closed = False
        # Left open, the layout of its weights is llama.cpp's.
        self._extra_buffers = options.extra_buffers is not False
        self.reopen(options)

    def reopen(self, options: LlamaOptions) -> None:
        self.options = replace(options, extra_buffers=self._extra_buffers)
        self.context_size, self.batch_size, self.max_rows = options.context_size, 65, options.max_rows
        self.length = 0

    def use_threads(self, threads: int, batch_threads: int) -> None:
        self.options = replace(self.options, threads=threads, batch_threads=batch_threads)

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:  # noqa: ARG002
        self._left -= 1
        if self._left == 0:
            raise Cancelled("Stopped.")
        self._clock.now += self._cost(self.options, len(tokens), self.length)
        rounded = len(tokens) > self._exact(self.options, len(tokens), self.length)
        self.length += len(tokens)
        return np.full((rows, self.vocab.size), float(rounded), np.float32)

    def rewind(self, length: int) -> None:
        self.length = length

    def can_rewind(self, length: int) -> bool:
        return length <= self.length

    def close(self) -> None:
        self.closed = True


def tuner(
    seconds: float = 600.0,
    cost: Cost = usual,
    exact: Cost = lambda *_: 3,
    *,
    allow_rounding: bool = False,
    broken_after: int = -1,
    opened: list[CostedModel] | None = None,
) -> tuple[Tuner, Clock]:
    clock = Clock()

    def open_model(_: Path, options: LlamaOptions) -> CostedModel:
        model = CostedModel(clock, options, cost, exact, broken_after)
        if opened is not None:
            opened.append(model)
        return model

    return Tuner(Timer(clock, seconds), open_model, lambda _: None, allow_rounding=allow_rounding), clock


def f16_rounds(options: LlamaOptions, _: int, __: int) -> float:
    return 1 if options.flash_attention is False else 3


def test_everything_is_measured_and_the_quickest_exact_setting_is_taken() -> None:
    tune, _ = tuner()
    tune.run(Path("model.gguf"), SEVERAL)
    found = tune.findings
    assert found.tuned is not None
    assert (found.tuned.setting.flash_attention, found.tuned.setting.cache_type_v) == (False, "f16")
    assert found.tuned.setting.extra_buffers is True
    assert (found.tuned.exact_width, found.tuned.depth, sorted(found.tuned.one_token)) == (3, 16, [16, 1024])
    assert sorted(found.tuned.verify) == sorted(CURVE)
    assert found.tuned.verify[8] / found.tuned.verify[1] == pytest.approx(4.5)
    assert [len(row.seconds) for row in found.rows] == [2, 2, 1]
    assert found.notes == []


@pytest.mark.parametrize("allow_rounding", [False, True])
def test_a_setting_that_rounds_is_taken_only_where_that_is_allowed(allow_rounding: bool) -> None:
    tune, _ = tuner(exact=f16_rounds, allow_rounding=allow_rounding)
    tune.run(Path("model.gguf"), SEVERAL)
    assert tune.findings.tuned is not None
    assert tune.findings.tuned.setting.flash_attention is (False if allow_rounding else None)
    assert tune.findings.tuned.exact_width == (1 if allow_rounding else 3)


def test_exactness_that_ends_deep_in_a_text_counts() -> None:
    tune, _ = tuner(exact=lambda options, _, depth: 1 if options.flash_attention is False and depth > 256 else 3)
    tune.run(Path("model.gguf"), SEVERAL)
    assert tune.findings.tuned is not None
    assert tune.findings.tuned.setting.flash_attention is None


def test_weights_that_are_not_repacked_are_taken_where_they_are_quicker() -> None:
    opened: list[CostedModel] = []
    tune, _ = tuner(cost=lambda options, width, _: width * (0.02 if options.extra_buffers else 0.01), opened=opened)
    tune.run(Path("model.gguf"), SEVERAL)
    assert tune.findings.tuned is not None
    assert tune.findings.tuned.setting.extra_buffers is False
    assert tune.findings.tuned.verify[64] == pytest.approx(0.64)
    assert [(model.options.extra_buffers, model.closed) for model in opened] == [(True, True), (False, True)]


def test_weights_that_are_not_repacked_and_slower_are_not_taken_for_never_having_been_deep_in_a_text() -> None:
    def gains_most_at_the_start(options: LlamaOptions, width: int, depth: int) -> float:
        if not options.extra_buffers:
            return 0.006 * width
        if options.flash_attention is None:
            return 0.010 * width
        return (0.005 if depth < 256 else 0.009) * width

    tune, _ = tuner(cost=gains_most_at_the_start, allow_rounding=True)
    tune.run(Path("model.gguf"), SEVERAL)
    assert tune.findings.tuned is not None
    assert tune.findings.tuned.setting.extra_buffers is True


def test_weights_that_crash_when_repacked_are_not_tried_so() -> None:
    opened: list[CostedModel] = []
    tune, _ = tuner(opened=opened)
    tune.run(Path("model.gguf"), LlamaOptions(threads=4, extra_buffers=False))
    assert [model.options.extra_buffers for model in opened] == [False]


@pytest.mark.parametrize("seconds", [5, 20, 60])
def test_the_time_is_kept_and_what_was_left_out_is_said(seconds: float) -> None:
    slow: Cost = lambda *arguments: 10 * usual(*arguments)  # noqa: E731
    tune, clock = tuner(seconds, slow)
    tune.run(Path("model.gguf"), SEVERAL)
    assert tune.findings.tuned is not None
    assert clock.now < max(1.2 * seconds, 30), "a few passes of each kind are made in any case"
    assert {1, 2, 3, 4} <= set(tune.findings.tuned.verify)
    if seconds == 5:
        assert len(tune.findings.notes) == 2
        assert all("--seconds" in note for note in tune.findings.notes)


@pytest.mark.parametrize("passes", [1, 5, 40, 150])
def test_a_run_that_is_stopped_has_nothing_to_store_and_frees_its_model(passes: int) -> None:
    opened: list[CostedModel] = []
    tune, _ = tuner(broken_after=passes, opened=opened)
    with pytest.raises(Cancelled):
        tune.run(Path("model.gguf"), SEVERAL)
    assert tune.findings.tuned is None
    assert all(model.closed for model in opened)
    assert bool(tune.findings.rows) == (passes > 5)


def test_cores_that_other_programs_hold_make_a_run_not_worth_storing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune_threads, "physical_cores", lambda: 2)
    monkeypatch.setattr("models.llama.load.physical_cores", lambda: 2)
    tune, _ = tuner(cost=lambda options, width, _: 0.01 * width if options.threads == 1 else 3.0)
    tune.run(Path("model.gguf"), LlamaOptions())
    assert (tune.findings.starved, tune.findings.tuned) == (True, None)


def test_fewer_threads_are_taken_unless_they_are_less_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune_threads, "physical_cores", lambda: 4)
    monkeypatch.setattr("models.llama.load.physical_cores", lambda: 4)
    cost: Cost = lambda options, width, _: width * {1: 0.02, 2: 0.01, 3: 0.012, 4: 0.013}[options.threads]  # noqa: E731
    for narrower, expected in ((3, 2), (1, 4)):
        tune, _ = tuner(cost=cost, exact=lambda options, *_, few=narrower: few if options.threads == 2 else 3)
        tune.run(Path("model.gguf"), LlamaOptions())
        assert tune.findings.tuned is not None
        assert tune.findings.tuned.setting.threads == expected


def test_prices_leave_out_the_passes_that_waited() -> None:
    assert measured_cost([5.0]) == 5.0
    assert measured_cost([5.0, 1.0, 9.0]) == 1.0
    assert measured_cost([9.0, 1.0, 2.0, 9.0, 9.0]) == 2.0


def test_a_busy_machine_is_noticed() -> None:
    for waits, busy in ((0.0, False), (1.0, True)):
        clock, calls = Clock(), iter(range(1000))
        model = CostedModel(
            clock,
            LlamaOptions(context_size=256),
            lambda *_, waits=waits, calls=calls: 0.01 + waits * (next(calls) % 2 == 0),
            lambda *_: 9,
            -1,
        )
        timer = Timer(clock, 60)
        timer.measured_costs(model, (1,), 60)
        assert timer.busy is busy


def test_threads_are_chosen_for_narrow_and_wide_passes_apart() -> None:
    measured_costs = [ThreadPrice(1, 2.0, 9.0), ThreadPrice(2, 1.0, 5.0), ThreadPrice(4, 1.02, 3.0)]
    assert quickest_threads(measured_costs, Setting(4, 4)) == Setting(4, 4), "2 % is noise"
    measured_costs[1] = ThreadPrice(2, 0.9, 5.0)
    assert quickest_threads(measured_costs, Setting(4, 4)) == Setting(2, 4)
    assert not starved(measured_costs)
    assert starved([ThreadPrice(1, 0.1, 1.0), ThreadPrice(2, 6.0, 6.0)])
    assert not starved([ThreadPrice(1, 0.0001, None), ThreadPrice(2, 0.001, None)]), "tiny models only wait for threads"


def test_thread_counts_are_all_or_spread_with_the_last_one_there() -> None:
    assert [spread(cores) for cores in (1, 2, 8)] == [[1], [1, 2], [1, 2, 3, 4, 5, 6, 7, 8]]
    assert len(spread(64)) <= 9
    assert spread(64)[-1] == 64


def test_the_first_widths_of_a_curve_are_always_there() -> None:
    known = {1: 1.0, 2: 1.5, 4: 2.0, 8: 4.0}
    assert affordable(known, 0.0) == [1, 2, 3, 4]
    assert affordable(known, 19.0) == [1, 2, 3, 4, 8, 16]
    assert affordable(known, 1e9) == sorted(CURVE)


def test_the_toy_has_a_curve() -> None:
    clock = Clock()
    seconds, exact_width = measure_curve(ToyModel(), Timer(clock, 1.0))
    assert (min(seconds), max(seconds), exact_width) == (1, 16, min(WIDEST, ToyModel().max_rows))


# --- draft models -----------------------------------------------------------------------------------------------------


def draft_tuner(
    folder: Path,
    *,
    keep: bool,
    copy_speed: float = 0.5,
    seconds: float = 600.0,
    fails: bool = False,
    speeds: Mapping[str, float] | None = None,
) -> DraftTuner:
    clock = Clock()
    speeds = speeds or dict.fromkeys(KINDS, copy_speed)

    def cost(speed: float) -> Cost:
        return lambda options, width, depth: speed * usual(options, width, depth)

    def open_model(path: Path, options: LlamaOptions) -> CostedModel:
        return CostedModel(clock, options, cost(speeds.get(kind_of(path), 1.0)), lambda *_: 1, -1)

    def requantise(_: Path, destination: Path, kind: str) -> None:
        if fails:
            raise LocalspecError("no room")
        write_raw(destination, {"general.architecture": "llama", "general.name": f"copy {kind}."})

    return DraftTuner(Timer(clock, seconds), open_model, lambda _: None, requantise, folder, keep=keep)


def kind_of(path: Path) -> str:
    """Return the quantisation that a written copy names; "" for another file."""
    data = path.read_bytes()
    return next((kind for kind in KINDS if f"copy {kind}.".encode() in data), "")


@pytest.fixture
def draft(tmp_path: Path) -> Path:
    path = tmp_path / "draft.gguf"
    path.write_text("draft")
    return path


def copies(folder: Path) -> list[str]:
    return sorted(place.name for place in folder.iterdir() if place.suffix != ".sha256") if folder.exists() else []


def test_a_draft_takes_the_quickest_attention_exact_or_not(tmp_path: Path, draft: Path) -> None:
    tune = draft_tuner(tmp_path / "drafts", keep=False, copy_speed=1.0)
    tune.run(draft, SEVERAL, 1024)
    assert tune.findings.tuned is not None
    assert (tune.findings.tuned.setting.flash_attention, tune.findings.tuned.copy) == (False, None)
    assert sorted(tune.findings.tuned.one_token) == [16, 1024]
    assert copies(tmp_path / "drafts") == []


def test_a_quicker_copy_is_named_but_not_kept_unless_asked(tmp_path: Path, draft: Path) -> None:
    tune = draft_tuner(tmp_path / "drafts", keep=False)
    tune.run(draft, SEVERAL, 0)
    assert tune.findings.tuned is not None
    assert (tune.findings.tuned.copy, tune.findings.tuned.beats_copies) == (None, False)
    assert "--keep" in tune.findings.notes[0]
    assert "50% faster" in tune.findings.notes[0]
    assert copies(tmp_path / "drafts") == []


@pytest.mark.parametrize(("kind", "written"), [("Q4_0", True), ("IQ4_NL", False)])
def test_of_a_copy_that_loads_write_anyway_it_says_so(
    tmp_path: Path, draft: Path, monkeypatch: pytest.MonkeyPatch, kind: str, written: bool
) -> None:
    monkeypatch.setattr("app.engine.costs.draft_copy._is_worth_it", lambda _: True)
    tune = draft_tuner(tmp_path / "drafts", keep=False, speeds={**dict.fromkeys(KINDS, 1.0), kind: 0.5})
    tune.run(draft, SEVERAL, 0)
    (note,) = tune.findings.notes
    assert f"in {kind}" in note
    assert ("the next run that drafts with it, or --keep, puts it" in note) is written
    assert ("faster: --keep puts it" in note) is not written


def test_a_quicker_copy_is_kept_where_asked_one_alone_and_used_again(tmp_path: Path, draft: Path) -> None:
    for _ in range(2):
        tune = draft_tuner(tmp_path / "drafts", keep=True)
        tune.run(draft, SEVERAL, 0)
        tune.forget_replaced()
        assert tune.findings.tuned is not None
        assert tune.findings.tuned.copy is not None
        assert copies(tmp_path / "drafts") == [tune.findings.tuned.copy.name]
        assert tune.findings.tuned.step == pytest.approx(tune.findings.rows[0].one_token[16] / 2, rel=0.1)


def test_a_copy_that_is_stored_stays_until_another_choice_is(tmp_path: Path, draft: Path) -> None:
    draft_tuner(tmp_path / "drafts", keep=True).run(draft, SEVERAL, 0)
    there = copies(tmp_path / "drafts")
    again = draft_tuner(tmp_path / "drafts", keep=True, copy_speed=1.0)
    again.run(draft, SEVERAL, 0)
    assert copies(tmp_path / "drafts") == there, "what was stored names it, and this run may store nothing"
    used, *others = (tmp_path / "drafts" / name for name in there)
    again.forget_replaced(used)
    assert copies(tmp_path / "drafts") == [used.name], "runs with other threads use it"
    again.forget_replaced()
    assert (copies(tmp_path / "drafts"), len(others)) == ([], len(KINDS) - 1)


def test_a_copy_that_is_hardly_quicker_is_not_kept(tmp_path: Path, draft: Path) -> None:
    tune = draft_tuner(tmp_path / "drafts", keep=True, copy_speed=0.97)
    tune.run(draft, SEVERAL, 0)
    assert tune.findings.tuned is not None
    assert (tune.findings.tuned.copy, copies(tmp_path / "drafts")) == (None, [])
    assert tune.findings.tuned.beats_copies


@pytest.mark.parametrize(
    ("speeds", "chosen"),
    [
        ((0.62, 0.61, 0.60), "Q4_K_M"),
        ((0.70, 0.62, 0.60), "IQ4_NL"),
        ((0.70, 0.65, 0.60), "Q4_0"),
        ((0.98, 0.97, 0.96), None),
    ],
)
def test_of_copies_as_quick_as_each_other_the_one_that_loses_least_is_taken(
    tmp_path: Path, draft: Path, speeds: tuple[float, ...], chosen: str | None
) -> None:
    tune = draft_tuner(tmp_path / "drafts", keep=True, speeds=dict(zip(KINDS, speeds, strict=True)))
    tune.run(draft, SEVERAL, 0)
    tune.forget_replaced()
    assert tune.findings.tuned is not None
    kept = tune.findings.tuned.copy
    assert (kind_of(kept) if kept else None) == chosen
    assert copies(tmp_path / "drafts") == ([kept.name] if kept else [])


def test_a_copy_that_can_not_be_made_is_said_and_the_rest_stands(tmp_path: Path, draft: Path) -> None:
    tune = draft_tuner(tmp_path / "drafts", keep=True, fails=True)
    tune.run(draft, SEVERAL, 0)
    assert tune.findings.tuned is not None
    assert not tune.findings.tuned.beats_copies
    assert "no room" in tune.findings.notes[0]
    assert copies(tmp_path / "drafts") == []


def test_what_a_killed_run_left_is_cleared_once_it_is_old(tmp_path: Path) -> None:
    import os

    for name in ("unfinished-old", "unfinished-new"):
        (tmp_path / name).mkdir()
    (tmp_path / "kept.gguf").touch()
    os.utime(tmp_path / "unfinished-old", (0, 0))
    clear_unfinished(tmp_path)
    assert copies(tmp_path) == ["kept.gguf", "unfinished-new"]
