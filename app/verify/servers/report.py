"""Report of an audit as text, at most 100 columns wide, and as one JSON object."""

import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from app import __version__
from app.verify.servers.audit import LEAST_FLOOR, AuditedQuestion, Comparison, ServedForkKind, Side, Threshold
from app.verify.servers.findings import AuditFindings
from app.verify.servers.summary import FoundFork, Speed, Summary, never_best, place, speed, verdict
from models.system.counted import counted

SCHEMA = 1
"""Version of the record; goes up when a field changes its meaning or goes away."""
_WIDTH = 100
_LABEL = 20
_REPEATS = ("", "asked again", "asked after another question", "asked once more after it")
"""Circumstances of the answers of a single server, in their order."""


def report(findings: AuditFindings) -> str:
    """Return a line for each question, details of each fork, and the verdict."""
    summary = findings.summary()
    lines = [*_head(findings), "", *(_line(one, summary) for one in findings.questions)]
    lines += [f"{place(left.prompt, left.turn):<{_LABEL}} left out: {left.reason}" for left in findings.left_out]
    for found in summary.forks:
        lines += ["", *_fork(found, findings)]
    lines += ["", *_figures(findings, summary), ""]
    last = textwrap.wrap(verdict(summary, servers=len(findings.request.addresses)), _WIDTH)
    return "".join(f"{part}\n" for part in (*(part for line in lines for part in _wrapped(line)), *last))


def record(findings: AuditFindings) -> dict[str, Any]:
    """Return the audit as one JSON object. Speeds are tokens a second of wall time; log probabilities are natural."""
    request, summary = findings.request, findings.summary()
    failure = findings.failure
    return {
        "schema": SCHEMA,
        "localspec": __version__,
        "interrupted": findings.interrupted,
        "failure": failure and {"title": failure.title, "cause": failure.cause, "hint": failure.hint},
        "predict": request.max_tokens,
        "seed": request.seed,
        "servers": list(_servers(findings)),
        "notes": findings.notes,
        "left_out": [asdict(left) for left in findings.left_out],
        "threshold": {
            **asdict(summary.threshold), "floor": summary.threshold.floor, "gap": summary.threshold.gap
        },
        "summary": {
            "answers": summary.answers,
            "tokens": summary.tokens,
            "characters": summary.characters,
            "forks": len(summary.forks),
            "unexplained": len(summary.unexplained),
            "largest_gap": summary.largest_gap,
            "verdict": verdict(summary, servers=len(request.addresses)),
        },
        "forks": [_fork_record(found) for found in summary.forks],
        "questions": [_question_record(one) for one in findings.questions],
    }  # fmt: skip


def _head(findings: AuditFindings) -> Iterator[str]:
    for number, server in enumerate(findings.servers):
        model = server.model or "an unnamed model"
        yield f"{server.name:<7} {server.address.base}  {model}, {_logprobs(findings, number)}"
    yield f"greedy answers of at most {counted(findings.request.max_tokens, 'token')}, seed {findings.request.seed}"
    if findings.interrupted or findings.failure is not None:
        yield "Stopped: only the questions answered by then are shown."


def _logprobs(findings: AuditFindings, server: int) -> str:
    if findings.logprobs[server] is False:
        return "log probabilities refused"
    tokens = [token for answer in findings.answers_of(server) for token in answer.tokens or ()]
    if not tokens:
        return "tokens not reported"
    known = sum(1 for token in tokens if token.logprob is not None)
    return f"log probabilities of {known:,} of {counted(len(tokens), 'token')}"


def _line(one: AuditedQuestion, summary: Summary) -> str:
    """Return the line of one question: its worst fork, or the amount of equal text."""
    label = f"{place(one.prompt, one.turn):<{_LABEL}}"
    forks = [found for found in summary.forks if (found.prompt, found.turn) == (one.prompt, one.turn)]
    if not forks:
        times = f", {len(one.answers)} times" if len(one.comparisons) > 1 else ""
        return f"{label} same{times}: {_amount(one.comparisons[0])}"
    worst = min(forks, key=lambda found: found.kind is ServedForkKind.NEAR_TIE)
    return f"{label} {worst.kind} at {worst.where}, gap {worst.gap}"


_TWO_ANSWERS = ("first", "second")


def _fork(found: FoundFork, findings: AuditFindings) -> Iterator[str]:
    single = len(findings.servers) == 1
    when = f" when {_REPEATS[found.answer]}" if single else ""
    yield f"{place(found.prompt, found.turn)}{when}: {found.kind} at {found.where}, after {found.fork.before!r}"
    names = ("at first", "then") if single else _TWO_ANSWERS
    for name, side in zip(names, found.fork.sides, strict=True):
        yield f"  {name:<9} {_side_words(side)}"


def _side_words(side: Side) -> str:
    words = "ended" if side.ended else f"said {side.text!r}"
    if side.lead is None or side.gap is None:
        return f"{words}; gap not known"
    lead = f"{'at least ' if side.at_least else ''}{abs(side.lead):.3g} {'ahead of' if side.lead >= 0 else 'behind'}"
    return f"{words}, {lead} what the other answer has; the two likeliest are {side.gap:.3g} apart"


def _figures(findings: AuditFindings, summary: Summary) -> Iterator[str]:
    near = len(summary.forks) - len(summary.unexplained)
    yield f"compared     {counted(summary.answers, 'answer')}, {counted(summary.tokens, 'token')}" + (
        f", and {counted(summary.characters, 'character')} where tokens were not reported" if summary.characters else ""
    )
    yield f"forks        {len(summary.forks)}: {near} at near-ties, {len(summary.unexplained)} unexplained"
    if summary.largest_gap is not None:
        yield f"largest gap  {summary.largest_gap:.3g}"
    yield f"explained    {_threshold(summary.threshold)}"
    for number, server in enumerate(findings.servers):
        answers = findings.answers_of(number)
        yield f"{server.name:<12} {_speed(speed(answers))}"
        count, gap = never_best(answers)
        if count:
            why = "penalties, rounding, or not greedy"
            yield f"{'':<12} ranks {count} of its own tokens behind another, by up to {gap:.3g}: {why}"


def _threshold(limit: Threshold) -> str:
    gap = f"a gap (both leads together) up to {limit.gap:.3g}"
    text = f"{gap}, what two log probabilities close that move by {limit.floor:.3g} each: "
    if not limit.places:
        return f"{text}the minimum assumed, as no log probabilities could be compared before a fork"
    seen = f"{limit.difference:.3g} is the largest difference seen of one at {limit.places:,} places that agree"
    if limit.difference < limit.floor:
        return f"{text}{seen}, {LEAST_FLOOR:.3g} the minimum assumed"
    if limit.difference > limit.floor:
        return f"{text}{seen}, more than rounding causes: other weights, another cache type, or a fault"
    return f"{text}{seen}"


def _speed(found: Speed) -> str:
    if found.tokens_per_second is None:
        pace = "speed not known"
    else:
        tokens = counted(found.tokens, "token")
        pace = f"{found.tokens_per_second:.1f} tokens/s of wall time, prompts included ({tokens})"
    if found.drafted is None:
        return f"{pace}; does not report whether it drafted"
    return f"{pace}; {found.accepted:,} of {found.drafted:,} drafted tokens accepted"


def _amount(comparison: Comparison) -> str:
    return f"{comparison.compared:,} {'tokens' if comparison.by_tokens else 'characters'}"


def _servers(findings: AuditFindings) -> Iterator[dict[str, Any]]:
    for number, server in enumerate(findings.servers):
        answers = findings.answers_of(number)
        found, (count, gap) = speed(answers), never_best(answers)
        yield {
            "name": server.name,
            "url": server.address.base,
            "model": server.model or None,
            "takes_logprobs": findings.logprobs[number],
            **asdict(found),
            "tokens_per_second": found.tokens_per_second,
            "not_best": {"tokens": count, "gap": gap},
        }


def _fork_record(found: FoundFork) -> dict[str, Any]:
    fork = found.fork
    return {**asdict(found), "fork": {**asdict(fork), "gap": fork.moved, "at_least": fork.at_least}}


def _question_record(one: AuditedQuestion) -> dict[str, Any]:
    answers = [
        {
            "text": answer.text,
            "tokens": None if answer.tokens is None else len(answer.tokens),
            "finish": answer.finish,
            "seconds": answer.seconds,
        }
        for answer in one.answers
    ]
    compared = [{"by_tokens": each.by_tokens, "compared": each.compared} for each in one.comparisons]
    return {
        "prompt": one.prompt, "class": one.class_name, "turn": one.turn, "answers": answers, "comparisons": compared
    }  # fmt: skip


def _wrapped(line: str) -> list[str]:
    """Break a long line; the rest is indented like the values of the table."""
    indent = " " * 13
    return textwrap.wrap(line, _WIDTH, subsequent_indent=indent, break_on_hyphens=False) or [""]
