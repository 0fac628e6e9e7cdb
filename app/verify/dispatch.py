"""Which of the three checks `verify` was asked for: tokens, a distribution, or servers. Nothing heavy is imported."""

import sys
from typing import Any

from models.errors import UsageError

_FEW = 1
"""Built-in prompts of each class that are asked without --limit: there are many classes."""
_SCHEMES = ("http://", "https://")


def start_verify(model: str | None, flags: dict[str, Any], *, named: bool = True) -> int:
    """Run the check that was asked for; return the exit code. Raises LocalspecError.

    With --audit, `model` may be the second server; `named`: it was given, and is no default of a file or variable.
    """
    urls = read_urls(model, flags, named=named)
    if urls:
        from app.verify.audit_command import run_audit

        return run_audit(urls, {**flags, "limit": read_limit(flags)})
    if flags["statistics"]:
        from app.verify.statistics_command import run_statistics

        return run_statistics(model, {**flags, "limit": flags["limit"] or _FEW})
    from app.verify.command import run_verify
    from app.verify.request import read_verify

    return run_verify(read_verify(model, flags))


def read_limit(flags: dict[str, Any]) -> int:
    """Return how many prompts of a class to ask: without --limit a whole file, and a few of the built-in ones."""
    limit: int | None = flags["limit"]
    return limit or (_FEW if flags["prompts"] is None else sys.maxsize)


def read_urls(model: str | None, flags: dict[str, Any], *, named: bool = True) -> tuple[str, ...]:
    """Return the servers to ask, from `--audit URL --audit URL` or `--audit URL URL`; raises UsageError."""
    given: tuple[str, ...] = flags["audit"]
    is_url = model is not None and model.startswith(_SCHEMES)
    if not given:
        if is_url:
            raise UsageError(f"{model} is no model.", hint=f"To ask a server: localspec verify --audit {model}")
        return ()
    # A default is of every command, and says nothing here.
    if model is not None and not is_url and named:
        raise UsageError(f"--audit asks servers, and {model} is a model.", hint="Leave one of them out.")
    if flags["statistics"]:
        raise UsageError("--audit and --statistics are two checks.", hint="Leave one of them out.")
    return (*given, model) if model is not None and is_url else given
