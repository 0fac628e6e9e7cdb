"""--strict: the places that the check covers, the faults that it must find, the chosen setting, and the note."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import FakeClock

import app.engine.runtime.load
import app.engine.runtime.machine_measurements
import models.llama.strict
from app.engine.conversation.messages import Ready, Said
from app.engine.costs.exact_settings import check_now, checked_note
from app.engine.decoding.request import Question
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.worker import Worker
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.base import Logits
from models.errors import LocalspecError
from models.llama.exact_width import exact_branches_here
from models.llama.load import LlamaOptions
from models.llama.strict import Checked, Difference, Trial, best, check, gains, seconds_a_token
from models.sampling.sampler import SamplingParams
from models.text.prompts import Message
from models.toy import ToyModel

FOREVER = 1e9


class Rounds(ToyModel):
    """Computes passes otherwise from some width and depth on: by one last bit, or by the sign of a zero."""

    def __init__(self, width: int = 99, depth: int = 0, *, zero: bool = False, **options: Any) -> None:
        super().__init__(**{"context_size": 2048, **options})
        self._from = (width, depth)
        self._zero = zero
        self.passes: list[tuple[int, int]] = []
        """(tokens in the cache before it, tokens) of every pass that gave rows."""

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        depth = self.length
        got = super().decode(tokens, rows, parents)
        if rows:
            self.passes.append((depth, len(tokens)))
            got[:, 0] = 0.0 if self._zero else got[:, 0]
        if rows and len(tokens) >= self._from[0] and depth + len(tokens) > self._from[1]:
            got[0, 0] = -0.0 if self._zero else np.nextafter(got[0, 0], np.float32(np.inf))
        return got


class RoundsBranches(ToyModel):
    """Its branches come out otherwise than the same path alone."""

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        got = super().decode(tokens, rows, parents)
        if len(parents) and list(parents) != list(range(-1, len(parents) - 1)):
            got[-1, 0] = np.nextafter(got[-1, 0], np.float32(np.inf))
        return got


def checked(model: ToyModel, seconds: float = FOREVER) -> Checked:
    return check(model, FakeClock(), seconds)


def test_a_model_that_never_rounds_is_exact_as_far_as_it_takes_rows() -> None:
    model = ToyModel(context_size=2048)
    model.decode([1, 2, 3], 0)
    found = checked(model)
    assert (found.width, found.branches, found.difference) == (model.max_rows, True, None)
    assert found.depths == (8, 255, 2048 - model.max_rows)
    assert model.length == 0


@pytest.mark.parametrize("width", [2, 3, 4, 5, 9, 10, 16, 17])
def test_every_width_is_looked_at(width: int) -> None:
    found = checked(Rounds(width, context_size=512))
    assert found.width == width - 1
    assert found.difference is not None
    assert (found.difference.width, found.difference.depth) == (width, 8)
    assert 0 < found.difference.largest < 1e-5


@pytest.mark.parametrize(("reach", "noticed_after"), [(0, 8), (30, 255), (256, 255), (300, 2031), (2032, 2031)])
def test_every_depth_is_looked_at(reach: int, noticed_after: int) -> None:
    found = checked(Rounds(2, reach))
    assert found.difference is not None
    assert (found.width, found.difference.depth) == (1, noticed_after)


def test_widths_between_are_compared_at_every_depth() -> None:
    model = Rounds(6)
    assert checked(model).width == 5
    for depth in (8, 255, 2048 - 5):
        assert {width for before, width in model.passes if before == depth} >= {1, 2, 3, 4, 5}


def test_the_sign_of_a_zero_is_a_difference() -> None:
    assert checked(Rounds(3, zero=True)).width == 2


def at_the_start_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Break the check on purpose: let it look at the first tokens of a text, and nowhere else."""
    monkeypatch.setattr(models.llama.strict, "EDGE", 9)
    monkeypatch.setattr(models.llama.strict._Check, "_deepest", lambda _: 10)


def test_a_look_at_the_start_alone_would_miss_what_a_deeper_one_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert checked(Rounds(2, 300)).width == 1
    at_the_start_alone(monkeypatch)
    assert checked(Rounds(2, 300)).width == 17


def test_branches_are_looked_at() -> None:
    found = checked(RoundsBranches(context_size=512))
    assert (found.width, found.branches) == (17, False)
    assert not checked(ToyModel(rewind_limit=300, context_size=512)).branches, "it takes none"
    assert not checked(Rounds(3, context_size=512)).branches, "a tree is a pass of three tokens at least"


@pytest.mark.parametrize("width", range(3, 9))
def test_a_branch_is_exact_where_it_is(width: int) -> None:
    model = ToyModel()
    model.decode([4, 5, 6], 0)
    assert exact_branches_here(model, width)
    assert model.length == 3
    assert not exact_branches_here(RoundsBranches(), width)


def test_a_slow_machine_is_checked_for_what_there_is_time_for_and_for_eight_tokens_at_least() -> None:
    # The clock goes on by a second each time it is asked, which is once for each width beyond eight.
    slow = checked(ToyModel(context_size=2048), seconds=0)
    assert (slow.width, slow.depths, slow.difference) == (8, (8, 255, 511), None)
    assert checked(ToyModel(context_size=2048), seconds=15).width == 13


def test_a_width_that_was_found_at_the_start_is_checked_deeper_down_whatever_the_clock_says() -> None:
    assert checked(Rounds(4, 300), seconds=15).width == 3


def test_a_look_goes_as_deep_as_there_is_time_for() -> None:
    deepest = [checked(ToyModel(context_size=2048), seconds).depths[-1] for seconds in (0, 36, FOREVER)]
    assert deepest[0] == 511 < deepest[1] < deepest[2] == 2048 - 17


def test_a_short_context_is_checked_as_far_as_it_goes() -> None:
    assert checked(ToyModel(context_size=256)).depths == (8,)
    assert checked(ToyModel(context_size=512)).depths == (8, 255, 512 - 17)


def test_where_nothing_could_be_compared_nothing_is_exact() -> None:
    found = checked(ToyModel(context_size=20))
    assert (found.width, found.depths, found.branches) == (1, (), False)
    with pytest.raises(LocalspecError, match="no setting was found") as failure:
        check_now(ToyModel(context_size=20), FakeClock())
    assert "no room" in failure.value.cause


def test_an_abort_leaves_the_cache_empty() -> None:
    flag = AbortFlag()
    model = ToyModel(abort=flag)
    model.decode([1, 2, 3], 0)
    flag.set()
    with pytest.raises(LocalspecError):
        checked(model)
    assert model.length == 0


# --- which setting ----------------------------------------------------------------------------------------------------

USUAL = {1: 1.0, 2: 1.4, 3: 1.8, 4: 1.5, 6: 2.3, 8: 2.7}
NONE = Difference(2, 255, 0.5)


def trial(label: str, width: int, factor: float = 1.0, seconds: dict[int, float] | None = None) -> Trial:
    measured_costs = {wide: factor * measured_cost for wide, measured_cost in (seconds or USUAL).items()}
    return Trial(
        label, LlamaOptions(), measured_costs, Checked(width, (8, 255, 511), True, None if width > 1 else NONE)
    )


def test_the_price_of_a_token_is_half_plain_half_drafted_as_wide_as_is_exact() -> None:
    assert seconds_a_token(USUAL, 1) == 1.0
    assert seconds_a_token(USUAL, 2) == pytest.approx((1 + 1.4 / 1.7) / 2)
    assert seconds_a_token(USUAL, 3) == pytest.approx((1 + 1.8 / 2.19) / 2)
    assert seconds_a_token(USUAL, 4) == pytest.approx((1 + 1.5 / 2.533) / 2)
    assert seconds_a_token(USUAL, 32) == seconds_a_token(USUAL, 4)


@pytest.mark.parametrize(
    ("trials", "taken"),
    [
        # Nothing is exact.
        ([trial("as it is", 1), trial("other", 1)], None),
        ([], None),
        # What is not exact is never taken, however quick.
        ([trial("as it is", 1, 0.1), trial("other", 3)], "other"),
        # Plain speed first.
        ([trial("as it is", 8), trial("slower", 8, 1.2)], "as it is"),
        ([trial("as it is", 8), trial("quicker", 8, 0.8)], "quicker"),
        # A wider exact pass is worth a dearer plain one, but not any price.
        ([trial("as it is", 3), trial("wider", 7, 1.08)], "wider"),
        ([trial("as it is", 3), trial("wider", 7, 1.3)], "as it is"),
        # Noise changes no choice.
        ([trial("as it is", 8), trial("same", 8, 0.98)], "as it is"),
        ([trial("as it is", 3), trial("wider", 7, 1.08), trial("widest", 32, 1.07)], "wider"),
    ],
)
def test_which_setting_is_taken(trials: list[Trial], taken: str | None) -> None:
    chosen = best(trials)
    assert (chosen.label if chosen else None) == taken


def test_what_could_not_win_if_it_were_exact_at_every_width_need_not_be_checked() -> None:
    assert gains({wide: 1.08 * measured_cost for wide, measured_cost in USUAL.items()}, 32, trial("as it is", 3))
    assert not gains({wide: 1.5 * measured_cost for wide, measured_cost in USUAL.items()}, 32, trial("as it is", 3))


# --- the note for the user -------------------------------------------------------------------------------------------


def test_what_was_checked_is_checked_note() -> None:
    found = Checked(7, (8, 255, 511, 2040), True, Difference(8, 255, 0.5))
    assert checked_note(found) == "strict: exact up to 7 tokens per pass (checked after 8, 255, 511 and 2,040 tokens)"
    assert (
        checked_note(Checked(2, (8,), True, None)) == "strict: exact up to 2 tokens per pass (checked after 8 tokens)"
    )


def test_a_target_that_is_never_exact_is_refused_with_the_difference() -> None:
    with pytest.raises(LocalspecError, match="no setting was found") as failure:
        check_now(Rounds(2, 300), time.perf_counter)
    assert failure.value.exit_code == 1
    assert "usual settings: a pass of 2 tokens after " in failure.value.cause
    assert "differs from one token at a time by up to " in failure.value.cause
    assert "--draft off" in failure.value.hint


def test_a_memory_that_can_not_take_back_guesses_is_refused() -> None:
    with pytest.raises(LocalspecError, match="--strict can't be used with toy-0") as failure:
        check_now(ToyModel(rewind_limit=4), time.perf_counter)
    assert "a list of tokens" in failure.value.cause


# --- in the engine ----------------------------------------------------------------------------------------------------

Make = Callable[..., ToyModel]


def loaded(
    monkeypatch: pytest.MonkeyPatch, make: Make, drafter: str = "model:toy", *, strict: bool = True
) -> tuple[Worker, Ready]:
    monkeypatch.setattr(app.engine.runtime.load, "ToyModel", make)
    plan = LoadPlan("toy", parse_drafter(drafter), LlamaOptions(), Path("never used"), strict=strict)
    worker = Worker(plan, AbortFlag(), time.perf_counter)
    (ready,) = (message for message in worker.load(lambda _, __: None) if isinstance(message, Ready))
    return worker, ready


def rounding_from(width: int, depth: int = 0) -> Make:
    return lambda **options: Rounds(width, depth, **{**options, "context_size": 600})


def longest_draft(worker: Worker) -> int:
    turns = (Message("user", "the sea the sea the sea the sea the sea"),)
    question = Question(turns, SamplingParams(temperature=0), max_tokens=60, draft_length=9, adapt=False)
    return max(len(said.round.draft.tokens) for said in worker.answer(question) if isinstance(said, Said))


def test_drafts_stay_within_what_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, ready = loaded(monkeypatch, rounding_from(4))
    assert ready.exact_draft == 2
    assert any(note.startswith("strict: exact up to 3 tokens per pass") for note in ready.notes)
    assert longest_draft(worker) == 2
    worker.close()


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(("make", "allowed"), [(ToyModel, 8), (RoundsBranches, 0)])
def test_second_guesses_are_checked_only_where_branches_are_exact(
    monkeypatch: pytest.MonkeyPatch, make: Make, allowed: int, strict: bool
) -> None:
    worker, ready = loaded(monkeypatch, lambda **options: make(**{**options, "context_size": 600}), strict=strict)
    assert ready.exact_draft == 16
    turns = (Message("user", "the sea the sea"),)
    list(worker.answer(Question(turns, SamplingParams(), max_tokens=4)))
    adaptive = worker._slot.drafting.adaptive
    assert adaptive is not None
    assert adaptive.settings.max_siblings == allowed
    list(worker.answer(Question(turns, SamplingParams(), max_tokens=4, allow_rounding=True)))
    assert adaptive.settings.max_siblings == 8, "with --allow-rounding all siblings may be used"
    worker.close()


def test_what_was_remembered_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.engine.runtime.machine_measurements, "exact_width", lambda _: 17)
    worker, ready = loaded(monkeypatch, rounding_from(4))
    assert ready.exact_draft == 2
    worker.close()


def test_another_drafter_keeps_to_what_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, _ = loaded(monkeypatch, rounding_from(4), "off")
    (ready,) = worker.use_drafter(parse_drafter("model:toy"), lambda _, __: None)
    assert isinstance(ready, Ready)
    assert ready.exact_draft == 2
    assert longest_draft(worker) == 2
    worker.close()


def test_a_model_that_is_never_exact_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LocalspecError, match="--strict can't be used with toy-0"):
        loaded(monkeypatch, rounding_from(2, 300))
    # The control: at the start of a text nothing is wrong with it.
    at_the_start_alone(monkeypatch)
    worker, ready = loaded(monkeypatch, rounding_from(2, 300))
    assert ready.exact_draft == 16
    worker.close()
