"""What the screen knows of an answer, against what the engine says at its end."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from toy_answers import fed, rounds_of
from toy_answers import toy_answer as answer

from app.engine.conversation.messages import Ended, Message, Ready, Said, Watched
from app.engine.conversation.session import Reading
from app.engine.decoding.ending import Finish
from app.engine.decoding.origins import Origin
from app.engine.decoding.round import Round
from app.ui.panel.compared import Compared
from app.ui.panel.flow import BEATS, Flow
from app.wording.explanation import length_reason


def part(messages: Iterable[Message], kind: type[Message]) -> Message:
    return next(message for message in messages if isinstance(message, kind))


def seconds(round_: Round) -> float:
    return round_.draft_seconds + round_.verify_seconds + round_.host_seconds


def by_the_clock(round_: Round) -> float:
    return seconds(round_) + round_.wait_seconds


@pytest.mark.parametrize("drafter", ["off", "lookup", "suffix", "toy", "model:toy"])
@pytest.mark.parametrize("adapt", [True, False])
def test_the_figures_of_an_answer_are_those_that_the_engine_ends_with(drafter: str, adapt: bool) -> None:
    messages = answer(drafter, adapt=adapt)
    ended = messages[-1]
    assert isinstance(ended, Ended)
    flow = fed(messages)
    assert flow.stats == ended.stats
    assert (flow.finish, flow.drafter, flow.accept) == (ended.finish, ended.drafter, ended.accept)
    assert [(beat.emitted, beat.drafted, beat.accepted) for beat in flow.beats] == [
        (len(said.round.emitted), said.round.draft.size, said.round.accepted) for said in rounds_of(list(messages))
    ]
    assert flow.origins.total() == ended.stats.emitted
    assert flow.origins[Origin.REPLACEMENT] == sum(
        not said.round.verdict.is_bonus and bool(said.round.draft.tokens) for said in rounds_of(list(messages))
    )


def test_before_anything_was_said_nothing_is_known() -> None:
    flow = Flow(lambda: 1)
    assert (flow.rate_now, flow.speed_up, flow.session_speed_up, flow.time_split, flow.context_share) == (None,) * 5
    assert (flow.leaderboard, flow.pauses, list(flow.positions), flow.length_reason, flow.answers) == (
        [],
        [],
        [],
        "",
        0,
    )
    assert flow.stats.acceptance_rate is None


def test_the_speed_of_the_moment_is_that_of_the_last_two_seconds_of_rounds() -> None:
    said = rounds_of(list(answer()))
    slow = [
        replace(one, round=replace(one.round, verify_seconds=[0.3, 0.9, 0.5, 2.5][place % 4]))
        for place, one in enumerate(said)
    ]
    flow = Flow(lambda: 1)
    flow.begin()
    for place, one in enumerate(slow):
        flow.hear(one, 0.0)
        recent: list[Round] = []
        for earlier in reversed(slow[1 : place + 1]):
            if sum(map(by_the_clock, recent)) < 2.0:
                recent.append(earlier.round)
        if recent:
            emitted = sum(len(round_.emitted) for round_ in recent)
            assert flow.rate_now == pytest.approx(emitted / sum(map(by_the_clock, recent)))
        else:
            assert flow.rate_now is None, "the first round belongs to the first token"


def test_when_no_answer_runs_there_is_no_speed_of_the_moment() -> None:
    flow = fed(answer()[:-1])
    assert flow.rate_now is not None
    assert fed(answer()).rate_now is None
    flow.idle()
    assert (flow.running, flow.rate_now) == (False, None)


@pytest.mark.parametrize("drafter", ["toy", "lookup"])
def test_speed_up_is_the_time_of_plain_decoding_over_that_of_the_rounds(drafter: str) -> None:
    flow = fed(answer(drafter))
    first, *rounds = (said.round for said in rounds_of(list(answer(drafter))))
    plain = [one.verify_seconds + one.host_seconds for one in rounds if one.width == 1]
    assert flow.explanation is not None
    drafted = sum(len(one.emitted) for one in rounds if one.width > 1)
    assert drafted > 10
    # Tokens of drafts cost something between the pass that the engine knows and the rounds without a draft.
    measured_costs = [1 / flow.explanation.plain_rate, *plain]
    least, most = (
        (sum(plain) + drafted * measured_cost) / (first.draft_seconds + sum(map(seconds, rounds)))
        for measured_cost in (min(measured_costs), max(measured_costs))
    )
    assert flow.speed_up is not None
    assert least - 1e-9 <= flow.speed_up <= most + 1e-9


def test_an_answer_that_hardly_drafts_is_hardly_slower_than_plain() -> None:
    """However much rounds take beside the pass, and however far the known price of a pass is from theirs."""
    one = next(said.round for said in rounds_of(list(answer("off"))))
    compared = Compared()
    for place in range(200):
        slow = replace(one, draft_seconds=0.01, verify_seconds=[1.0, 1.4][place % 2], host_seconds=0.1)
        compared.observe(slow)
    compared.measured_cost(0.8)
    assert compared.plain_seconds / compared.seconds == pytest.approx(1.3 / 1.31)
    compared.observe(replace(one, width=3, emitted=(1, 2, 3), draft_seconds=0.05, verify_seconds=2.0, host_seconds=0.1))
    saved = compared.plain_seconds - compared.seconds
    assert saved == pytest.approx(3 * 1.3 - 2.15 - 200 * 0.01, abs=0.05)


def test_tokens_of_drafts_cost_what_a_pass_did_when_they_came() -> None:
    drafted = replace(
        next(said.round for said in rounds_of(list(answer("off")))),
        width=2,
        emitted=(1, 2),
        draft_seconds=0.0,
        verify_seconds=1.0,
        host_seconds=0.0,
    )
    compared = Compared()
    compared.observe(drafted)
    assert compared.seconds == 0.0, "no price is known"
    for measured_cost in (0.5, 1.0):
        compared.measured_cost(measured_cost)
        compared.observe(drafted)
    assert (compared.plain_seconds, compared.seconds) == pytest.approx((2 * 0.5 + 2 * 1.0 + 2 * 1.0, 3.0))


def test_a_draft_model_that_reads_the_prompt_first_makes_the_answer_slower() -> None:
    """Its time is in the first round, whose pass is compared with nothing."""
    one = next(said.round for said in rounds_of(list(answer("off"))))
    plain = replace(one, draft_seconds=0.0, verify_seconds=0.009, host_seconds=0.0)
    compared = Compared()
    compared.measured_cost(0.009)
    compared.begin(replace(plain, draft_seconds=0.3, verify_seconds=5.0))
    assert compared.seconds == 0.0, "one round alone is compared with nothing"
    for _ in range(20):
        compared.observe(plain)
    assert compared.plain_seconds / compared.seconds == pytest.approx(0.18 / 0.48)


def test_nothing_is_compared_before_the_engine_told_of_its_costs_or_without_a_drafter() -> None:
    said = rounds_of(list(answer()))
    assert fed(said).stats.tokens_per_second is not None
    assert fed(said).speed_up is None
    assert fed(answer("off")).stats.tokens_per_second is not None
    assert (fed(answer("off")).speed_up, fed(answer("off")).session_speed_up) == (None, None)


def test_over_several_answers_the_times_are_added_and_not_the_speeds() -> None:
    fast, slow = answer(), answer("lookup")
    first, second = fed(fast), fed(slow)
    flow = fed(slow[1:], _begun_again(fed(fast)))
    assert (first.answers, flow.answers) == (1, 2)
    taken = plain = 0.0
    for alone in (first, second):
        assert alone.speed_up is not None
        begun, *rest = (said.round for said in rounds_of(list(fast if alone is first else slow)))
        took = begun.draft_seconds + sum(map(seconds, rest))
        taken, plain = taken + took, plain + took * alone.speed_up
    assert flow.session_speed_up == pytest.approx(plain / taken)
    assert first.session_speed_up == pytest.approx(first.speed_up)


def _begun_again(flow: Flow) -> Flow:
    flow.begin()
    return flow


def test_a_new_answer_starts_from_nothing_but_keeps_the_leaderboard() -> None:
    flow = _begun_again(fed(answer()))
    assert flow.running
    assert flow.stats == Flow(lambda: 1).stats
    assert (len(flow.beats), flow.origins.total(), flow.last, flow.finish, flow.speed_up) == (0, 0, None, None, None)
    before = {tally.name: tally.gained for tally in fed(answer()).leaderboard}
    assert {tally.name: tally.gained for tally in flow.leaderboard} == before
    after = fed(answer()[1:], flow)
    assert {tally.name: tally.gained for tally in after.leaderboard} == {name: 2 * n for name, n in before.items()}


def test_newly_loaded_models_start_over() -> None:
    flow = fed(answer())
    ready = part(answer(), Ready)
    assert isinstance(ready, Ready)
    flow.loading = ("toy", 0.5)
    flow.ready(ready)
    assert (flow.leaderboard, flow.answers, flow.session_speed_up, flow.loading, flow.running) == (
        [],
        0,
        None,
        None,
        False,
    )
    assert flow.context_used > 0, "the same model with another drafter still holds the conversation"
    flow.ready(replace(ready, model="another"))
    assert flow.context_used == 0


@pytest.mark.parametrize("drafter", ["toy", "lookup"])
def test_the_leaderboard_adds_up_to_the_answer(drafter: str) -> None:
    flow = fed(answer(drafter))
    stats, board = flow.stats, flow.leaderboard
    assert stats.drafted > 0
    assert sum(tally.drafted for tally in board) == stats.drafted
    assert sum(tally.accepted for tally in board) == stats.accepted
    assert sum(tally.drafts for tally in board) == stats.drafts
    assert sum(tally.gained for tally in board) == stats.emitted - stats.rounds
    assert [tally.gained for tally in board] == sorted((tally.gained for tally in board), reverse=True)
    assert all(tally.share == tally.accepted / tally.drafted for tally in board)
    assert len(board) == (2 if drafter == "toy" else 1)


def test_positions_and_the_split_of_time_are_those_of_the_counts() -> None:
    flow = fed(answer())
    stats = flow.stats
    assert list(flow.positions) == list(zip(stats.accepted_at, stats.drafted_at, strict=True))
    split = flow.time_split
    assert split is not None
    # Two ticks, one and one a round; and one for the drafter to begin.
    ticks = 4 * stats.rounds + 1
    expected = ((2 * stats.rounds + 1) / ticks, stats.rounds / ticks, stats.rounds / ticks)
    assert (split.draft, split.verify, split.host) == pytest.approx(expected)


def test_of_a_long_answer_the_last_rounds_are_kept() -> None:
    said = rounds_of(list(answer("off")))
    flow = fed(said * 6)
    assert len(said) * 6 > BEATS == len(flow.beats)


def test_the_context_grows_with_each_round_and_is_what_the_engine_holds() -> None:
    messages = answer()
    flow = Flow(lambda: 1)
    for message in messages:
        fed([message], flow)
        if isinstance(message, Said):
            assert flow.context_used == message.round.prefix_length + len(message.round.emitted)
        if isinstance(message, Watched):
            assert flow.context_used == message.held
    assert flow.context_size == 512
    assert flow.context_share == flow.context_used / 512


def test_a_full_context_holds_no_more_than_its_size() -> None:
    messages = answer("off")
    said = rounds_of(list(messages))[-1]
    flow = fed([part(messages, Ready), replace(said, round=replace(said.round, prefix_length=512))])
    assert (flow.context_used, flow.context_share) == (512, 1), "what ends the answer is decoded by nobody"
    fed([replace(part(messages, Watched), held=513)], flow)
    assert flow.context_used == 512


def test_memory_is_looked_at_once_a_second() -> None:
    looks: list[int] = []

    def memory() -> int:
        looks.append(len(looks))
        return 7 + len(looks)

    flow = Flow(memory)
    assert flow.memory is None
    said = rounds_of(list(answer()))[0]
    for now in (10.0, 10.4, 10.9, 11.0, 11.5, 13.0):
        flow.hear(said, now)
    assert (len(looks), flow.memory) == (3, 10)


def test_this_process_has_memory() -> None:
    flow = Flow()
    flow.hear(rounds_of(list(answer()))[0], 0.0)
    assert flow.memory is not None
    assert flow.memory > 1 << 20


def test_reading_ends_with_the_first_round_and_loading_when_the_engine_waits() -> None:
    flow = Flow(lambda: 1)
    flow.loading, flow.reading = ("toy", 0.1), Reading(3, 9)
    flow.hear(rounds_of(list(answer()))[0], 0.0)
    assert (flow.running, flow.reading) == (True, None)
    flow.idle()
    assert flow.loading is None


def test_a_stopped_answer_says_so_until_the_next() -> None:
    ended = part(answer(), Ended)
    assert isinstance(ended, Ended)
    flow = fed([*answer()[:-1], replace(ended, finish=Finish.CANCELLED)])
    assert flow.finish is Finish.CANCELLED
    assert not flow.running
    assert _begun_again(flow).finish is None


def test_why_a_draft_is_as_long_as_it_is_is_told_in_the_words_of_the_explanation() -> None:
    for messages in (answer("off"), answer(), answer("toy", adapt=True)):
        flow = fed(messages)
        assert flow.last is not None
        assert flow.length_reason == length_reason(flow.explanation, flow.last.draft.size)
    assert fed(answer("off")).length_reason == "no drafter"


def test_who_pauses_is_told_with_the_reason() -> None:
    (pause,) = fed(answer("toy", adapt=True)).pauses
    assert pause.name == "model:toy-0"
    assert pause.reason.startswith("no drafts: one step costs 1.00 of a target pass")
    assert (fed(answer()).pauses, fed(answer("off")).pauses) == ([], [])
