"""Record of a benchmark as one JSON object. `SCHEMA` goes up when a field changes its meaning or goes away."""

from dataclasses import asdict
from typing import Any

from app import __version__
from app.bench.findings import BenchFindings
from app.bench.league_report import verdict
from app.bench.measuring.arms import ArmAnswer

SCHEMA = 1


def record(findings: BenchFindings) -> dict[str, Any]:
    """Return conditions, results by temperature, class and arm, and every answer.

    Speeds are in tokens a second, times in seconds. Fields are those of `Result`, `Overall`, `BenchConditions` and
    `ArmAnswer`; `league`, null without `--vs all`, has those of `ClassLeague`; `curve` is T(w) by width,
    `oracle_widest` the oracle's widest pass. `prompt_tokens` is left out.
    """
    request, conditions = findings.request, findings.conditions
    assert conditions is not None, "answers come after loading"
    oracle = conditions.oracle
    return {
        "schema": SCHEMA,
        "localspec": __version__,
        "interrupted": findings.interrupted,
        "model": conditions.model,
        "description": conditions.description,
        "draft_model": conditions.draft,
        "context_size": conditions.context_size,
        "exact_draft": conditions.exact_draft,
        "longest_draft": conditions.longest,
        "allow_rounding": request.allow_rounding,
        "suite": request.suite,
        "predict": request.max_tokens,
        "arms": list(conditions.arms) or [str(arm) for arm in request.arms],
        "sampling": [asdict(sampling) for sampling in request.samplings],
        "notes": findings.notes,
        "skipped": [asdict(skipped) for skipped in findings.skipped],
        "curve": oracle.curve.measured if oracle else None,
        "oracle_widest": oracle.widest if oracle else None,
        "results": [asdict(result) for result in findings.results()],
        "overall": [asdict(arm) for arm in findings.overall()],
        "league": _league(findings) if request.league else None,
        "answers": [_answer(answer) for answer in findings.answers],
    }


def _league(findings: BenchFindings) -> dict[str, Any]:
    """Return the methods that can't be used, the leagues, and a verdict for each temperature."""
    assert findings.conditions is not None, "leagues come after loading"
    overall, found = findings.overall(), findings.leagues()
    temperatures = dict.fromkeys(league.temperature for league in found)
    return {
        "unavailable": [asdict(each) for each in findings.conditions.unavailable],
        "classes": [asdict(league) for league in found],
        "verdicts": [
            {
                "temperature": heat,
                "verdict": verdict(
                    [league for league in found if league.temperature == heat],
                    [arm for arm in overall if arm.temperature == heat],
                ),
            }
            for heat in temperatures
        ],
    }


_OMITTED = ("prompt_tokens", "grammar", "preface")
"""Fields left out: the tokens of long prompts, equal for every arm."""


def _answer(answer: ArmAnswer) -> dict[str, Any]:
    fields = {name: value for name, value in asdict(answer).items() if name not in _OMITTED}
    return {**fields, "seconds": answer.seconds, "first_token_seconds": answer.first_token_seconds}
