"""Figures of a saved answer, on one line."""

from app.history.records import FAILED, SavedAnswer

_ENDINGS = {
    "length": "stopped at the token limit",
    "context": "stopped: context full",
    "cancelled": "stopped",
    FAILED: "failed",
    None: "unfinished",
}
"""Finish reasons worth a remark; an end token or stop text is the normal case."""


def figures(answer: SavedAnswer) -> str:
    """Return tokens, speed, speculation, seed and finish reason, as far as they are known."""
    counted = answer.statistics
    tokens = counted.get("emitted", len(answer.tokens))
    speed = counted.get("tokens_per_second")
    parts = [
        f"{tokens:,} token{'' if tokens == 1 else 's'}",
        f"{speed:.1f} tokens/s" if speed else "",
        _speculation(answer),
        _sampling(answer),
        "" if answer.accept == "coupled" else f"{answer.accept} rule",
        _ENDINGS.get(answer.finish, ""),
    ]
    return " · ".join(part for part in parts if part)


def _speculation(answer: SavedAnswer) -> str:
    drafted, accepted = answer.statistics.get("drafted"), answer.statistics.get("accepted")
    return f"{answer.drafter} {accepted}/{drafted} accepted" if drafted else f"drafter {answer.drafter}"


def _sampling(answer: SavedAnswer) -> str:
    sampling = answer.settings.get("sampling", {})
    if not sampling:
        return ""
    warm = sampling["temperature"] > 0
    return f"temp {sampling['temperature']:g}, seed {sampling['seed']}" if warm else "temp 0"
