"""The progress line of a long comparison: how many answers of how many, and how long the rest will take."""

import time
from collections.abc import Sequence

from app.engine.bench import BenchPrompt
from app.terminal import Terminal

_BAR = 24


def count_turns(prompts: Sequence[BenchPrompt]) -> int:
    """Return how many answers these prompts ask for; a hole to fill is one."""
    return sum(len(prompt.turns) or 1 for prompt in prompts)


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
        filled = _BAR * done // self._answers
        bar = f"{'#' * filled}{'.' * (_BAR - filled)} {done}/{self._answers}"
        self._terminal.progress(f"{bar}  {text}".rstrip())

    def _left(self, seconds: float) -> str:
        if self._begun == 0:
            return ""
        left = seconds / self._begun * (self._answers - self._begun)
        return f"{left / 60:.0f} min left" if left > 90 else f"{left:.0f} s left"
