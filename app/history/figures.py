"""How an answer came about, in one line."""

from app.history.records import FAILED, Answer

_ENDINGS = {
    "length": "cut at its limit",
    "context": "the context was full",
    "cancelled": "stopped",
    FAILED: "ended by an error",
    None: "unfinished",
}
"""Endings that a reader should know of; with an end token or a stop string an answer is as it should be."""


def figures(answer: Answer) -> str:
    """Return tokens, speed, speculation, seed and ending, as far as they are known."""
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


def _speculation(answer: Answer) -> str:
    drafted, accepted = answer.statistics.get("drafted"), answer.statistics.get("accepted")
    return f"{answer.drafter} {accepted}/{drafted} accepted" if drafted else f"drafter {answer.drafter}"


def _sampling(answer: Answer) -> str:
    sampling = answer.settings.get("sampling", {})
    if not sampling:
        return ""
    warm = sampling["temperature"] > 0
    return f"temp {sampling['temperature']:g}, seed {sampling['seed']}" if warm else "temp 0"
