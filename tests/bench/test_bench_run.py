"""A whole benchmark on the toy: what is loaded, how far arms may draft, and that temperatures share no memory."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from bench_fakes import COLD, PROMPTS, TimedToy, VirtualClock

import app.bench.measuring.benchmark
import app.engine.runtime.load
from app.bench.measuring.arm_names import ArmKit, ArmSpec, make_arms, parse_arms
from app.bench.measuring.arms import Arm, BenchPrompt, Skipped, Turn
from app.bench.measuring.benchmark import BenchRun, Conditions, measure_curve
from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.runtime.load import Loader, LoadPlan
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.errors import Cancelled
from models.llama.load import LlamaOptions
from models.toy import ToyModel

ARMS = ("auto", "lookup:3", "lookup:7", "suffix:3", "model:2", "model:6")


class Trial:
    """A loaded benchmark on the toy, and the arms that were made for it."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        draft: str = "toy",
        *,
        model: str = "toy",
        allow_rounding: bool = False,
    ) -> None:
        self.made: list[list[Arm]] = []
        monkeypatch.setattr(app.bench.measuring.benchmark, "make_arms", self._make)
        self.abort = AbortFlag()
        plan = LoadPlan(model, parse_drafter(draft), LlamaOptions(), Path("never used"))
        clock = time.perf_counter
        specs = parse_arms(ARMS if draft == "toy" else ["auto"], 3, has_draft=draft == "toy")
        self.run = BenchRun(Loader(plan, self.abort, clock, lambda _, __: None), clock, specs)
        self.conditions: Conditions = self.run.load(allow_rounding=allow_rounding)

    def _make(self, specs: Sequence[ArmSpec], kit: ArmKit) -> list[Arm]:
        self.made.append(make_arms(specs, kit))
        return self.made[-1]

    def turns(self, *temperatures: float) -> list[Turn]:
        samplings = [replace(COLD, temperature=temperature) for temperature in temperatures]
        events = list(self.run.run(PROMPTS, samplings, 40, lambda _, __: None))
        self.run.close()
        return [event for event in events if not isinstance(event, Skipped)]


def test_all_arms_give_the_plain_text_at_every_temperature(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Trial(monkeypatch).turns(0, 0.7)
    assert [turn[0].temperature for turn in turns] == [0] * 3 + [0.7] * 3
    assert [answer.fork for turn in turns for answer in turn] == [None] * 6 * 7
    assert all(len(answer.tokens) > 10 for turn in turns for answer in turn)
    drafted = [answer.stats.drafted for turn in turns for answer in turn if answer.arm.startswith("model")]
    assert all(drafted)


def test_auto_knows_how_often_the_models_agree_and_what_fills_a_infill(monkeypatch: pytest.MonkeyPatch) -> None:
    def auto(draft: str) -> AdaptiveController:
        trial = Trial(monkeypatch, draft, model="toy-fim")
        prompts = [PROMPTS[0], BenchPrompt("hole", "fim", prefix="def f():", suffix="return")]
        infills = []
        for turn in trial.run.run(prompts, [COLD], 20, lambda _, __: None):
            assert not isinstance(turn, Skipped)
            (controller,) = [arm.controller for arm in trial.made[-1] if isinstance(arm.controller, AdaptiveController)]
            infills.append(controller.settings.infill)
        assert infills == [False, True]
        trial.run.close()
        return controller

    name = f"model:{ToyModel().name}"
    assert auto("toy").acceptance._lasting[name, 0].weight > 8
    assert auto("auto").acceptance._lasting[name, 0].weight == 0


def test_each_temperature_has_arms_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = Trial(monkeypatch)
    assert len(trial.made) == 1, "tried when loading, and closed"
    trial.turns(0, 0.7)
    assert len(trial.made) == 3
    drafters = [arm.drafter for arms in trial.made for arm in arms]
    controllers = [arm.controller for arms in trial.made for arm in arms]
    assert len(set(map(id, drafters))) == len(set(map(id, controllers))) == 3 * 7


@pytest.mark.parametrize(
    ("width", "allow_rounding", "longest"), [(3, False, 2), (3, True, 7), (9, False, 7), (1, False, 7)]
)
def test_every_arm_keeps_to_what_is_exact(
    monkeypatch: pytest.MonkeyPatch, width: int, allow_rounding: bool, longest: int
) -> None:
    monkeypatch.setattr(app.engine.runtime.load, "exact_width", lambda _: width)
    trial = Trial(monkeypatch, allow_rounding=allow_rounding)
    assert trial.conditions.exact_draft == width - 1
    oracle = trial.conditions.oracle
    assert oracle is not None
    assert oracle.widest == trial.conditions.longest + 1
    assert longest_drafts(trial)["fixed"] == longest
    assert longest_drafts(trial)["any"] <= trial.conditions.longest


@pytest.mark.parametrize(("exact", "allow_rounding", "most"), [(True, False, 8), (False, False, 0), (False, True, 8)])
def test_second_guesses_are_checked_where_a_chat_would(
    monkeypatch: pytest.MonkeyPatch, exact: bool, allow_rounding: bool, most: int
) -> None:
    monkeypatch.setattr(app.engine.runtime.load, "exact_branches", lambda _: exact)
    trial = Trial(monkeypatch, allow_rounding=allow_rounding)
    (auto,) = (arm.controller for arm in trial.made[0] if arm.name == "auto")
    assert isinstance(auto, AdaptiveController)
    assert auto.settings.max_siblings == most
    trial.run.close()


def longest_drafts(trial: Trial) -> dict[str, int]:
    answers = [answer for turn in trial.turns(0) for answer in turn]
    fixed = [len(answer.stats.drafted_at) for answer in answers if ":" in answer.arm]
    return {"fixed": max(fixed), "any": max(len(answer.stats.drafted_at) for answer in answers)}


def test_an_arm_that_ignores_what_is_exact_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.engine.runtime.load, "exact_width", lambda _: 3)
    monkeypatch.setattr(ArmKit, "length", lambda _, wanted: wanted)
    assert longest_drafts(Trial(monkeypatch))["fixed"] == 7


def test_a_stop_ends_it_between_two_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = Trial(monkeypatch)
    events = trial.run.run(PROMPTS, [COLD], 40, lambda _, __: None)
    assert next(events)
    trial.abort.set()
    with pytest.raises(Cancelled):
        next(events)
    trial.run.close()


def test_the_curve_is_measured_some_way_into_a_text_and_leaves_nothing() -> None:
    clock = VirtualClock()
    target = TimedToy(clock, {1: 1.0, 4: 2.0})
    curve = measure_curve(target, clock)
    assert curve is not None
    assert (curve.seconds(1), curve.seconds(4)) == (pytest.approx(1), pytest.approx(2))
    assert target.length == 0


def test_a_memory_that_cannot_go_back_has_no_curve() -> None:
    clock = VirtualClock()
    assert measure_curve(TimedToy(clock, rewind_limit=0), clock) is None
