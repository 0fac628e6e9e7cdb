"""What a forging will take, and is likely to gain: said before it begins."""

import shutil
from pathlib import Path

from app.forge.answers import CONTEXT, TOGETHER
from app.forge.request import ForgeRequest
from models.errors import LocalspecError

ANSWERING, TRAINING = 0.4, 0.5
"""Shares of the minutes for the target's answers and for training; the rest is for measuring."""
_LEAST_FREE = 1 << 30
"""Bytes of the disk that stay free."""


def tokens_of(request: ForgeRequest) -> int:
    """Return about how many tokens the target answers in the time for that, on one core or a GPU that is as slow."""
    rate = 200 * 135e6 / max(1.0, request.facts.size * 1.4)
    return max(1, int(request.minutes * 60 * ANSWERING * rate * max(1, request.threads or 1)))


def disk_of(request: ForgeRequest) -> int:
    """Return about how many bytes the answers' rows and the checkpoints take."""
    rows = tokens_of(request) * (3 * request.facts.width * 2 + 60)
    return rows + request.facts.parameters * 16


def memory_of(request: ForgeRequest) -> int:
    """Return about how many bytes of memory it takes at most: the target with its texts, then training."""
    facts = request.facts
    answering = facts.size + TOGETHER * CONTEXT * facts.width * 64
    training = facts.parameters * 16 + facts.vocabulary * facts.width * 8 + (1 << 30)
    return max(answering, training if request.train else 0)


def words(request: ForgeRequest) -> str:
    """Return what it will take, and what it may gain."""
    facts, took = request.facts, tokens_of(request)
    minutes = f"{request.minutes:g} minutes" if request.minutes != 1 else "1 minute"
    lines = [
        f"A draft head (EAGLE-3) for {request.target.name}: {facts.architecture}, rows of {facts.width:,} numbers, "
        f"layers {', '.join(map(str, facts.layers))}.",
        f"It takes {minutes}, about {_size(disk_of(request))} of disk in {request.work}, and about "
        f"{_size(memory_of(request))} of memory. It can be stopped at any time; the same command goes on.",
        f"About {took:,} tokens of answers. {_expected(took, train=request.train)}",
    ]
    if request.prompts:
        lines.append(f"{len(request.prompts)} prompts of yours come first; they and the answers stay on this machine.")
    return "\n".join(lines)


def check_room(request: ForgeRequest) -> None:
    """Raise LocalspecError where the disk has too little room."""
    folder = _existing(request.work)
    free, wanted = shutil.disk_usage(folder).free, disk_of(request) + _LEAST_FREE
    if free < wanted:
        raise LocalspecError(
            f"The disk has too little room: {_size(wanted)} are needed, {_size(free)} are free.",
            cause=f"The work is kept in {request.work}.",
            hint="Free some space, or give fewer --minutes.",
        )


def _expected(tokens: int, *, train: bool) -> str:
    if not train:
        return "Without training the first draft token is right about once in five times: no gain, a look at the way."
    if tokens < 100_000:
        return "That is little: the first draft token may be right once in three times, which seldom pays."
    return (
        "The first draft token is expected to be right 4 times in 10, which was not measured yet. "
        "A small model gains little from that, as its passes are cheap; one of 3B or more may get 1.4 times as fast."
    )


def _existing(folder: Path) -> Path:
    return next((each for each in (folder, *folder.parents) if each.exists()), Path("/"))


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:,.0f} MiB"
