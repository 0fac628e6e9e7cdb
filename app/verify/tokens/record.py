"""Record of a certificate as one JSON object. `SCHEMA` goes up when a field changes its meaning or goes away."""

from dataclasses import asdict
from typing import Any

from app import __version__
from app.verify.tokens.findings import CertificateFindings

SCHEMA = 1


def record(findings: CertificateFindings) -> dict[str, Any]:
    """Return provenance, settings, counts by temperature and arm, every fork, and the verdict.

    Fields are those of `Provenance`, `Tally` and `Fork`; gaps and noise floors are in served scores.
    """
    request, conditions, provenance = findings.request, findings.conditions, findings.provenance
    assert conditions is not None, "answers come after loading"
    assert provenance is not None, "answers come after hashing"
    bench, counts, widest = request.bench, findings.tallies(), findings.widest_near_tie
    return {
        "type": "certificate",
        "schema": SCHEMA,
        "localspec": __version__,
        "outcome": findings.outcome().value,
        "verdict": findings.verdict(),
        "interrupted": findings.interrupted,
        **asdict(provenance),
        "context_size": conditions.context_size,
        "exact_draft": conditions.exact_draft,
        "longest_draft": conditions.longest,
        "allow_rounding": bench.allow_rounding,
        "strict": request.strict,
        "accept": request.accept.value,
        "sampling": [asdict(sampling) for sampling in bench.samplings],
        "predict": bench.max_tokens,
        "prompts": findings.prompts,
        "arms": list(conditions.arms) or [str(arm) for arm in bench.arms],
        "tokens_compared": sum(tally.tokens for tally in counts),
        "answers_compared": sum(tally.answers for tally in counts),
        "results": [asdict(tally) for tally in counts],
        "forks": [asdict(fork) for fork in findings.forks],
        "largest_explained_gap": widest.gap if widest else None,
        "notes": findings.notes,
        "skipped": [asdict(skipped) for skipped in findings.skipped],
    }
