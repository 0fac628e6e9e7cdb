"""Counters against an independent count of the same rounds, and rates that stay silent without a denominator."""

from collections.abc import Sequence
from dataclasses import FrozenInstanceError, fields

import pytest
from checking import FIXED
from fakes import AlwaysWrongDrafter, Case, OracleDrafter, plain, run, run_in
from hypothesis import given
from hypothesis import strategies as st

from app.engine.conversation.session import Session
from app.engine.decoding.round import Round
from app.engine.decoding.stats import Snapshot, Stats
from app.engine.decoding.verify import Verdict
from drafters.base import Draft, NullDrafter
from models.sampling.sampler import SamplingParams
from models.toy import ToyModel, ToyVocab

CASE = Case(tuple(ToyVocab().tokenize("the cat sat")), SamplingParams(seed=1), budget=20)


def a_round(drafted: int, accepted: int, emitted: int | None = None, seconds: Sequence[float] = (1, 2, 4)) -> Round:
    """Return a round; `emitted` is given when the answer was cut inside what was accepted."""
    count = accepted + 1 if emitted is None else emitted
    verdict = Verdict(accepted, 0, is_bonus=0 < accepted == drafted)
    return Round(
        Draft((0,) * drafted), verdict, (0,) * count, 10, seconds[0], seconds[1], seconds[2], None, drafted + 1
    )


def observed(*rounds: Round) -> Stats:
    stats = Stats()
    for round_ in rounds:
        stats.observe(round_)
    return stats


def test_rates_are_none_before_anything_happened() -> None:
    stats = Stats()
    assert stats.tokens_per_second is None
    assert stats.acceptance_rate is None
    assert stats.mean_acceptance_length is None
    assert stats.coverage is None


def test_without_drafts_there_is_a_coverage_of_nothing_and_no_acceptance() -> None:
    stats = observed(a_round(0, 0), a_round(0, 0))
    assert stats.coverage == 0
    assert stats.acceptance_rate is None
    assert stats.mean_acceptance_length is None


def test_drafts_that_are_all_rejected_have_a_rate_of_nothing() -> None:
    stats = observed(a_round(3, 0))
    assert stats.acceptance_rate == 0
    assert stats.mean_acceptance_length == 1


def test_the_first_round_gives_no_speed_for_its_time_belongs_to_the_first_token() -> None:
    assert observed(a_round(3, 2)).tokens_per_second is None
    stats = observed(
        a_round(4, 4, seconds=(100, 100, 100)), a_round(3, 2, seconds=(1, 2, 3)), a_round(0, 0, seconds=(0, 2, 0))
    )
    assert stats.tokens_per_second == pytest.approx((3 + 1) / (6 + 2))


def test_a_clock_that_stands_still_gives_no_speed() -> None:
    assert observed(a_round(0, 0, seconds=(0, 0, 0)), a_round(0, 0, seconds=(0, 0, 0))).tokens_per_second is None


def test_mean_acceptance_length_counts_the_next_token_and_the_rounds_that_drafted_alone() -> None:
    stats = observed(a_round(4, 4), a_round(4, 1), a_round(0, 0), a_round(4, 0))
    assert stats.mean_acceptance_length == (5 + 2 + 1) / 3
    assert stats.acceptance_rate == 5 / 12
    assert stats.coverage == 3 / 4


def test_tokens_accepted_beyond_the_end_of_the_answer_are_not_counted() -> None:
    stats = observed(a_round(5, 5, emitted=2))
    assert stats.accepted == 2
    assert stats.accepted_at == [1, 1, 0, 0, 0]
    assert stats.emitted == 2
    assert stats.drafted == 5


def test_positions_count_the_drafts_that_reached_them() -> None:
    stats = observed(a_round(1, 1), a_round(4, 2), a_round(2, 0), a_round(0, 0))
    assert stats.drafted_at == [3, 2, 1, 1]
    assert stats.accepted_at == [2, 1, 0, 0]


@st.composite
def rounds(draw: st.DrawFn) -> Round:
    drafted = draw(st.integers(0, 6))
    accepted = draw(st.integers(0, drafted))
    emitted = draw(st.one_of(st.none(), st.integers(1, accepted + 1)))
    seconds = draw(st.tuples(*[st.integers(0, 2**20).map(lambda ticks: ticks / 1024)] * 3))
    return a_round(drafted, accepted, emitted, seconds)


@given(st.lists(rounds(), min_size=1, max_size=12))
@FIXED
def test_counters_equal_an_independent_count(history: list[Round]) -> None:
    stats = observed(*history)
    drafting = [round_ for round_ in history if len(round_.draft.tokens) > 0]
    kept = [min(round_.verdict.accepted, len(round_.emitted)) for round_ in drafting]
    lengths = [len(round_.draft.tokens) for round_ in drafting]
    assert stats.rounds == len(history)
    assert stats.drafts == len(drafting)
    assert stats.drafted == sum(lengths) == sum(stats.drafted_at)
    assert stats.accepted == sum(kept) == sum(stats.accepted_at)
    assert stats.emitted == sum(len(round_.emitted) for round_ in history)
    longest = max(lengths, default=0)
    assert stats.drafted_at == [sum(length > place for length in lengths) for place in range(longest)]
    assert stats.accepted_at == [sum(count > place for count in kept) for place in range(longest)]
    assert stats.draft_seconds == sum(round_.draft_seconds for round_ in history)
    assert stats.verify_seconds == sum(round_.verify_seconds for round_ in history)
    assert stats.host_seconds == sum(round_.host_seconds for round_ in history)
    later = history[1:]
    seconds = sum(round_.draft_seconds + round_.verify_seconds + round_.host_seconds for round_ in later)
    if seconds > 0:
        assert stats.tokens_per_second == pytest.approx(sum(len(round_.emitted) for round_ in later) / seconds)
    else:
        assert stats.tokens_per_second is None
    if drafting:
        assert stats.mean_acceptance_length == sum(len(round_.emitted) for round_ in drafting) / len(drafting)
        assert stats.acceptance_rate == sum(kept) / sum(lengths)


def test_a_snapshot_shows_the_counters_of_its_moment_and_can_not_be_changed() -> None:
    stats = observed(a_round(4, 2), a_round(3, 3))
    snapshot = stats.snapshot()
    for field in fields(Snapshot):
        shown, counted = getattr(snapshot, field.name), getattr(stats, field.name)
        assert shown == (tuple(counted) if isinstance(counted, list) else counted), field.name
    stats.observe(a_round(4, 4))
    assert snapshot.rounds == 2
    assert snapshot.drafted_at == (2, 2, 2, 1)
    with pytest.raises(FrozenInstanceError):
        snapshot.rounds = 3  # type: ignore[misc]


def test_the_oracle_is_accepted_whole_and_every_round_but_the_last_emits_its_draft_and_one_more() -> None:
    stats = run(CASE, OracleDrafter(plain(CASE).tokens), 4).stats
    # 5, 5, 5 and 5: the budget of 20 leaves room for whole rounds.
    assert (stats.rounds, stats.drafted, stats.accepted, stats.emitted) == (4, 16, 16, 20)
    assert stats.acceptance_rate == 1
    assert stats.mean_acceptance_length == 5


def test_a_drafter_that_is_always_wrong_costs_a_round_a_token() -> None:
    stats = run(CASE, AlwaysWrongDrafter(plain(CASE).tokens), 4).stats
    assert (stats.rounds, stats.accepted, stats.emitted) == (20, 0, 20)
    assert stats.mean_acceptance_length == 1


def test_speed_is_that_of_the_clock() -> None:
    target = ToyModel()
    # A clock on which each decoded token takes half a second.
    session = Session(target, NullDrafter(), lambda: target.decoded / 2)
    assert run_in(session, CASE, 0).stats.tokens_per_second == 2
    target = ToyModel()
    session = Session(target, AlwaysWrongDrafter(plain(CASE).tokens), lambda: target.decoded / 2)
    # Three guesses in vain for each token; near the end of the budget there is room for fewer.
    later = run_in(session, CASE, 3)
    passes = sum(1 + len(round_.draft.tokens) for round_ in later.rounds[1:])
    assert later.stats.tokens_per_second == 19 / (passes / 2)
