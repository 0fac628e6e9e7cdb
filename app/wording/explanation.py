"""Why drafting does what it does, in words: what passes cost, what each source was worth, and what it would need."""

from dataclasses import dataclass
from typing import Any

from app.engine.control.explain import Explanation, SourceAccount
from models.system.counted import counted

_PLACES_SHOWN = 8
_NOBODY = "No drafter: plain decoding."
_TUNE = "localspec tune MODEL --draft DRAFT --keep looks for the best settings and a faster copy"
_LEFT_OUT = "It is left out of this answer; the next one tries it again."


@dataclass(frozen=True, slots=True)
class Pause:
    """A source of guesses that is not used now."""

    name: str
    reason: str


def explanation_text(explanation: Explanation | None) -> str:
    """Return the lines of /spec and --explain."""
    if explanation is None:
        return _NOBODY
    costs = "  ".join(f"{cost.width}: {cost.ratio:.2f}" for cost in explanation.widths)
    one = explanation.widths[0].seconds
    lines = [
        f"  plain       {explanation.plain_rate:.1f} tokens/s, {1e3 * one:.1f} ms per token; {_rate(explanation)}",
        f"  pass cost   of one over w tokens, over that of one token: {costs}",
        *_aftermath(explanation),
        f"  longest     {counted(explanation.longest, 'token')} per draft",
        *(line for account in explanation.sources for line in _source(account, explanation)),
    ]
    if explanation.failure:
        lines.append(f"  {explanation.failure} {_LEFT_OUT}")
    if not explanation.adapts:
        lines.append(_fixed(explanation))
    elif _is_untried(explanation):
        lines.append(f"  {explanation.model}: {_not_tried(explanation)}")
    if not explanation.model_tuned:
        lines.append(f"  {explanation.model} may run faster: {_TUNE}")
    return "\n".join(lines)


def pauses(explanation: Explanation) -> list[Pause]:
    """Return who is not used now, and why; nobody where nothing is decided."""
    if explanation.failure:
        return [Pause(explanation.model, f"{explanation.failure} {_LEFT_OUT}")]
    if not explanation.adapts:
        return []
    accounts = [account for account in explanation.sources if _rests(account, explanation)]
    resting = [Pause(account.name, _state(account, explanation)) for account in accounts]
    return [*resting, Pause(explanation.model, _not_tried(explanation))] if _is_untried(explanation) else resting


def length_reason(explanation: Explanation | None, size: int) -> str:
    """Return why a draft has as many tokens as it has."""
    if explanation is None:
        return "no drafter"
    most = explanation.longest
    if not explanation.adapts:
        return f"fixed at {most}" if size >= most else f"as many as were drafted, at most {most}"
    if not size:
        return "no draft that pays off"
    return f"the most allowed, {most}" if size >= most else f"as many as were drafted and pay off, at most {most}"


def explanation_record(explanation: Explanation) -> dict[str, Any]:
    """Return the same for --json."""
    return {
        "plain_tokens_per_second": explanation.plain_rate,
        "tokens_per_second": explanation.rate,
        "longest_draft": explanation.longest,
        "adapts": explanation.adapts,
        "failure": explanation.failure or None,
        "aftermath_seconds": explanation.aftermath * explanation.widths[0].seconds,
        "pass_seconds": {str(cost.width): cost.seconds for cost in explanation.widths},
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
    return f"{explanation.rate:.1f} lately ({gain:.2f} of plain)"


def _aftermath(explanation: Explanation) -> list[str]:
    longer = f"passes of one token take {explanation.aftermath:.2f} of one longer, which is counted as the draft's"
    return [f"  after it    {longer}"] if explanation.aftermath else []


def _source(account: SourceAccount, explanation: Explanation) -> list[str]:
    pairs = list(zip(account.right_at, account.guessed_at, strict=True))[:_PLACES_SHOWN]
    places = "  ".join(f"{place}: {right / all_:.0%}" for place, (right, all_) in enumerate(pairs, start=1))
    return [
        f"  {account.name}: {_state(account, explanation)}",
        f"    right by place, all before it right: {places}; {counted(account.guessed_at[0], 'draft')} looked at",
    ]


def _state(account: SourceAccount, explanation: Explanation) -> str:
    """Return whether a source pays here and now, and what it would need."""
    if account.needed is None:
        return "off: at this cost no draft of it pays off, however often it is right"
    # What decides is an estimate, which starts hopeful and forgets: it is never passed off as what was counted.
    right = f"{account.right_at[0]:,} of {account.guessed_at[0]:,} right"
    figures = f"{right}, {account.chance:.0%} expected, {account.needed:.0%} needed"
    if _is_paused(account, explanation):
        return f"paused: {figures}; {_next_try(explanation.next_try)}"
    # Each draft is judged by its own evidence: below the mark on average, the best of them still pay.
    return figures + ("" if account.chance >= account.needed else " on average: only its surest drafts are verified")


def _is_paused(account: SourceAccount, explanation: Explanation) -> bool:
    return account.name == explanation.model and explanation.next_try is not None


def _rests(account: SourceAccount, explanation: Explanation) -> bool:
    return account.needed is None or _is_paused(account, explanation)


def _is_untried(explanation: Explanation) -> bool:
    """Tell whether there is a draft model that nothing was heard of yet."""
    return bool(explanation.model) and all(account.name != explanation.model for account in explanation.sources)


def _fixed(explanation: Explanation) -> str:
    """Return what is done where nothing is decided."""
    if not explanation.longest:
        return "  --no-adapt: no tokens per draft, so no drafter is asked"
    asked = f"; {explanation.model} is asked wherever nothing else drafts" if explanation.model else ""
    return f"  --no-adapt: every draft is verified, paying off or not, and nothing is learnt from it{asked}"


def _not_tried(explanation: Explanation) -> str:
    step = f"its step costs {explanation.model_step_ratio:.2f} of the target's"
    if explanation.next_try is None:
        return f"not asked: {step}, so no draft of it pays off, however often it is right"
    return f"not asked yet: {step}; {_next_try(explanation.next_try)}"


def _next_try(rounds: int | None) -> str:
    """Return when a draft model is tried; one that was never asked also waits for a round that nothing else pays in."""
    if not rounds:
        return "next try is due"
    return f"next try in {counted(rounds, 'round')}"
