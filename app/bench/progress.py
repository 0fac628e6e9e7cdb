"""The progress line of a long comparison: how many answers of how many, and how long the rest will take."""

import time
from collections.abc import Sequence

from app.engine.bench import BenchPrompt, Skipped
from app.terminal import Terminal, bar, time_left
from models.errors import LocalspecError


def count_turns(prompts: Sequence[BenchPrompt]) -> int:
    """Return how many answers these prompts ask for; a hole to fill is one."""
    return sum(len(prompt.turns) or 1 for prompt in prompts)


def tell_nothing(terminal: Terminal, skipped: Sequence[Skipped], *, interrupted: bool) -> None:
    """Say why there is nothing to show; raises LocalspecError where the prompts are why: a script must not go on."""
    if not interrupted:
        raise LocalspecError(
            f"No prompt could be run: {skipped[0].reason}.", hint="Choose others with --class or --prompts."
        )
    terminal.warn("Stopped before all arms had answered one prompt.")


class AnswerProgress:
    """A bar that moves with every answer."""

    def __init__(self, terminal: Terminal, answers: int) -> None:
        """Take how many answers there will be."""
        self._terminal = terminal
        self._answers = answers
        self._begun = 0
        self._started: float | None = None

    def on_answer(self, prompt: BenchPrompt, arm: str) -> None:
        """Show that an answer begins."""
        now = time.monotonic()
        self._started = now if self._started is None else self._started
        self._show(self._begun, f"{prompt.class_name}, {arm}  {self._left(now - self._started)}")
        self._begun += 1

    def tell(self, text: str) -> None:
        """Show what goes on after the last answer that has begun."""
        self._show(self._begun, text)

    def _show(self, done: int, text: str) -> None:
        self._terminal.progress(f"{bar(done, self._answers)} {done}/{self._answers}  {text}".rstrip())

    def _left(self, seconds: float) -> str:
        if self._begun == 0:
            return ""
        return time_left(seconds / self._begun * (self._answers - self._begun))
