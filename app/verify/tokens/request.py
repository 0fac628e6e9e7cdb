"""Request of `verify`, read from its flags; contradictions are refused before anything is loaded."""

from dataclasses import dataclass
from typing import Any

from app.bench.request import BenchRequest, read_bench
from app.verify.prompt_limit import has_draft, read_limit
from models.errors import UsageError
from models.sampling.accept import Accept

_TEMPERATURES = ("0,0.8",)
"""Default temperatures: greedy, and the default of `run`."""
_ARMS = ("auto,lookup:2,suffix:5",)
_ARMS_WITH_DRAFT = ("auto,model:3,lookup:2,suffix:5",)


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """Settings of one `verify` run."""

    bench: BenchRequest
    """Models, arms, prompts and sampling, chosen as for a benchmark."""
    accept: Accept
    strict: bool


def read_verify(model: str | None, flags: dict[str, Any]) -> VerifyRequest:
    """Read the argument and flags of `verify`; raises UsageError."""
    arms = _ARMS_WITH_DRAFT if has_draft(model, flags) else _ARMS
    chosen = {"temp": flags["temp"] or _TEMPERATURES, "vs": flags["vs"] or arms, "limit": read_limit(flags)}
    bench = read_bench(model, {**flags, **chosen, "plot": None})
    if len(bench.arms) == 1:
        raise UsageError("--vs names no arm that drafts: nothing to compare.", hint="Name one, such as lookup:2.")
    return VerifyRequest(bench, _accept(Accept(flags["accept"]), bench), flags["strict"])


def _accept(accept: Accept, bench: BenchRequest) -> Accept:
    """Return a rule under which all arms must emit equal tokens; raises UsageError for any other rule."""
    if not accept.exact:
        raise UsageError(
            f"--accept {accept} is approximate: nothing to certify.",
            hint="Leave it out, or name another rule: coupled, residual or block.",
        )
    warm = [params.temperature for params in bench.samplings if not params.greedy]
    if accept is not Accept.COUPLED and warm:
        raise UsageError(
            f"--accept {accept} gives another text at temperature {warm[0]:g}, from the same distribution.",
            cause="There, this rule does not promise equal tokens, so comparing them shows nothing.",
            hint="Check the distribution with --statistics, or compare tokens with --temp 0.",
        )
    return accept
