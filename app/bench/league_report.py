"""League tables of a benchmark as text, at most 100 columns wide."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from app.bench.columns import WIDTH, interval, number, percent, table
from app.bench.measuring.arms import PLAIN
from app.bench.measuring.league import AS_FAST, ClassLeague, MethodFigures
from app.bench.measuring.methods import Unavailable
from app.bench.measuring.results import Overall
from drafters.registry import AUTO

_PLACES = 4
"""Draft positions whose acceptance is shown; JSON has them all."""
_COLUMNS = (
    ("method", "<12"), ("speed-up", ">8"), ("95 %", ">9"), ("usual", ">6"), ("tokens", ">6"), ("accepted", ">8"),
    ("by place", ">15"), ("cost/token", ">10"), ("cost/round", ">10"), ("pass", ">5"),
)  # fmt: skip
_LEGEND = (
    "League: speed-up over plain decoding of equal prompts, its 95 % interval, and once more at usual pass costs. "
    "tokens: emitted per round. accepted: share of drafted tokens, then by place in the draft, in percent. cost: "
    "drafting, in one-token passes, per drafted token and per round, the reading of the prompt included. pass: the "
    "target's pass in a round. Methods and papers: localspec help methods."
)


def unavailable_lines(unavailable: Iterable[Unavailable]) -> list[str]:
    """Return a line for each method that can't be measured, with the reason."""
    return [f"not available: {each.method}, {each.reason}" for each in unavailable]


def league_lines(leagues: Sequence[ClassLeague], overall: Sequence[Overall]) -> Iterator[str]:
    """Yield the tables and the verdict of each temperature, and the legend."""
    for temperature, group in groupby(leagues, key=lambda league: league.temperature):
        members = list(group)
        yield from (f"Temperature {temperature:g}", "")
        for league in members:
            yield from (f"League: {league.class_name}", *table(_COLUMNS, map(_cells, league.methods)))
            yield from _wrapped(_auto_line(league))
            yield ""
        arms = [each for each in overall if each.temperature == temperature]
        yield from ("Verdict", *_wrapped(verdict(members, arms)), "")
    yield from textwrap.wrap(_LEGEND, WIDTH)


def verdict(leagues: Sequence[ClassLeague], overall: Sequence[Overall]) -> str:
    """Return the fastest method over all classes of a temperature, how near `auto` comes, and what does not pay."""
    single = sorted((arm for arm in overall if arm.arm != AUTO), key=lambda arm: -arm.speed_up)
    paying = [arm for arm in single if arm.speed_up > 1]
    parts = [
        f"fastest single method: {_named(paying[0])}" if paying else "no single method is faster than plain decoding"
    ]
    parts += [_auto_words(leagues, arm) for arm in overall if arm.arm == AUTO]
    if losing := [_named(arm) for arm in single if arm.speed_up <= 1]:
        parts.append(f"does not pay here: {', '.join(losing)}")
    forks: Counter[str] = Counter()
    for row in (row for league in leagues for row in league.methods):
        forks[row.method] += row.forks
    if any(forks.values()):
        counts = ", ".join(f"{method} {count}" for method, count in forks.items() if count)
        parts.append(f"answers differ from plain decoding's: {counts}")
    return "; ".join(parts)


def _auto_words(leagues: Sequence[ClassLeague], auto: Overall) -> str:
    shares = [share for league in leagues if (share := league.auto_share) is not None]
    near = sum(share >= AS_FAST for share in shares)
    worst = min((league for league in leagues if league.auto), key=lambda league: _speed(league.auto))
    words = f"auto: {auto.speed_up:.2f}, as fast as the fastest single method in {near} of {len(shares)} classes"
    return f"{words}, at least {_speed(worst.auto):.2f} of plain ({worst.class_name})"


def _speed(figures: MethodFigures | None) -> float:
    return figures.speed_up or 0.0 if figures else 0.0


def _named(arm: Overall) -> str:
    bounds = f", {interval(arm.interval)}" if arm.interval else ""
    return f"{arm.arm} ({arm.speed_up:.2f}{bounds})"


def _auto_line(league: ClassLeague) -> str:
    if not league.auto_rounds:
        return ""
    shares = ", ".join(f"{method} {share:.0%}" for method, share in league.auto_rounds)
    return f"auto drafted with, of its rounds: {shares}"


def _cells(row: MethodFigures) -> list[str]:
    is_plain = row.method == PLAIN
    places = [f"{share * 100:.0f}" for share in row.acceptance[:_PLACES]]
    return [
        row.method,
        number(row.speed_up, 2),
        "" if is_plain else interval(row.interval),
        "" if is_plain else number(row.usual_speed_up, 2),
        number(row.tokens_a_round, 2),
        "" if is_plain else percent(row.acceptance_rate),
        " ".join(places),
        "" if is_plain else number(row.cost_a_token, 3),
        "" if is_plain else number(row.cost_a_round, 3),
        number(row.pass_cost, 2),
    ]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ")
