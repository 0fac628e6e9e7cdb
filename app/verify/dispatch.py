"""Dispatch of `verify` to one of its three checks: tokens, distribution, or servers. Imports nothing heavy."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from app.verify.prompt_limit import FEW, read_limit
from models.errors import UsageError

_SCHEMES = ("http://", "https://")
_OF_SERVERS = frozenset(
    {"audit", "classes", "prompts", "limit", "predict", "seed", "timeout", "api_key", "as_json", "quiet", "statistics"}
)
"""Parameters that have an effect with --audit."""
_ONLY = {"timeout": "--audit", "api_key": "--audit", "samples": "--statistics"}
_NONE: Mapping[str, str] = MappingProxyType({})


def start_verify(
    model: str | None, flags: dict[str, Any], *, named: bool = True, given: Mapping[str, str] = _NONE
) -> int:
    """Run the requested check; return the exit code. Raises LocalspecError.

    With --audit, `model` may be the second server. `named`: it was given on the command line, and is not a default of a
    settings file or environment variable. `given` has the flags that were given, by parameter name.
    """
    urls = read_urls(model, flags, named=named)
    _check_apply(given, audits=bool(urls), counts=flags["statistics"])
    if urls:
        from app.verify.servers.command import run_audit

        return run_audit(urls, {**flags, "limit": read_limit(flags)})
    if flags["statistics"]:
        from app.verify.distribution.command import run_statistics

        return run_statistics(model, {**flags, "limit": flags["limit"] or FEW})
    from app.verify.command import run_verify
    from app.verify.tokens.request import read_verify

    return run_verify(read_verify(model, flags))


def _check_apply(given: Mapping[str, str], *, audits: bool, counts: bool) -> None:
    """Raise UsageError for a flag that the requested check would ignore."""
    for parameter, flag in given.items():
        if audits and parameter not in _OF_SERVERS:
            raise UsageError(f"{flag} has no effect with --audit.", hint="Leave out one of the two.")
        if counts and parameter == "predict":
            # The number of tokens drawn is the number counted.
            raise UsageError(f"{flag} has no effect with --statistics.", hint="Leave out one of the two.")
        check = _ONLY.get(parameter)
        if (check == "--audit" and not audits) or (check == "--statistics" and not counts):
            raise UsageError(f"{flag} has an effect only with {check}.", hint=f"Leave it out, or add {check}.")


def read_urls(model: str | None, flags: dict[str, Any], *, named: bool = True) -> tuple[str, ...]:
    """Return the servers to ask, from `--audit URL --audit URL` or `--audit URL URL`; raises UsageError."""
    given: tuple[str, ...] = flags["audit"]
    is_url = model is not None and model.startswith(_SCHEMES)
    if not given:
        if is_url:
            raise UsageError(f"{model} is not a model.", hint=f"To check a server: localspec verify --audit {model}")
        return ()
    # A default model is meant for other commands, so it is ignored here.
    if model is not None and not is_url and named:
        raise UsageError(f"--audit takes servers, but {model} is a model.", hint="Leave one of them out.")
    if flags["statistics"]:
        raise UsageError("--audit and --statistics are separate checks.", hint="Leave one of them out.")
    return (*given, model) if model is not None and is_url else given
