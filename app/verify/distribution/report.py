"""Report of a distribution check as text, at most 100 columns wide, and as one JSON object.

`SCHEMA` goes up when a field changes its meaning or goes away.
"""

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from app import __version__
from app.bench.measuring.arms import Skipped
from app.verify.distribution.findings import Bound, DistributionFindings, Fit, KeptShare
from app.verify.distribution.places import SamplingPlace
from app.verify.distribution.request import StatisticsRequest
from models.errors import DivergedError
from models.sampling.accept import Accept

SCHEMA = 1
_WIDTH = 100
_LABEL = 13
_FITS = (
    ("counted", "<16"), ("place", "<14"), ("samples", ">8"), ("cells", ">6"), ("chi-square", ">11"), ("p", ">8"),
    ("G", ">9"), ("p", ">8"),
)  # fmt: skip
_SHARES = (
    ("first proposals", "<16"), ("place", "<14"), ("drafted", ">8"), ("accepted", ">8"), ("99 %", ">17"),
    ("expected", ">9"), ("p", ">8"),
)  # fmt: skip
_LEGEND = (
    "p: probability of counts that fit this badly or worse if nothing is wrong. accepted, replacement: first tokens "
    "that were drafted, or replaced a draft token. bonus: tokens after an accepted draft, or after a sibling."
)
_DISCIPLINE = (
    "A suspicious p is checked twice more with other seeds. It is reported as a deviation only if it is suspicious "
    "each time, which happens by chance less than once in a million checks."
)


@dataclass(frozen=True, slots=True)
class CheckConditions:
    """Conditions of a check."""

    model: str
    description: str
    draft_model: str | None
    longest: int
    """Longest draft in tokens."""


@dataclass(slots=True)
class Checked:
    """Request of a check, and its findings."""

    request: StatisticsRequest
    conditions: CheckConditions | None = None
    """None until the models are loaded."""
    findings: DistributionFindings | None = None
    """None where no answer was drawn."""
    notes: list[str] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    interrupted: bool = False

    @property
    def shows_nothing(self) -> bool:
        """Whether the check is finished, but has too few samples for a verdict."""
        if self.findings is None or self.interrupted or self.request.accept is Accept.TYPICAL:
            return False
        return not (self.findings.deviating or (self.findings.found.fits and self.findings.guessed))

    def check(self) -> None:
        """Raise DivergedError for a deviation."""
        if self.findings is None or not self.findings.deviating:
            return
        raise DivergedError(
            "Drafted text does not have the target's own distribution.",
            cause=f"In three ranges of seeds, too unlikely for chance: {'; '.join(self.findings.deviating)}.",
            hint="Please report it, with what was printed. With --allow-rounding, leave that out first.",
        )


def verdict(checked: Checked) -> str:
    """Return the verdict in plain words."""
    findings = checked.findings
    assert findings is not None, "the caller checks for findings"
    if checked.request.accept is Accept.TYPICAL:
        first, *_, last = (_small(bound.measured) for bound in findings.found.bounds)
        return (
            "Approximate: the typical rule changes the distribution. By these counts the total variation distance from "
            f"the target's own is {first} for the first token, and {last} for the first three, noise included."
        )
    if findings.deviating:
        return f"DEVIATES from the target's own distribution: {'; '.join(findings.deviating)}."
    if checked.interrupted:
        return "Stopped, so there is no verdict; the bounds hold for what was drawn."
    if checked.shows_nothing:
        return "No result: too few answers, or too few of them with a draft, to compare token frequencies."
    if findings.suspicious:
        return f"{_FITS_TEXT} Suspicious at first, but not again with other seeds: {'; '.join(findings.suspicious)}."
    return _FITS_TEXT


_FITS_TEXT = "Fits: token frequencies with drafting agree with the target's own distribution."


def report(checked: Checked) -> str:
    """Return settings, places, tables, bounds and the verdict, in this order."""
    findings = checked.findings
    assert findings is not None, "the caller checks for findings"
    lines = [f"Distribution check of localspec {__version__}", ""]
    for label, text in _facts(checked, findings):
        lines += _labelled(label, text)
    lines += ["", *_table(_FITS, [_fit(fit) for fit in findings.found.fits]), ""]
    if findings.found.shares:
        lines += [*_table(_SHARES, [_share(share) for share in findings.found.shares]), ""]
    legend = f"{_LEGEND} {_DISCIPLINE}" if checked.request.accept.exact else _LEGEND
    lines += [*textwrap.wrap(legend, _WIDTH), "", *(_bound(bound) for bound in findings.found.bounds), ""]
    return "\n".join([*lines, *textwrap.wrap(verdict(checked), _WIDTH)]) + "\n"


def record(checked: Checked) -> dict[str, Any]:
    """Return the check as one JSON object; fields are those of `DistributionFindings`, `Found` and their parts."""
    findings, conditions, request = checked.findings, checked.conditions, checked.request
    assert findings is not None, "the caller checks for findings"
    assert conditions is not None, "answers come after loading"
    return {
        "type": "distribution",
        "schema": SCHEMA,
        "localspec": __version__,
        "verdict": verdict(checked),
        "interrupted": checked.interrupted,
        **asdict(conditions),
        "drafter": request.arm.kind,
        "draft_lengths": findings.lengths,
        "siblings": findings.siblings,
        "accept": request.accept.value,
        "approximate": not request.accept.exact,
        "allow_rounding": request.bench.allow_rounding,
        "sampling": asdict(request.sampling),
        "samples": request.samples,
        "places": [asdict(place) for place in findings.places],
        "found": asdict(findings.found),
        "suspicious": findings.suspicious,
        "repeats": [asdict(found) for found in findings.repeats],
        "deviating": findings.deviating,
        "notes": checked.notes,
        "skipped": [asdict(skipped) for skipped in checked.skipped],
    }


def _facts(checked: Checked, findings: DistributionFindings) -> Iterable[tuple[str, str]]:
    """Yield the conditions of the verdict, by name."""
    conditions, request, params = checked.conditions, checked.request, checked.request.sampling
    assert conditions is not None, "answers come after loading"
    yield "model", f"{conditions.model} ({conditions.description})"
    yield "drafts", _drafts(conditions, request, findings)
    yield "rule", str(request.accept) if request.accept.exact else f"{request.accept} (approximate)"
    cuts = f"top-k {params.top_k}, top-p {params.top_p:g}, min-p {params.min_p:g}"
    yield "sampling", f"temperature {params.temperature:g}, {cuts}"
    yield "samples", f"{findings.found.samples:,} answers, seeds from {params.seed} on"
    for number, place in enumerate(findings.places, start=1):
        yield f"place {number}", _place(place)
    for skipped in checked.skipped:
        yield "left out", f"{skipped.prompt}: {skipped.reason}"
    yield "tokens", ", ".join(f"{count:,} {branch}" for branch, count in findings.found.branches.items() if count)
    if findings.found.ruled_out:
        yield "excluded", f"{findings.found.ruled_out:,} answers have a token that the target excludes there"


def _drafts(conditions: CheckConditions, request: StatisticsRequest, findings: DistributionFindings) -> str:
    name = conditions.draft_model if request.arm.kind == "model" and conditions.draft_model else request.arm.kind
    lengths = ", ".join(str(length) for length in findings.lengths)
    siblings = ", and one with a sibling" if findings.siblings else ""
    return f"{name}, of {lengths} tokens in turn{siblings}"


def _place(place: SamplingPlace) -> str:
    return f"{place.prompt}, after {place.before!r}: {place.possible} tokens can come, entropy {place.entropy:.2f} nats"


def _fit(fit: Fit) -> list[str]:
    found = fit.goodness
    return [
        fit.name, fit.place, f"{found.samples:,}", f"{found.cells:,}", f"{found.chi_square:.1f}",
        f"{found.chi_square_p:.2g}", f"{found.g:.1f}", f"{found.g_p:.2g}",
    ]  # fmt: skip


def _share(share: KeptShare) -> list[str]:
    low, high = share.interval
    return [
        "accepted", share.place, f"{share.guessed:,}", f"{share.kept / share.guessed:.2%}", f"{low:.2%}-{high:.2%}",
        f"{share.expected:.2%}", f"{share.p:.2g}",
    ]  # fmt: skip


def _bound(bound: Bound) -> str:
    tokens = "first token" if bound.tokens == 1 else f"first {bound.tokens} tokens"
    return f"{tokens + ':':<16}total variation distance at most {_small(bound.at_most)} with 99 % confidence"


def _small(value: float) -> str:
    return f"{value:.4f}" if value >= 0.001 or value == 0 else f"{value:.2g}"


def _table(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [[name for name, _ in columns], *rows]
    forms = [form for _, form in columns]
    return [" ".join(f"{_cut(cell, form):{form}}" for cell, form in zip(line, forms, strict=True)) for line in lines]


def _cut(cell: str, form: str) -> str:
    """Shorten a name that would move the columns after it; numbers are never cut."""
    return cell[: int(form[1:])] if form.startswith("<") else cell


def _labelled(label: str, text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=f"{label:<{_LABEL}}", subsequent_indent=" " * _LABEL)
