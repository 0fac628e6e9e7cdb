"""Text of /spec and --explain: cost of passes, acceptance of each source of drafts, and its break-even point."""

from dataclasses import dataclass
from typing import Any

from app.engine.control.explain import Explanation, SourceAccount
from app.shell.columns import WIDTH, facts, wrapped
from models.system.counted import counted

_PLACES_SHOWN = 8
_NO_DRAFTER = "No drafter: plain decoding."
_TUNE = "localspec tune MODEL --draft DRAFT --keep"
_LEFT_OUT = "This answer goes on without it. The next answer tries it again."
_DISTURBED = (
    "The pass costs were measured while other programs held the cores, so speeds are uncertain. They are measured "
    "again at the next start in a quiet moment."
)
_NEVER_PAYS = "no draft pays off, even if every token is accepted"


@dataclass(frozen=True, slots=True)
class Pause:
    """Source of drafts that is not used now, and the reason."""

    name: str
    reason: str


def explanation_text(explanation: Explanation | None, width: int = WIDTH) -> str:
    """Return the text of /spec and --explain, in lines of at most `width` columns."""
    if explanation is None:
        return _NO_DRAFTER
    costs = "  ".join(f"{cost.width}: {cost.ratio:.2f}" for cost in explanation.widths)
    one = explanation.widths[0].seconds
    rows = [
        ("plain decoding", f"{explanation.plain_rate:.1f} tokens/s ({1e3 * one:.1f} ms per token)"),
        ("recent speed", _rate(explanation)),
        ("pass cost", f"in one-token passes, by tokens in the pass: {costs}"),
        *_aftermath(explanation),
        ("draft limit", counted(explanation.longest, "token")),
    ]
    sources = [line for account in explanation.sources for line in _source(account, explanation, width)]
    more = [line for text in _remarks(explanation) for line in wrapped(text, 2, 2, width)]
    return "\n".join([*facts(rows, 2, width), *sources, *more])


def _remarks(explanation: Explanation) -> list[str]:
    """Return sentences about the draft model and about fixed lengths."""
    remarks = [pause.reason for pause in _failed(explanation)]
    if not explanation.adapts:
        remarks.append(_fixed(explanation))
    elif _is_untried(explanation):
        remarks.append(f"{explanation.model}: {_not_tried(explanation)}")
    if not explanation.model_tuned:
        remarks.append(f"{explanation.model} may run faster with other settings. To find them: {_TUNE}")
    remarks += [f"{pause.name}: {pause.reason}" for pause in _waiting(explanation)]
    if explanation.disturbed:
        remarks.append(_DISTURBED)
    return remarks


def pauses(explanation: Explanation) -> list[Pause]:
    """Return the sources that are not used now, with reasons; none where the controller does not adapt."""
    failed = _failed(explanation)
    if explanation.model in explanation.failures or not explanation.adapts:
        return failed
    accounts = [account for account in explanation.sources if _rests(account, explanation)]
    resting = [Pause(account.name, _state(account, explanation)) for account in accounts]
    untried = [Pause(explanation.model, _not_tried(explanation))] if _is_untried(explanation) else []
    return [*failed, *resting, *untried, *_waiting(explanation)]


def _failed(explanation: Explanation) -> list[Pause]:
    """Return the draft models that failed in this answer."""
    return [Pause(name, f"{name} failed: {title} {_LEFT_OUT}") for name, title in explanation.failures.items()]


def _waiting(explanation: Explanation) -> list[Pause]:
    """Return the draft models that leave drafting to another."""
    if explanation.model in explanation.failures:
        return []
    reason = f"not used now, {explanation.model} is expected to be faster"
    return [Pause(name, reason) for name in explanation.waiting]


def length_reason(explanation: Explanation | None, size: int) -> str:
    """Return the reason for the length of a draft of `size` tokens."""
    if explanation is None:
        return "no drafter"
    most = explanation.longest
    if not explanation.adapts:
        return f"fixed at {most}" if size >= most else f"all proposed tokens, at most {most}"
    if not size:
        return "no draft pays off"
    return f"the limit, {most}" if size >= most else f"the proposed tokens that pay off, at most {most}"


def explanation_record(explanation: Explanation) -> dict[str, Any]:
    """Return the explanation as the record that --json prints."""
    return {
        "plain_tokens_per_second": explanation.plain_rate,
        "tokens_per_second": explanation.rate,
        "longest_draft": explanation.longest,
        "adapts": explanation.adapts,
        "failure": " ".join(f"{name} failed: {title}" for name, title in explanation.failures.items()) or None,
        "disturbed": explanation.disturbed,
        "aftermath_seconds": explanation.aftermath * explanation.widths[0].seconds,
        "pass_seconds": {str(cost.width): cost.seconds for cost in explanation.widths},
        "waiting_models": list(explanation.waiting),
        "model_step_ratio": explanation.model_step_ratio,
        "model_tuned": explanation.model_tuned if explanation.model else None,
        "next_try_in_rounds": explanation.next_try,
        "sources": [
            {
                "name": account.name,
                "guessed_at": account.guessed_at,
                "right_at": account.right_at,
                "chance": account.chance,
                "needed": account.needed,
            }
            for account in explanation.sources
        ],
    }


def _rate(explanation: Explanation) -> str:
    gain = explanation.rate / explanation.plain_rate
    return f"{explanation.rate:.1f} tokens/s ({gain:.2f} times plain decoding)"


def _aftermath(explanation: Explanation) -> list[tuple[str, str]]:
    slower = (
        f"one-token passes lose {explanation.aftermath:.2f} one-token passes in total, counted as cost of the draft"
    )
    return [("after a draft", slower)] if explanation.aftermath else []


def _source(account: SourceAccount, explanation: Explanation, width: int) -> list[str]:
    pairs = list(zip(account.right_at, account.guessed_at, strict=True))[:_PLACES_SHOWN]
    places = "  ".join(f"{place}: {right / all_:.0%}" for place, (right, all_) in enumerate(pairs, start=1))
    matched = f"matched by position, if all earlier tokens matched: {places}"
    return [
        *wrapped(f"{account.name}: {_state(account, explanation)}", 2, 2, width),
        *wrapped(f"{matched} ({counted(account.guessed_at[0], 'draft')})", 4, 2, width),
    ]


def _state(account: SourceAccount, explanation: Explanation) -> str:
    """Return whether drafts of a source pay off now, and the acceptance probability at which they would."""
    if account.needed is None:
        return f"off: at its cost {_NEVER_PAYS}"
    # The estimate starts high and forgets, so it is shown beside the count and never in its place.
    matched = f"{account.right_at[0]:,} of {account.guessed_at[0]:,} first tokens matched"
    figures = f"{matched}, acceptance probability {account.chance:.0%}, break-even {account.needed:.0%}"
    if _is_paused(account, explanation):
        return f"paused: {figures}; {_next_try(explanation.next_try)}"
    # Each draft has its own confidence: where the average is below break-even, the best drafts still pay off.
    return figures + ("" if account.chance >= account.needed else "; only drafts above break-even are verified")


def _is_paused(account: SourceAccount, explanation: Explanation) -> bool:
    return account.name == explanation.model and explanation.next_try is not None


def _rests(account: SourceAccount, explanation: Explanation) -> bool:
    if account.name in explanation.failures:
        return False
    return account.needed is None or _is_paused(account, explanation)


def _is_untried(explanation: Explanation) -> bool:
    """Tell whether there is a draft model that has drafted nothing yet."""
    return bool(explanation.model) and all(account.name != explanation.model for account in explanation.sources)


def _fixed(explanation: Explanation) -> str:
    """Return the line about a controller that does not adapt."""
    if not explanation.longest:
        return "--no-adapt: the draft limit is 0, so nothing is drafted"
    model = f" {explanation.model} drafts wherever no other drafter does." if explanation.model else ""
    return f"--no-adapt: every draft is verified, whether it pays off or not.{model}"


def _not_tried(explanation: Explanation) -> str:
    step = f"one step costs {explanation.model_step_ratio:.2f} of a target pass"
    if explanation.next_try is None:
        return f"no drafts: {step}, so {_NEVER_PAYS}"
    return f"no draft yet: {step}; {_next_try(explanation.next_try)}"


def _next_try(rounds: int | None) -> str:
    """Return when a draft model is tried; an untried one also waits for a round in which no other draft pays off."""
    if not rounds:
        return "next try is due"
    return f"next try in {counted(rounds, 'round')}"
