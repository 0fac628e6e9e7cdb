"""From answers to results and verdicts, on answers whose figures can be worked out by hand."""

from dataclasses import replace

import pytest
from bench_fakes import answer

from app.bench.measuring.arms import ArmAnswer
from app.bench.measuring.results import Oracle, Result, judge, overall, results
from app.engine.costs.pass_cost import VerifyCurve
from app.engine.decoding.stats import Stats

PLAIN = [answer("off", "p", [(1.0, 1)] * 12), answer("off", "q", [(2.0, 1)] * 12)]


def beside(*answers: ArmAnswer) -> list[Result]:
    return results([*PLAIN, *answers], None)


def test_a_speed_up_is_the_geometric_mean_over_prompts_of_the_same_prompts_ratio() -> None:
    off, arm = beside(answer("a", "p", [(2.0, 4)] * 3), answer("a", "q", [(8.0, 4)] * 3))
    assert (off.speed_up, off.tokens_per_second, off.verdict) == (1, pytest.approx(24 / 36), None)
    assert arm.speed_up == pytest.approx(2**0.5), "twice on p, 1 on q"
    assert arm.worst == ("q", pytest.approx(1))
    assert arm.interval is not None
    assert arm.interval[0] < 1 < 2 < arm.interval[1], "two prompts say little"
    assert (arm.prompts, arm.answers, arm.tokens) == (2, 2, 24)


def test_joules_a_token_are_known_only_where_those_of_all_answers_are() -> None:
    known = [answer("a", prompt, [(1.0, 4)] * 3, joules=6.0) for prompt in "pq"]
    assert beside(*known)[1].joules_per_token == 0.5
    assert beside(known[0], replace(known[1], joules=None))[1].joules_per_token is None


def test_all_turns_of_a_prompt_count_as_one() -> None:
    turns = [answer("off", "p", [(1.0, 1)] * 4), answer("off", "p", [(1.0, 1)] * 12, turn=1)]
    arm = [answer("a", "p", [(4.0, 4)]), answer("a", "p", [(4.0, 12)], turn=1)]
    result = results([*turns, *arm], None)[1]
    assert (result.prompts, result.answers, result.speed_up) == (1, 2, pytest.approx(2))


def test_counts_are_added_up_before_they_are_divided() -> None:
    one = Stats(
        rounds=4, drafts=2, drafted=6, accepted=3, emitted_when_drafted=5, drafted_at=[2, 2], accepted_at=[2, 1]
    )
    two = Stats(rounds=6, drafts=1, drafted=1, accepted=1, emitted_when_drafted=4, drafted_at=[1], accepted_at=[1])
    arm = beside(
        answer("a", "p", [(1.0, 12)], stats=one.snapshot()), answer("a", "q", [(1.0, 12)], stats=two.snapshot())
    )[1]
    assert arm.coverage == pytest.approx(3 / 10)
    assert arm.acceptance_rate == pytest.approx(4 / 7)
    assert arm.mean_acceptance_length == pytest.approx(9 / 3)
    assert (arm.drafted_at, arm.accepted_at) == ((3, 2), (3, 1))


def test_what_was_never_drafted_has_no_rates() -> None:
    off = beside()[0]
    assert (off.acceptance_rate, off.mean_acceptance_length, off.drafted_at) == (None, None, ())


def test_the_time_to_first_token_is_the_median_of_reading_and_first_round() -> None:
    arm = beside(answer("a", "p", [(2.0, 12)]), answer("a", "q", [(4.0, 12)]))[1]
    assert arm.first_token_seconds == pytest.approx(0.5 + 3)


def test_the_share_of_the_oracle_is_measured_from_the_plain_speed_of_the_prompt() -> None:
    oracle = Oracle(VerifyCurve({1: 10.0, 4: 15.0}), widest=4)
    off, arm = results([*PLAIN, answer("a", "p", [(2.0, 4)] * 3), answer("a", "q", [(8.0, 4)] * 3)], oracle)
    # Four tokens a pass at 1.5 of the price: 8/3 of plain at best.
    assert off.oracle_share == pytest.approx(3 / 8)
    assert arm.oracle_share == pytest.approx(2**0.5 * 3 / 8)


def test_classes_and_temperatures_stay_apart() -> None:
    warm = [replace(one, temperature=0.7) for one in PLAIN]
    code = [replace(one, class_name="code") for one in PLAIN]
    found = results([*PLAIN, *code, *warm], None)
    assert [(result.temperature, result.class_name) for result in found] == [(0, "chat"), (0, "code"), (0.7, "chat")]


def test_over_all_classes_each_weighs_the_same() -> None:
    fast = [answer("a", name, [(3.0 * plain, 12)]) for name, plain in (("p", 1.0), ("q", 2.0))]
    code = replace(PLAIN[0], class_name="code", prompt="c")
    same = replace(code, arm="a")
    (arm,) = overall([*PLAIN, code, *fast, same], None)
    assert arm.speed_up == pytest.approx((4 * 1) ** 0.5), "four times on chat, once on code"
    assert arm.interval is None, "code has one prompt"
    assert arm.steady is None, "no curve was measured"


def test_with_a_curve_the_speed_ups_come_at_usual_prices_too() -> None:
    oracle = Oracle(VerifyCurve({1: 1.0, 4: 2.0}), widest=4)
    slow = [answer("a", "p", [(2.0, 4), (2.0, 4), (7.0, 4)]), answer("a", "q", [(4.0, 4)] * 3)]
    code = [replace(one, class_name="code") for one in PLAIN]
    off, arm, *_ = results([*PLAIN, *slow], oracle)
    assert off.steady is None
    assert arm.steady is not None
    assert arm.steady.speed_up == pytest.approx(2), "two plain passes for four tokens; the pass of 7 s was disturbed"
    assert arm.steady.worst is not None
    assert arm.speed_up == pytest.approx((12 / 11 * 2) ** 0.5)
    (every,) = overall([*PLAIN, *slow, *code, *(replace(one, arm="a") for one in code)], oracle)
    assert every.steady is not None
    assert every.steady.speed_up == pytest.approx(2**0.5), "twice on chat, once on code"
    assert every.steady.worst is None


def result(**changed: object) -> Result:
    return replace(beside()[0], **changed)  # type: ignore[arg-type]


OFF = result(gap_p95=0.040)
GOOD = result(arm="a", speed_up=1.2, gap_p95=0.030, coverage=0.5)


def test_promoted_is_what_is_better_in_its_gaps_keeps_the_speed_and_the_text() -> None:
    assert judge(GOOD, OFF).promote
    assert judge(replace(GOOD, speed_up=0.95), OFF).promote
    assert judge(GOOD, OFF).reasons == ("speed 1.20 of plain", "p95 gap 30 ms, plain 40", "same tokens")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"speed_up": 0.949}, "speed 0.94 of plain, 0.95 needed"),
        ({"speed_up": 0.712}, "speed 0.71 of plain, 0.95 needed"),
        ({"speed_up": None}, "0.95 needed"),
        ({"gap_p95": 0.040}, "p95 gap 40 ms, plain 40: not better, at speed 1.20 of plain"),
        ({"gap_p95": None}, "no p95 gap, as the answers are too short"),
        ({"coverage": 0.0}, "nothing was drafted"),
        ({"forks": (("p", 0, 7),)}, "1 of 2 answers differ"),
    ],
)
def test_one_reason_against_it_is_enough(changed: dict[str, object], words: str) -> None:
    verdict = judge(replace(GOOD, **changed), OFF)  # type: ignore[arg-type]
    assert not verdict.promote
    assert len(verdict.reasons) == 1
    assert words in verdict.reasons[0]
