"""Which setting is taken: never one whose exact drafts are shorter, unless rounding is allowed; never one for noise."""

import pytest

from app.engine.costs.tuned import Setting
from app.tune.measuring.choice import Measure, as_exact, best, verdict

CURVE = {1: 1.0, 2: 1.6, 3: 2.1, 4: 2.4, 6: 4.4, 8: 6.3}


def measure(
    label: str, speed: float = 1.0, exact: dict[int, int] | None = None, depths: tuple[int, ...] = (16, 512)
) -> Measure:
    seconds = {depth: {width: spent / speed for width, spent in CURVE.items()} for depth in depths}
    return Measure(label, Setting(2, 2), seconds, {16: 3, 512: 3} if exact is None else exact)


DEFAULT = measure("default")


def test_the_quicker_of_two_exact_settings_is_taken() -> None:
    quick = measure("quick", 1.2)
    assert best([DEFAULT, measure("slow", 0.8), quick], allow_rounding=False) is quick
    assert "chosen" in verdict(quick, DEFAULT, quick, allow_rounding=False)


@pytest.mark.parametrize("exact", [{16: 3, 512: 1}, {16: 1, 512: 3}, {16: 3}, {}, {16: 3, 200: 3}])
def test_speed_never_buys_a_shorter_exact_draft(exact: dict[int, int]) -> None:
    quick = measure("quick", 3.0, exact)
    assert best([DEFAULT, quick], allow_rounding=False) is DEFAULT
    assert best([DEFAULT, quick], allow_rounding=True) is quick, "a rule that only looks at speed would take it"


def test_a_default_seen_at_the_start_alone_does_not_lower_the_bar() -> None:
    default = measure("default", exact={16: 3}, depths=(16,))
    assert not as_exact(measure("quick", 3.0, {16: 3}, depths=(16,)), default)


def test_a_gain_within_noise_changes_nothing() -> None:
    assert best([DEFAULT, measure("same", 1.02)], allow_rounding=False) is DEFAULT


def test_longer_exact_drafts_are_worth_something() -> None:
    wider = measure("wider", 1.0, {16: 8, 512: 8})
    cheap = {depth: {**seconds, 6: 2.5, 8: 2.6} for depth, seconds in wider.seconds.items()}
    wider = Measure("wider", wider.setting, cheap, wider.exact)
    assert best([DEFAULT, wider], allow_rounding=False) is wider


def test_settings_are_compared_where_both_were_measured() -> None:
    start_alone = measure("start alone", 1.5, depths=(16,))
    assert best([DEFAULT, start_alone], allow_rounding=False) is start_alone
    assert best([DEFAULT, measure("elsewhere", 9.0, depths=(99,))], allow_rounding=False) is DEFAULT


def test_a_sentence_says_what_a_choice_buys_and_costs() -> None:
    rounds = measure("no flash attention", 1.25, {16: 3, 512: 1})
    assert verdict(rounds, DEFAULT, DEFAULT, allow_rounding=False) == (
        "no flash attention: 20% faster than the default at 512 tokens; exact up to 1 token per pass, the default "
        "up to 3: only with --allow-rounding."
    )
    slow = measure("slow", 0.5)
    assert "100% slower" in verdict(slow, DEFAULT, DEFAULT, allow_rounding=False)
    assert "no gain" in verdict(slow, DEFAULT, DEFAULT, allow_rounding=False)
    unseen = measure("unseen", 1.5, {16: 3}, depths=(16,))
    assert "no time to check exactness beyond 256 tokens" in verdict(unseen, DEFAULT, DEFAULT, allow_rounding=False)
    other = measure("other", 1.2)
    assert "another is faster" in verdict(other, DEFAULT, measure("best", 2.0), allow_rounding=False)
