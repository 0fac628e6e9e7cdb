"""Figures of an answer under the names of llama.cpp's server and of OpenAI's."""

import time
import uuid
from collections.abc import Sequence
from typing import Any

from app import __version__
from app.engine.decoding.ending import Finish
from app.serve.requests.engine_request import Outcome

_MILLISECONDS = 1000.0
_ENDS = {Finish.END: "eos", Finish.STOP: "word"}


def timings(outcome: Outcome) -> dict[str, float]:
    """Return times (ms) and counts of an answer under llama.cpp's names."""
    stats = outcome.stats
    read, emitted = stats.prompt_tokens - stats.reused_tokens, stats.emitted
    spoken = stats.draft_seconds + stats.verify_seconds + stats.host_seconds + stats.wait_seconds
    return {
        "cache_n": stats.reused_tokens,
        "prompt_n": read,
        # The first round reads the prompt's last token and includes its time, so the prompt's speed counts one token
        # less.
        **_speed("prompt", max(0, read - 1), stats.prompt_seconds),
        "predicted_n": emitted,
        **_speed("predicted", emitted, spoken),
        "draft_n": stats.drafted,
        "draft_n_accepted": stats.accepted,
    }


def usage(outcomes: Sequence[Outcome], answers: int = 1) -> dict[str, Any]:
    """Return token counts under OpenAI's names; each prompt has so many answers, and counts once."""
    stats = [outcome.stats for outcome in outcomes]
    first = stats[::answers]
    prompt, emitted = sum(one.prompt_tokens for one in first), sum(one.emitted for one in stats)
    accepted, drafted = sum(one.accepted for one in stats), sum(one.drafted for one in stats)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": emitted,
        "total_tokens": prompt + emitted,
        "prompt_tokens_details": {"cached_tokens": sum(one.reused_tokens for one in first)},
        "completion_tokens_details": {
            "accepted_prediction_tokens": accepted,
            "rejected_prediction_tokens": drafted - accepted,
        },
    }


def finish_reason(finish: Finish) -> str:
    """Return the reason why an answer ended, in OpenAI's terms."""
    return "stop" if finish in _ENDS else "length"


def stop_type(finish: Finish) -> str:
    """Return the reason why an answer ended, in llama.cpp's terms."""
    return _ENDS.get(finish, "limit")


def head(kind: str, prefix: str, model: str) -> dict[str, Any]:
    """Return the common first members of OpenAI's replies, identical in all events of a stream."""
    return {
        "id": f"{prefix}-{uuid.uuid4().hex}",
        "object": kind,
        "created": int(time.time()),
        "model": model,
        "system_fingerprint": f"localspec-{__version__}",
    }


def _speed(name: str, tokens: int, seconds: float) -> dict[str, float]:
    return {
        f"{name}_ms": seconds * _MILLISECONDS,
        f"{name}_per_token_ms": seconds * _MILLISECONDS / tokens if tokens else 0.0,
        f"{name}_per_second": tokens / seconds if seconds > 0 else 0.0,
    }
