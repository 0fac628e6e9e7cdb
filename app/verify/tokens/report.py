"""Report of a certificate as text, at most 100 columns wide."""

import textwrap
from collections.abc import Iterable, Sequence
from itertools import pairwise

from app import __version__
from app.bench.measuring.benchmark import BenchConditions
from app.engine.costs.provenance import ModelRecord, Provenance, Settings
from app.verify.tokens.certify import Tally
from app.verify.tokens.findings import CertificateFindings
from app.verify.tokens.fork import Fork
from models.sampling.sampler import SamplingParams
from models.system.counted import counted

_WIDTH = 100
_LABEL = 13
_WIDTHS = 18
"""Columns for the list of widths; a longer list is cut to its first and last ones."""
_COLUMNS = (
    ("temperature", ">11"), ("arm", "<12"), ("answers", ">7"), ("tokens", ">8"), ("drafted", ">8"), ("accepted", ">8"),
    ("widths", f">{_WIDTHS}"), ("near-ties", ">9"), ("bugs", ">5"),
)  # fmt: skip
_LEGEND = (
    "tokens: compared with plain decoding's, up to a fork. drafted: draft tokens that were verified. widths: tokens "
    "in a pass. near-tie: a fork whose gap, between the keys of the two tokens, is within the noise floor, measured "
    "there by reading the text in passes of these widths without a drafter. bug: any other fork."
)


def report(findings: CertificateFindings) -> str:
    """Return the whole certificate, its verdict last."""
    lines = [f"Certificate of localspec {__version__}", ""]
    for label, text in _facts(findings):
        lines += _labelled(label, text)
    lines += ["", *_table(findings), ""]
    if findings.forks:
        lines += ["Forks", *(line for fork in findings.forks for line in _fork(fork)), *_largest(findings), ""]
    lines += [*textwrap.wrap(_LEGEND, _WIDTH), "", *textwrap.wrap(findings.verdict(), _WIDTH)]
    return "\n".join(lines) + "\n"


def _facts(findings: CertificateFindings) -> Iterable[tuple[str, str]]:
    """Yield the conditions of the verdict, by name."""
    conditions, provenance, bench = findings.conditions, findings.provenance, findings.request.bench
    assert conditions is not None, "answers come after loading"
    assert provenance is not None, "answers come after hashing"
    yield from _model("model", provenance.model)
    if provenance.draft_model:
        yield from _model("draft model", provenance.draft_model)
    if provenance.build:
        yield "build", provenance.build
    yield "processor", f"{provenance.processor}, {provenance.cores} physical cores"
    yield "settings", _settings(findings, conditions, provenance)
    yield "drafts", _drafts(findings, conditions)
    yield "sampling", _sampling(bench.samplings)
    names = ", ".join(findings.prompts)
    yield "prompts", f"{len(findings.prompts)}, answers of at most {counted(bench.max_tokens, 'token')}: {names}"
    for each in conditions.unavailable:
        yield "left out", f"{each.method}: {each.reason}"
    for class_name, reason, count in _skipped(findings):
        yield "left out", f"{class_name}: {count}, {reason}"
    if findings.interrupted:
        yield "stopped", "only the prompts that every arm had answered are listed"


def _model(label: str, model: ModelRecord) -> Iterable[tuple[str, str]]:
    yield label, f"{model.name} ({model.description})"
    if model.sha256:
        yield "  sha-256", model.sha256


def _settings(findings: CertificateFindings, conditions: BenchConditions, provenance: Provenance) -> str:
    parts = [f"context {conditions.context_size:,}"]
    if provenance.settings:
        parts += _loaded(provenance.settings)
    if findings.request.strict:
        parts.append("strict")
    return ", ".join(parts)


def _loaded(settings: Settings) -> list[str]:
    return [
        f"threads {settings.threads} (wide passes {settings.batch_threads})",
        f"flash attention {settings.flash_attention}",
        f"cache {settings.cache_type_k} keys, {settings.cache_type_v} values",
        "weights may be rearranged" if settings.extra_buffers else "plain weights",
        *([f"passes padded to {settings.pad_rows} tokens"] if settings.pad_rows > 1 else []),
        "layers on the GPU" if settings.gpu else "on the processor",
    ]


def _drafts(findings: CertificateFindings, conditions: BenchConditions) -> str:
    exact = f"exact on this machine up to {counted(conditions.exact_draft, 'token')}"
    if conditions.exact_draft == 0:
        exact = "no pass over several tokens is exact on this machine"
    rounding = " (rounding allowed)" if findings.request.bench.allow_rounding else ""
    return f"{exact}; at most {conditions.longest}{rounding}; judged by the {findings.request.accept} rule"


def _sampling(samplings: Sequence[SamplingParams]) -> str:
    first = samplings[0]
    text = (
        f"temperature {', '.join(f'{params.temperature:g}' for params in samplings)}; top-k {first.top_k}, "
        f"top-p {first.top_p:g}, min-p {first.min_p:g}; seed {first.seed}, the next for each next prompt"
    )
    if first.penalises:
        text += (
            f"; penalties over {first.penalty_window} tokens: repeat {first.repeat_penalty:g}, "
            f"presence {first.presence_penalty:g}, frequency {first.frequency_penalty:g}"
        )
    return text


def _skipped(findings: CertificateFindings) -> Iterable[tuple[str, str, int]]:
    counts: dict[tuple[str, str], set[str]] = {}
    for skipped in findings.skipped:
        counts.setdefault((skipped.class_name, skipped.reason), set()).add(skipped.prompt)
    return [(name, reason, len(prompts)) for (name, reason), prompts in counts.items()]


def _table(findings: CertificateFindings) -> list[str]:
    rows = [[name for name, _ in _COLUMNS], *map(_cells, findings.tallies())]
    return [" ".join(f"{cell:{form}}" for cell, (_, form) in zip(row, _COLUMNS, strict=True)).rstrip() for row in rows]


def _cells(tally: Tally) -> list[str]:
    return [
        f"{tally.temperature:g}", tally.arm, f"{tally.answers}", f"{tally.tokens:,}", f"{tally.drafted:,}",
        f"{tally.accepted:,}", _cut(tally.widths), f"{tally.near_ties}", f"{tally.bugs}",
    ]  # fmt: skip


def _fork(fork: Fork) -> list[str]:
    drawn = f"temperature {fork.temperature:g}, seed {fork.seed}"
    where = f"{fork.kind}: {fork.arm}, {fork.prompt}, turn {fork.turn + 1}, {drawn}"
    plain, drafted = (_token(token, text) for token, text in zip(fork.tokens, fork.texts, strict=True))
    what = f"token {fork.place}: plain {plain}, drafted {drafted}, in passes over {_spans(fork.widths)}"
    measured = "" if fork.gap is None else f"gap {fork.gap:.3g}, noise floor {fork.floor:.3g}: "
    lines = [where, what, measured + fork.reason]
    wrapped = (textwrap.wrap(line, _WIDTH, initial_indent="  ", subsequent_indent="    ") for line in lines)
    return [part for parts in wrapped for part in parts]


def _largest(findings: CertificateFindings) -> list[str]:
    widest = findings.widest_near_tie
    if widest is None:
        return []
    return [f"  largest explained gap: {widest.gap:.3g}, where the noise floor is {widest.floor:.3g}"]


def _token(token: int | None, text: str) -> str:
    return "has ended" if token is None else f"{text!r} ({token})"


def _cut(widths: Sequence[int]) -> str:
    spans = _spans(widths)
    return spans if len(spans) <= _WIDTHS else f"{widths[0]}..{widths[-1]}"


def _spans(widths: Sequence[int]) -> str:
    """Return ascending numbers with runs as ranges: 1-4,7."""
    if not widths:
        return "-"
    cuts = [0, *(place for place, (one, other) in enumerate(pairwise(widths), 1) if other != one + 1), len(widths)]
    spans = [(widths[start], widths[end - 1]) for start, end in pairwise(cuts)]
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in spans)


def _labelled(label: str, text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=f"{label:<{_LABEL}}", subsequent_indent=" " * _LABEL)
