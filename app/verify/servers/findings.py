"""Request of an audit, and its findings so far, complete or not."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from app.bench.measuring.arms import BenchPrompt
from app.bench.prompts import choose, names_in, read_prompts
from app.serve.client.address import Address, read_address
from app.serve.client.served_answers import ServedAnswer
from app.verify.servers.audit import AuditedQuestion
from app.verify.servers.summary import FoundFork, Summary, place, summarise, verdict
from models.errors import DivergedError, LocalspecError, UsageError

_TWO = ("first", "second")


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """Settings of one audit."""

    addresses: tuple[Address, ...]
    """One or two servers."""
    prompts: tuple[BenchPrompt, ...]
    max_tokens: int
    seed: int
    as_json: bool
    quiet: bool
    timeout: float
    """Most seconds of one answer."""
    api_key: str


@dataclass(frozen=True, slots=True)
class Server:
    """Server with its name and its model."""

    name: str
    """Name in the report."""
    address: Address
    model: str
    """Name of its model; "": not reported."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Prompt, or the rest of its turns, that these servers did not accept."""

    prompt: str
    turn: int
    reason: str


@dataclass(slots=True)
class AuditFindings:
    """Request of an audit, and its results so far."""

    request: AuditRequest
    servers: list[Server] = field(default_factory=list)
    logprobs: list[bool | None] = field(default_factory=list)
    """For each server whether it accepts requests for log probabilities; None: none was sent."""
    questions: list[AuditedQuestion] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False
    failure: LocalspecError | None = None
    """Error that ended the audit."""

    def summary(self) -> Summary:
        """Return the figures of all comparisons."""
        return summarise(self.questions)

    def answers_of(self, server: int) -> list[ServedAnswer]:
        """Return all answers of a server, by its number from 0."""
        if len(self.request.addresses) == 1:
            return [answer for one in self.questions for answer in one.answers]
        return [one.answers[server] for one in self.questions]

    def check(self) -> None:
        """Raise DivergedError for an unexplained fork, or else the error that ended the audit."""
        summary = self.summary()
        if summary.unexplained:
            raise _diverged(summary, summary.unexplained[0], servers=len(self.request.addresses))
        if self.failure is not None:
            raise self.failure
        if not self.questions and not self.interrupted:
            raise LocalspecError("No prompt could be run.", cause=self.left_out[0].reason, hint="Try others (--class).")
        if self.questions and not summary.tokens + summary.characters:
            raise LocalspecError(
                "Every answer was empty, so nothing was compared.", hint="Allow more tokens (-n), or try other prompts."
            )


def read_audit(urls: Sequence[str], flags: dict[str, Any]) -> AuditRequest:
    """Read the URLs and flags of `verify --audit`; raises UsageError."""
    if not 1 <= len(urls) <= len(_TWO):
        raise UsageError(f"--audit takes one or two URLs, not {len(urls)}.", hint=_HINT)
    addresses = tuple(read_address(url) for url in urls)
    if len(set(addresses)) < len(addresses):
        raise UsageError("--audit was given the same server twice.", cause=addresses[0].base, hint=_HINT)
    classes = names_in("--class", flags["classes"])
    return AuditRequest(
        addresses=addresses,
        prompts=tuple(choose(read_prompts(flags["prompts"]), classes, flags["limit"])),
        max_tokens=flags["predict"],
        seed=flags["seed"],
        as_json=flags["as_json"],
        quiet=flags["quiet"],
        timeout=flags["timeout"],
        api_key=flags["api_key"] or "",
    )


def server_names(count: int) -> tuple[str, ...]:
    """Return the names of one server, or of two, in the report."""
    return _TWO if count == len(_TWO) else ("server",)


_HINT = "Name a server that speculates and the same one without; or one alone, to see whether it repeats itself."
_ALIKE = "Start both servers alike except for speculation: weights, cache type, no penalties. Then report it."
_ALONE = "Ask it with speculation off too: if it repeats itself then, speculation is the cause."


def _diverged(summary: Summary, found: FoundFork, *, servers: int) -> DivergedError:
    ends = " and ".join("the end" if side.ended else repr(side.text) for side in found.fork.sides)
    gap = f"gap {found.gap}, explained up to {summary.threshold.gap:.3g}"
    return DivergedError(
        verdict(summary, servers=servers),
        cause=f"{place(found.prompt, found.turn)}, {found.where}: {ends}; {gap}.",
        hint=_ALIKE if servers == len(_TWO) else _ALONE,
    )
