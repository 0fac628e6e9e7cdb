"""How many answers do best in one pass, and when one leaves them to draft alone."""

from dataclasses import replace

import pytest
from adapting import controller, select

from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.control.policy import DraftLengthPolicy
from app.engine.control.shared_control import BatchingController, SharedBatch
from app.engine.costs.pass_cost import VerifyCurve
from app.engine.decoding.round import Round
from app.engine.decoding.shared_pass import Bounds
from app.engine.decoding.verify import Verdict
from drafters.base import NO_DRAFT, Draft
from models.base import LanguageModel
from models.toy import ToyModel

ANSWER, COMPLETION = 1, 0
FLAT = {1: 1.0, 32: 1.0}
EVEN = {1: 1.0, 2: 1.6, 3: 2.2, 32: 2.2 + 29 * 0.6}
"""A processor's: another row costs .6 of the first."""
STEEP = {1: 1.0, 32: 32.0}
FIRST = ToyModel()
TEXTS = [FIRST, *(FIRST.twin() for _ in range(8))]


# --- how many do best in one pass -------------------------------------------------------------------------------------


def among(curve: dict[int, float], speaking: int, exact: int = 32) -> SharedBatch:
    batch = SharedBatch(VerifyCurve(curve), exact)
    for text in TEXTS[:speaking]:
        batch.enter(text, ANSWER)
    return batch


@pytest.mark.parametrize(
    ("curve", "speaking", "widest", "size"),
    [
        (FLAT, 0, 32, 1),
        (FLAT, 1, 32, 1),
        (FLAT, 5, 32, 5),
        (FLAT, 5, 3, 3),
        (EVEN, 4, 3, 3),
        (STEEP, 4, 32, 1),
        ({1: 1.0, 2: 1.5, 3: 2.9, 4: 2.9, 32: 29.0}, 3, 32, 2),
        ({1: 1.0, 2: 1.5, 3: 2.9, 4: 2.9, 32: 29.0}, 4, 32, 4),
    ],
)
def test_the_company_is_the_size_that_says_most_a_second(
    curve: dict[int, float], speaking: int, widest: int, size: int
) -> None:
    assert among(curve, speaking).size(FIRST, widest) == size


def test_who_is_more_urgent_or_speaks_no_more_is_not_counted() -> None:
    batch = among(FLAT, 2)
    batch.enter(TEXTS[2], COMPLETION)
    assert (batch.size(FIRST, 32), batch.size(TEXTS[2], 32)) == (2, 1)
    batch.leave(TEXTS[1])
    batch.leave(TEXTS[1])
    assert batch.size(FIRST, 32) == 1


class Neighbour(ToyModel):
    """A text that can be decoded together only with those beside it."""

    place = 0

    def can_join(self, other: LanguageModel) -> bool:
        return isinstance(other, Neighbour) and abs(self.place - other.place) == 1


def test_who_is_beyond_a_gap_is_not_counted() -> None:
    texts = [Neighbour() for _ in range(5)]
    batch = SharedBatch(VerifyCurve(FLAT), 32)
    for place in (3, 0, 4, 1):
        texts[place].place = place
        batch.enter(texts[place], ANSWER)
    assert [batch.size(texts[place], 32) for place in (0, 1, 3, 4)] == [2, 2, 2, 2]
    texts[2].place = 2
    batch.enter(texts[2], ANSWER)
    assert {batch.size(text, 32) for text in texts} == {5}


# --- drafting in a shared pass ----------------------------------------------------------------------------------------


def knowing(curve: dict[int, float], longest: int = 16) -> AdaptiveController:
    """Return a controller whose guesses were right again and again, after the first round of an answer."""
    adaptive = controller(VerifyCurve(curve), longest)
    adaptive.begin()
    for _ in range(60):
        played(adaptive, copied(8))
    adaptive.begin()
    played(adaptive)
    return adaptive


def played(adaptive: AdaptiveController, draft: Draft = NO_DRAFT) -> None:
    """Let a round happen whose draft is right."""
    adaptive.plan()
    checked = adaptive.select(draft, 16) if draft.tokens else NO_DRAFT
    verdict = Verdict(len(checked.tokens), 99, is_bonus=True)
    width = len(checked.tokens) + 1
    seconds = adaptive.state.curve.seconds(width)
    adaptive.observe(Round(checked, verdict, verdict.emitted(checked), 10, 0.0, seconds, 0.0, None, width))


def batching(curve: dict[int, float], others: int, widest: int = 32) -> BatchingController:
    inner = knowing(curve)
    # One round is no short answer, after which less may be lost.
    inner.state.progress.emitted = 0
    decides = BatchingController(inner, among(curve, others), ANSWER, TEXTS[-1], widest)
    decides.begin()
    adaptive = decides._inner
    assert isinstance(adaptive, AdaptiveController)
    played(adaptive)
    return decides


def copied(length: int, sure: float = 0.95) -> Draft:
    return Draft(tuple(range(length)), confidence=(sure,) * length, source="suffix")


def decided(decides: BatchingController, draft: Draft) -> tuple[int, Bounds | None]:
    limit = decides.plan().limit
    return len(decides.select(draft.shortened(limit), limit).tokens), decides.bounds


def ended(decides: BatchingController, round_: Round) -> None:
    """Let a round happen for which no drafter was called."""
    decides.plan()
    decides.observe(round_)


def test_with_nobody_else_it_drafts_as_ever() -> None:
    for curve in (FLAT, EVEN, STEEP):
        alone = knowing(curve)
        played(alone)
        limit = alone.plan().limit
        checked = select(alone, copied(8).shortened(limit), limit)
        assert decided(batching(curve, 0), copied(8)) == (len(checked.tokens), None)


@pytest.mark.parametrize(("others", "most"), [(0, 16), (2, 0)])
def test_what_can_not_be_wrong_is_drafted_alone_and_not_in_a_shared_pass(others: int, most: int) -> None:
    decides = batching(EVEN, others, widest=3)
    decided(decides, NO_DRAFT)
    assert decides.certain == most


def test_without_a_draft_passes_are_shared() -> None:
    decides = batching(EVEN, 2, widest=3)
    length, bounds = decided(decides, NO_DRAFT)
    assert length == 0
    assert bounds is not None
    assert bounds.passes == 3


def test_a_sure_copy_leaves_where_little_is_shared_and_stays_where_much_is() -> None:
    # Two share a pass at 1.7 and not 2.0: little to lose by leaving, and four guesses more cost .1.
    length, bounds = decided(batching({1: 1.0, 2: 1.7, 16: 2.0, 32: 2.0}, 1), copied(4, 0.99))
    assert (length > 0, bounds) == (True, None)
    # Here they share at 1.05, and leaving costs the others nearly a pass.
    length, bounds = decided(batching({1: 1.0, 2: 1.05, 16: 1.9, 32: 2.0}, 1), copied(1, 0.99))
    assert (length, bounds is None) == (0, False)


def test_who_has_proved_nothing_leaves_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    cheap = {1: 1.0, 2: 1.7, 16: 2.0, 32: 2.0}
    assert decided(batching(cheap, 1), copied(4, 0.99))[1] is None
    stranger = replace(copied(4, 0.99), source="stranger")
    length, bounds = decided(batching(cheap, 1), stranger)
    assert (length, bounds is None) == (0, False)
    # Broken on purpose: what it says of itself counts.
    monkeypatch.setattr(DraftLengthPolicy, "proven", DraftLengthPolicy.verifiable)
    assert decided(batching(cheap, 1), stranger)[1] is None


def test_the_more_there_are_the_less_is_drafted() -> None:
    """A cheap pass of several: a copy is worth less and less beside all the others that it would keep waiting."""
    shared = [decided(batching(FLAT, others), copied(8))[1] for others in (0, 1, 3, 7)]
    assert shared[0] is None
    assert shared[-1] is not None
    assert [bounds is not None for bounds in shared] == sorted(bounds is not None for bounds in shared)


def test_what_is_learnt_of_a_copy_does_not_depend_on_whether_it_was_checked() -> None:
    decides = batching({1: 1.0, 2: 1.05, 16: 1.9, 32: 2.0}, 1)
    adaptive = decides._inner
    assert isinstance(adaptive, AdaptiveController)
    before = adaptive.acceptance.counts["suffix"].proposed_at[0]
    decided(decides, copied(1))
    decides.observe(Round(NO_DRAFT, Verdict(0, 0, is_bonus=True), (0,), 10, 0.0, 1.05, 0.0, None, 1, others=1))
    assert adaptive.acceptance.counts["suffix"].proposed_at[0] == before + 1


def test_who_copies_in_company_proves_it_and_leaves() -> None:
    """Nothing is checked in a shared pass, and one token of each decides only a draft's first guess."""
    cheap = {1: 1.0, 2: 1.5, 16: 2.0, 32: 2.0}
    decides = BatchingController(controller(VerifyCurve(cheap), 16), among(cheap, 1), ANSWER, TEXTS[-1], 32)
    decides.begin()
    shared = Round(NO_DRAFT, Verdict(0, 0, is_bonus=True), (0,), 10, 0.0, 1.5, 0.0, None, 1, others=1)
    left = []
    for place in range(60):
        limit = decides.plan().limit
        ahead = Draft(tuple(range(place, place + limit)), confidence=(0.98,) * limit, source="suffix")
        left.append(len(decides.select(ahead, limit).tokens))
        if left[-1]:
            break
        decides.observe(replace(shared, verdict=Verdict(0, place, is_bonus=True), emitted=(place,)))
    assert not any(left[:3]), "a stranger has proved nothing"
    assert left[-1] > 0


def test_where_even_a_draft_that_is_right_throughout_would_stay_one_guess_is_watched_and_none_weighed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decides = batching(FLAT, 7)
    asked: list[Draft] = []
    monkeypatch.setattr(DraftLengthPolicy, "proven", lambda _, draft: asked.append(draft) or [])
    assert decides.plan().limit == 1
    assert decides.select(copied(1), 1) == NO_DRAFT
    assert asked == []
    adaptive = decides._inner
    assert isinstance(adaptive, AdaptiveController)
    before = adaptive.acceptance.counts["suffix"].proposed_at[0]
    decides.observe(Round(NO_DRAFT, Verdict(0, 0, is_bonus=True), (0,), 10, 0.0, 1.0, 0.0, None, 1, others=7))
    assert adaptive.acceptance.counts["suffix"].proposed_at[0] == before + 1


def test_what_was_drawn_is_checked_whole_and_alone() -> None:
    decides = batching(FLAT, 3)
    limit = decides.plan().limit
    drawn = Draft((1, 2, 3), probs=(None,) * 3, source="model")  # type: ignore[arg-type]
    assert len(decides.select(drawn, limit).tokens) == 3
    assert decides.bounds is None


def test_what_shared_passes_cost_is_learnt_for_their_whole_width() -> None:
    decides = batching(EVEN, 2)
    adaptive = decides._inner
    assert isinstance(adaptive, AdaptiveController)
    before = adaptive.state.curve.ratio(3), decides._batch.curve.ratio(3)
    for _ in range(30):
        ended(decides, Round(NO_DRAFT, Verdict(0, 0, is_bonus=True), (0,), 10, 0.0, 4.4, 0.0, None, 1, others=2))
    assert adaptive.state.curve.ratio(3) > 1.3 * before[0]
    assert decides._batch.curve.ratio(3) > 1.3 * before[1]
    assert adaptive.state.rate_among(0) == pytest.approx(3 / 4.4, rel=0.35)


def test_a_pass_that_stalls_is_counted_once_and_not_for_each_answer_in_it() -> None:
    first = batching(EVEN, 3)
    curve = first._batch.curve
    round_ = Round(NO_DRAFT, Verdict(0, 0, is_bonus=True), (0,), 10, 0.0, curve.seconds(4), 0.0, None, 1, others=3)
    for others in [*range(8)] * 5:
        ended(first, replace(round_, others=others, verify_seconds=curve.seconds(1 + others)))
        ended(first, replace(round_, others=0, verify_seconds=curve.seconds(1)))
    before = curve.seconds(4)
    for counts in (True, False, False, False):
        ended(first, replace(round_, verify_seconds=20 * before, counts=counts))
    assert curve.seconds(4) == pytest.approx(before, rel=0.05)
    # Broken on purpose: counted for each, it is no stall but what the machine takes now.
    for _ in range(4):
        ended(first, replace(round_, verify_seconds=20 * before))
    assert curve.seconds(4) > 1.3 * before
