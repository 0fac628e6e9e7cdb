"""What a forging will take, and is likely to gain: said before it begins."""

import shutil
from pathlib import Path

from app.forge.methods.base import Plan
from app.forge.request import ForgeRequest
from app.forge.work import Progress
from models.errors import LocalspecError

_LEAST_FREE = 1 << 30
"""Bytes of the disk that stay free."""


def answered(request: ForgeRequest, seconds: float) -> int:
    """Return about how many tokens a target answers, on one core or a GPU that is as slow."""
    rate = 200 * 135e6 / max(1.0, request.facts.size * 1.4)
    return max(1, int(seconds * rate * max(1, request.threads or 1)))


def words(request: ForgeRequest, plan: Plan, progress: Progress) -> str:
    """Return what it will take, how much of that an earlier run did, and what it may gain."""
    minutes = f"{request.minutes:g} minutes" if request.minutes != 1 else "1 minute"
    if (spent := round((progress.collected + progress.trained) / 60)) > 0:
        minutes += f", {spent} of which an earlier run has spent"
    lines = [
        plan.what,
        f"It takes {minutes}. It needs about {size_words(plan.disk)} of disk in {request.work}, and about "
        f"{size_words(plan.memory)} of memory. It can be stopped at any time; the same command goes on.",
        plan.expected,
    ]
    if request.prompts:
        lines.append(f"{len(request.prompts)} prompts of yours come first; they and the answers stay on this machine.")
    return "\n".join(lines)


def check_room(request: ForgeRequest, plan: Plan) -> None:
    """Raise LocalspecError where the disk has too little room."""
    folder = _existing(request.work)
    free, wanted = shutil.disk_usage(folder).free, plan.disk + _LEAST_FREE
    if free < wanted:
        raise LocalspecError(
            f"The disk has too little room: {size_words(wanted)} are needed, {size_words(free)} are free.",
            cause=f"The work is kept in {request.work}.",
            hint="Free some space, or give fewer --minutes.",
        )


def _existing(folder: Path) -> Path:
    return next((each for each in (folder, *folder.parents) if each.exists()), Path("/"))


def size_words(count: int) -> str:
    """Return a number of bytes in words."""
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:,.0f} MiB"
