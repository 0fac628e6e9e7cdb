"""Report of a benchmark as text, at most 100 columns wide."""

import textwrap
from collections.abc import Iterable, Sequence
from itertools import groupby

from app.bench.columns import WIDTH, cut, interval, number, percent, short, table
from app.bench.findings import BenchFindings
from app.bench.league_report import league_lines, unavailable_lines
from app.bench.measuring.benchmark import BenchConditions
from app.bench.measuring.results import Overall, Result, milliseconds
from models.system.counted import counted

_A_TENTH = 0.0995
"""Seconds that are "0.10" in two digits."""
_POSITIONS = 8
"""Draft positions whose acceptance is shown; JSON has them all."""
_COLUMNS = (
    ("class", "<10"), ("arm", "<10"), ("tokens/s", ">8"), ("speed-up", ">8"), ("95 %", ">9"), ("worst", ">6"),
    ("gap p50/p95", ">13"), ("first", ">7"), ("length", ">6"), ("cover", ">5"), ("oracle", ">6"),
)  # fmt: skip
_LEGEND = (
    "speed-up: over the arm off on equal prompts, geometric mean, its 95 % bootstrap interval and the worst prompt. "
    "gap: time per token, averaged over 8 tokens. first: time to the first token. length: tokens emitted per round "
    "with a draft. cover: share of rounds with a draft. oracle: speed over that of a drafter that knows the answer. "
    "usual cost: each pass counts as the median of its width in its class, without other work of the machine."
)


def report(findings: BenchFindings) -> str:
    """Return tables and verdicts of all temperatures."""
    assert findings.conditions is not None, "answers come after loading"
    lines = [part for line in _head(findings, findings.conditions) for part in textwrap.wrap(line, WIDTH)]
    lines.append("")
    overall = findings.overall()
    if findings.request.league:
        return "\n".join([*lines, *league_lines(findings.leagues(), overall)]) + "\n"
    for temperature, group in groupby(findings.results(), key=lambda result: result.temperature):
        results = list(group)
        arms = [arm for arm in overall if arm.temperature == temperature]
        lines += [f"Temperature {temperature:g}", "", *_table(results), *_overall(arms), ""]
        lines += _usual(results, arms)
        lines += _energy(results)
        lines += ["Acceptance rate by position in the draft, of drafts that reached it", *_positions(results), ""]
        lines += ["Verdict", *_verdicts(results), ""]
    return "\n".join([*lines, *textwrap.wrap(_LEGEND, WIDTH)]) + "\n"


def _head(findings: BenchFindings, conditions: BenchConditions) -> list[str]:
    request = findings.request
    lines = [f"{conditions.model} ({conditions.description})"]
    if conditions.draft:
        lines.append(f"draft model {conditions.draft}")
    if request.suite:
        lines.append(f"prompts of {request.suite}: {len({answer.prompt for answer in findings.answers})}")
    lines.append(f"answers of at most {counted(request.max_tokens, 'token')}, seed {request.samplings[0].seed}")
    lines.append(_drafts(conditions, allow_rounding=request.allow_rounding))
    if findings.interrupted:
        lines.append("Stopped: only the prompts that every arm had answered are shown.")
    return lines + unavailable_lines(conditions.unavailable) + _skipped(findings)


def _drafts(conditions: BenchConditions, *, allow_rounding: bool) -> str:
    longest = f"drafts of at most {counted(conditions.longest, 'token')}"
    if allow_rounding:
        return f"{longest}; exact on this machine up to {conditions.exact_draft}"
    if conditions.exact_draft == 0:
        return f"{longest}; no draft is exact on this machine"
    return f"{longest}, all exact on this machine (longer: --allow-rounding)"


def _skipped(findings: BenchFindings) -> list[str]:
    counts: dict[tuple[str, str], set[str]] = {}
    for skipped in findings.skipped:
        counts.setdefault((skipped.class_name, skipped.reason), set()).add(skipped.prompt)
    return [f"left out of {name}: {len(prompts)}, {reason}" for (name, reason), prompts in counts.items()]


def _table(results: Sequence[Result]) -> list[str]:
    rows: list[list[str]] = []
    for _, members in groupby(results, key=lambda result: result.class_name):
        group = list(members)
        rows += [_cells(result, group[0].class_name if result is group[0] else "") for result in group]
    return table(_COLUMNS, rows)


def _cells(result: Result, class_name: str) -> list[str]:
    plain = result.verdict is None
    return [
        class_name,
        result.arm,
        number(result.tokens_per_second, 1),
        number(result.speed_up, 2),
        "" if plain else interval(result.interval),
        "" if plain or result.worst is None else f"{result.worst[1]:.2f}",
        f"{milliseconds(result.gap_p50)}/{milliseconds(result.gap_p95)} ms",
        _wait(result.first_token_seconds),
        "" if plain else number(result.mean_acceptance_length, 2),
        "" if plain else percent(result.coverage),
        percent(result.oracle_share),
    ]


def _overall(arms: Sequence[Overall]) -> list[str]:
    names = ["all", *[""] * len(arms)]
    return [_row(name, arm.arm, arm.speed_up, arm.interval) for name, arm in zip(names, arms, strict=False)]


def _usual(results: Sequence[Result], arms: Sequence[Overall]) -> list[str]:
    """Return the speed-ups at usual pass costs, as on an idle machine."""
    named = [(result.class_name, result.arm, result.steady) for result in results]
    named += [("all", arm.arm, arm.steady) for arm in arms]
    lines = [
        _row(name, arm, steady.speed_up, steady.interval)
        + (f" {steady.worst[1]:>6.2f} {steady.worst[0]}" if steady.worst else "")
        for name, arm, steady in named
        if steady is not None
    ]
    return ["Speed-up with every pass at its usual cost, and the worst prompt", *lines, ""] if lines else []


def _energy(results: Sequence[Result]) -> list[str]:
    """Return the joules a token by class and arm; nothing where the machine does not tell."""
    lines = []
    for name, members in groupby(results, key=lambda result: result.class_name):
        shown = [f"{one.arm} {one.joules_per_token:.3g}" for one in members if one.joules_per_token is not None]
        if shown:
            lines.append(f"{cut(name, '<10'):<10} {', '.join(shown)}")
    return ["Joules a token, of the whole processor after the prompt was read", *lines, ""] if lines else []


def _row(name: str, arm: str, speed_up: float, bounds: tuple[float, float] | None) -> str:
    """Return a line whose figures are aligned with those of the table."""
    return f"{cut(name, '<10'):<10} {cut(arm, '<10'):<10} {'':>8} {speed_up:>8.2f} {interval(bounds):>9}"


def _positions(results: Sequence[Result]) -> list[str]:
    lines = []
    for result in results:
        pairs = list(zip(result.accepted_at, result.drafted_at, strict=True))
        shares = [f"{place}: {percent(right / all_)}" for place, (right, all_) in enumerate(pairs[:_POSITIONS], 1)]
        if shares:
            more = "  ..." if len(pairs) > _POSITIONS else ""
            lines.append(f"{result.class_name[:10]:<10} {result.arm:<10} {'  '.join(shares)}{more}")
    return lines or ["nothing was drafted"]


def _verdicts(results: Sequence[Result]) -> Iterable[str]:
    lines: list[str] = []
    for result in results:
        if result.verdict is not None:
            word = "promote" if result.verdict.promote else "keep off"
            text = f"{result.class_name[:10]:<10} {result.arm:<10} {word}: {'; '.join(result.verdict.reasons)}"
            lines += textwrap.wrap(text, WIDTH, subsequent_indent=" " * 22)
    return lines or ["there is nothing to compare: name arms with --vs"]


def _wait(seconds: float | None) -> str:
    """Return a time to the first token in two or three digits; a very small model takes under a hundredth second."""
    if seconds is None:
        return "-"
    return f"{short(seconds)} s" if seconds >= _A_TENTH else f"{seconds * 1000:.2g} ms"
