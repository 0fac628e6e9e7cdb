"""Figures of an answer: the line after it, the table of /stats, the records of --json."""

from dataclasses import asdict
from typing import Any

from app.engine.conversation.messages import Ended, Ready, Said, Walked
from app.engine.decoding.ending import Finish
from app.engine.decoding.stats import Snapshot
from app.shell.columns import WIDTH, facts
from app.wording.explanation import explanation_record
from app.wording.walk_record import walk_record
from models.sampling.accept import Accept
from models.sampling.sampler import SamplingParams
from models.system.counted import counted
from models.text.thoughts import divided


def summary(ended: Ended) -> str:
    """Return the one line that follows an answer."""
    stats = ended.stats
    parts = [counted(stats.emitted, "token"), _speed(stats)]
    if stats.first_token_seconds is not None:
        parts.append(f"first token after {stats.first_token_seconds:.2f} s")
    parts += _speculation(ended)
    if not ended.accept.exact:
        parts.append(f"{ended.accept.claim} ({ended.accept} rule)")
    if stats.reused_tokens:
        parts.append(f"{stats.reused_tokens:,} of {stats.prompt_tokens:,} prompt tokens reused")
    if ended.left_out:
        parts.append(f"context full: oldest {counted(ended.left_out, 'message')} left out (larger: -c N)")
    return " · ".join(part for part in parts if part)


def ending_note(finish: Finish, *, in_chat: bool = False, formed: bool = False) -> str | None:
    """Return a note on an answer that did not end by itself; None for one that did.

    `formed`: the answer was to follow a grammar or a JSON schema.
    """
    if finish is Finish.LENGTH and formed:
        return "The answer was cut and may lack the rest of its form. Allow more tokens: -n N."
    if finish is Finish.CONTEXT:
        return f"The context is full, so the answer ends here. Use a larger one: -c N{', or /new' * in_chat}."
    return "Stopped." if finish is Finish.CANCELLED else None


def empty_answer_note(*, again: bool) -> str:
    """Return a note on an answer without text; `again`: it was to replace an earlier answer."""
    return f"No text was generated, so {'the earlier answer stays' if again else 'the message is dropped'}."


def unfinished_note(finish: Finish) -> str | None:
    """Return a note on an answer that consists of thoughts alone; None where another note explains it."""
    if finish is Finish.LENGTH:
        return "The answer ends within the model's thoughts. Allow more tokens: -n N."
    return None if finish in (Finish.CANCELLED, Finish.CONTEXT) else "The model wrote its thoughts, but no answer."


def table(stats: Snapshot, drafter: str, accept: Accept, width: int = WIDTH) -> str:
    """Return all counters of an answer with the definitions of the rates, in lines of at most `width` columns."""
    prompt, read = counted(stats.prompt_tokens, "token"), f"{stats.prompt_seconds:.2f} s"
    rows = [
        ("prompt", f"{prompt}, {stats.reused_tokens:,} reused from the cache, the rest read in {read}"),
        ("answer", f"{counted(stats.emitted, 'token')} in {counted(stats.rounds, 'round')}"),
        ("speed", _speed(stats) or "-"),
        ("drafter", f"{drafter}, a draft in {counted(stats.drafts, 'round')} (coverage {_percent(stats.coverage)})"),
        (
            "accepted",
            f"{stats.accepted:,} of {counted(stats.drafted, 'draft token')} ({_percent(stats.acceptance_rate)})",
        ),
        ("by position", _by_position(stats) or "-"),
        ("mean length", f"{_number(stats.mean_acceptance_length)} tokens emitted per round with a draft"),
        ("time", _times(stats)),
        ("text", f"{accept.claim} ({accept} rule)"),
    ]
    return "\n".join(facts(rows, 2, width))


def start_record(ready: Ready, sampling: SamplingParams) -> dict[str, Any]:
    """Return the first JSON line: the loaded models and the sampling settings."""
    return {"type": "start", **asdict(ready), "sampling": asdict(sampling)}


def round_record(message: Said) -> dict[str, Any]:
    """Return the JSON line of one round; times are in seconds."""
    round_ = message.round
    return {
        "type": "round",
        "text": message.text,
        "tokens": round_.emitted,
        "draft": round_.draft.tokens,
        # Siblings, each with the number of draft tokens before it; an accepted one counts in `accepted`.
        "siblings": tuple(zip(round_.draft.places, round_.draft.checked[len(round_.draft.tokens) :], strict=True)),
        # For each token of draft and siblings the index of the one before it, -1: none; empty without siblings.
        "parents": round_.draft.parents,
        "source": round_.draft.source,
        "accepted": round_.accepted,
        "draft_seconds": round_.draft_seconds,
        "verify_seconds": round_.verify_seconds,
        "host_seconds": round_.host_seconds,
    }


def end_record(ended: Ended, walked: Walked | None = None, *, divides: bool = True) -> dict[str, Any]:
    """Return the last JSON line; the texts of all rounds and of this line together are the answer with its thoughts."""
    stats, parts = ended.stats, divided(ended.answer, divides=divides)
    return {
        "type": "end",
        "text": ended.text,
        "answer": parts.answer,
        "thoughts": parts.thoughts,
        "finish": ended.finish,
        "left_out_messages": ended.left_out,
        "usage": {
            "prompt_tokens": stats.prompt_tokens,
            "completion_tokens": stats.emitted,
            "total_tokens": stats.prompt_tokens + stats.emitted,
            "prompt_tokens_details": {"cached_tokens": stats.reused_tokens},
            "completion_tokens_details": {
                "accepted_prediction_tokens": stats.accepted,
                "rejected_prediction_tokens": stats.drafted - stats.accepted,
            },
        },
        "timings": {
            "prompt_seconds": stats.prompt_seconds,
            "first_token_seconds": stats.first_token_seconds,
            "draft_seconds": stats.draft_seconds,
            "verify_seconds": stats.verify_seconds,
            "host_seconds": stats.host_seconds,
            "tokens_per_second": stats.tokens_per_second,
        },
        "speculation": {
            "drafter": ended.drafter,
            "accept": ended.accept,
            "claim": ended.accept.claim,
            "rounds": stats.rounds,
            "drafts": stats.drafts,
            "draft_n": stats.drafted,
            "draft_n_accepted": stats.accepted,
            "drafted_per_position": stats.drafted_at,
            "accepted_per_position": stats.accepted_at,
            "acceptance_rate": stats.acceptance_rate,
            "mean_acceptance_length": stats.mean_acceptance_length,
            "coverage": stats.coverage,
        },
        "explanation": explanation_record(ended.explanation) if ended.explanation else None,
        "walk": walk_record(walked) if walked else None,
    }


def _speculation(ended: Ended) -> list[str]:
    stats = ended.stats
    if not stats.drafts:
        return [f"drafter {ended.drafter}" + (", drafted nothing" if ended.drafter != "off" else "")]
    length = _number(stats.mean_acceptance_length)
    return [f"{ended.drafter} {stats.accepted}/{stats.drafted} accepted", f"{length} tokens per round with a draft"]


def _speed(stats: Snapshot) -> str:
    return "" if stats.tokens_per_second is None else f"{stats.tokens_per_second:.1f} tokens/s"


def _by_position(stats: Snapshot) -> str:
    pairs = zip(stats.accepted_at, stats.drafted_at, strict=True)
    return "  ".join(f"{place}: {_percent(right / all_)}" for place, (right, all_) in enumerate(pairs, start=1))


def _times(stats: Snapshot) -> str:
    parts = (("draft", stats.draft_seconds), ("verify", stats.verify_seconds), ("other", stats.host_seconds))
    return ", ".join(f"{name} {seconds:.2f} s" for name, seconds in parts)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
