"""Trees of drafters that offer tokens beside a chain: what is verified, what is learnt, and what they may lose."""

from dataclasses import replace

import pytest
from adapting import EVEN, FLAT, STEEP, controller, select
from curves import PUBLISHED
from decision_log import DATA, JoinableModel
from replay import Cost, VirtualClock, load

from app.engine.control.acceptance import Acceptance
from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.control.expected_gain import best_size, nearly_free
from app.engine.conversation.session import Session
from app.engine.costs.pass_cost import QUICK_WIDTHS, VerifyCurve
from app.engine.decoding.ending import Ending
from app.engine.decoding.round import Round
from app.engine.decoding.verify import Verdict
from drafters.base import Draft, Offer, Offers
from drafters.branching import decided_offers
from drafters.hybrid import Eager, Hybrid
from drafters.registry import FREE_DRAFTERS
from models.sampling.sampler import Sampler, SamplingParams

_PLAIN_PASS = 0.05
NODES = (Offer(0, 11, 0.3), Offer(~0, 12, 0.9), Offer(1, 13, 0.2), Offer(~1, 14, 0.1))
DRAFT = Draft((1, 2, 3), confidence=(0.6, 0.5, 0.5), source="recycle", offers=Offers(NODES))
BARREN = Draft(
    (1, 2), confidence=(0.02, 0.02), source="lookahead", offers=Offers((Offer(0, 3, 0.02),), wants_rows=True)
)


def new(curve: dict[int, float], branches: int = 8, longest: int = 31) -> AdaptiveController:
    """Return a controller that may verify trees, a round into an answer."""
    adaptive = controller(VerifyCurve(curve), longest)
    adaptive.use(replace(adaptive.settings, max_siblings=branches))
    adaptive.begin()
    played(adaptive, Draft())
    return adaptive


def played(adaptive: AdaptiveController, draft: Draft, emitted: tuple[int, ...] = (29,)) -> Round:
    """Let a round happen in which the text goes on as told, and its pass takes what the curve says."""
    limit = adaptive.plan().limit
    checked = adaptive.select(draft.shortened(limit), limit) if limit and draft.tokens else Draft()
    width, verdict = checked.size + 1, Verdict(0, emitted[0], is_bonus=False)
    round_ = Round(checked, verdict, emitted, 10, 0.0, adaptive.state.curve.seconds(width), 0.0, None, width)
    adaptive.observe(round_)
    return round_


def test_offers_are_decided_by_the_text_along_their_own_path() -> None:
    def decided(*emitted: int) -> list[tuple[int, bool]]:
        return [(offer.token, right) for offer, right in decided_offers(DRAFT, emitted)]

    assert decided(1, 2, 3, 9) == [(11, False), (13, False)]
    assert decided(11, 12, 14, 9) == [(11, True), (12, True), (14, True)]
    assert decided(11, 9) == [(11, True), (12, False)]
    assert decided(1, 13) == [(11, False), (13, True)]
    assert decided(1) == [(11, False)], "the next token is not known yet"
    assert decided(8) == [(11, False)]


def test_acceptance_of_offers_is_learnt_by_their_confidence_and_from_unverified_ones() -> None:
    acceptance = Acceptance()
    assert acceptance.offered(DRAFT) == pytest.approx([0.3, 0.9, 0.2, 0.1])
    for _ in range(30):
        acceptance.observe(DRAFT, (11, 29))
    first, second, *_ = acceptance.offered(DRAFT)
    assert first > 0.8
    assert second < 0.2
    assert acceptance.offered(replace(DRAFT, source="other")) == pytest.approx([0.3, 0.9, 0.2, 0.1])
    assert acceptance.offered(Draft((1,))) == []


def test_the_likeliest_tokens_are_verified_where_rows_are_cheap_and_none_where_they_are_dear() -> None:
    chosen = select(new(FLAT), DRAFT, 31)
    assert (chosen.tokens, chosen.siblings) == ((1, 2, 3), ((0, 11), (~0, 12), (1, 13), (~1, 14)))
    assert select(new(STEEP), DRAFT, 31).size == 0
    some = select(new(EVEN), DRAFT, 31)
    assert 0 < some.size < chosen.size


def test_a_memory_without_branches_and_a_rule_without_siblings_get_the_chain_alone() -> None:
    assert select(new(FLAT, branches=0), DRAFT, 31).siblings == ()
    assert select(new(FLAT, branches=1), DRAFT, 31).siblings == ((0, 11), (~0, 12), (~1, 14))


@pytest.mark.parametrize("room", range(1, 8))
def test_a_tree_keeps_within_the_room_of_the_pass(room: int) -> None:
    assert select(new(FLAT), DRAFT.shortened(room), room).size <= room


def test_accepted_siblings_that_are_read_again_take_their_place_in_the_pass() -> None:
    adaptive = new(FLAT, longest=6)
    adaptive.plan()
    adaptive.select(DRAFT, 6)
    verdict = Verdict(0, 9, is_bonus=True, branch=(11, 12))
    adaptive.observe(Round(DRAFT, verdict, (11, 12, 9), 10, 0.0, 1.0, 0.0, None, 7))
    assert adaptive.plan().limit == 4
    adaptive.begin()
    assert adaptive.plan().limit == 4, "the first draft of an answer is a short one"


def test_the_best_size_weighs_every_pass() -> None:
    jagged = VerifyCurve({1: 1.0, 2: 1.6, 3: 1.6, 4: 1.6, 5: 1.7, 32: 9.0})
    assert best_size([0.3, 0.25, 0.2, 0.15], jagged, 1.0) == 4
    assert best_size([0.3, 0.25], jagged, 1.0) == 0
    assert best_size([], jagged, 1.0) == 0
    assert nearly_free(8, VerifyCurve({1: 1.0, 4: 1.1, 5: 1.3, 32: 9.0})) == 3
    assert nearly_free(8, jagged) == 0


def test_rows_that_a_drafter_learns_from_are_verified_where_they_are_nearly_free() -> None:
    nearly = {1: 1.0, 4: 1.05, 5: 1.6, 32: 9.0}
    assert select(new(nearly), BARREN, 31).size == 3
    assert (
        select(new(nearly), replace(BARREN, offers=Offers(BARREN.offers.nodes if BARREN.offers else ())), 31).size == 0
    )
    assert select(new(STEEP), BARREN, 31).size == 0


def test_a_window_that_finds_nothing_loses_no_more_than_the_budget() -> None:
    adaptive = new({1: 1.0, 4: 1.1, 5: 1.6, 32: 9.0})
    rounds = [played(adaptive, BARREN) for _ in range(400)]
    lost = sum(round_.verify_seconds for round_ in rounds) - len(rounds)
    assert any(round_.draft.tokens for round_ in rounds)
    assert not all(round_.draft.tokens for round_ in rounds)
    assert lost < 0.75 + 0.016 * len(rounds)


@pytest.mark.parametrize("name", [name for name, drafter in FREE_DRAFTERS.items() if drafter.drafts_trees])
@pytest.mark.parametrize("machine", sorted(PUBLISHED))
def test_a_drafter_of_trees_never_loses_much_on_any_machine(name: str, machine: str) -> None:
    """On recorded answers, whose rows give the recorded token alone, in virtual time."""
    curve = VerifyCurve(PUBLISHED[machine])
    table = [_PLAIN_PASS * curve.seconds(width) for width in range(1, 65)]
    cost: Cost = lambda width, _: table[width - 1]  # noqa: E731
    for temperature in (0.0, 0.7):
        drafter = FREE_DRAFTERS[name].make(lambda _: False)
        adaptive = controller(VerifyCurve({width: cost(width, 0) for width in QUICK_WIDTHS}))
        adaptive.use(replace(adaptive.settings, max_siblings=8))
        for trace in load(DATA / "traces.jsonl.gz", temperature):
            clock = VirtualClock()
            target = JoinableModel("target", trace, cost, clock)
            session = Session(target, Hybrid([drafter], None, Eager()), clock)
            ending, sampler = Ending(target.vocab, budget=len(trace.answer)), Sampler(SamplingParams(temperature=0))
            events = session.answer(trace.prompt, sampler, ending, adaptive)
            emitted = [token for event in events if isinstance(event, Round) for token in event.emitted]
            assert emitted == list(trace.answer)
            plain = sum(cost(1, 0) for _ in trace.answer)
            assert session.stats.seconds < 1.016 * plain + 2 * _PLAIN_PASS
            # Ids mean something else in each trace.
            drafter.close()
