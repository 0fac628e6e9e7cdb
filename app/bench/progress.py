"""Progress line of a long comparison: answers done, and time left."""

import time
from collections.abc import Sequence

from app.bench.measuring.arms import BenchPrompt, Skipped
from app.shell.terminal import Terminal, bar, time_left
from models.errors import LocalspecError


def tell_nothing(terminal: Terminal, skipped: Sequence[Skipped], *, interrupted: bool) -> None:
    """Show why there are no results; raises LocalspecError if no prompt could be run: a script must not go on."""
    if not interrupted:
        raise LocalspecError(
            f"No prompt could be run: {skipped[0].reason}.", hint="Choose others with --class or --prompts."
        )
    terminal.warn("Stopped before all arms had answered one prompt.")


class ComparisonProgress:
    """Progress bar that moves with every answer."""

    def __init__(self, terminal: Terminal, prompts: Sequence[BenchPrompt], arms: int, temperatures: int) -> None:
        """Take the prompts, and the numbers of arms and temperatures."""
        self._terminal = terminal
        # A hole to fill is one turn.
        self._wanted = {prompt.id: arms * (len(prompt.turns) or 1) for prompt in prompts}
        self._answers = temperatures * sum(self._wanted.values())
        self._begun = 0
        self._begun_of: dict[str, int] = {}
        """Begun answers to the last prompt, by its id."""
        self._started: float | None = None

    def on_answer(self, prompt: BenchPrompt, arm: str) -> None:
        """Show that an answer begins."""
        now = time.monotonic()
        self._started = now if self._started is None else self._started
        self._show(self._begun, f"{prompt.class_name}, {arm}  {self._left(now - self._started)}")
        self._begun += 1
        self._begun_of = {prompt.id: self._begun_of.get(prompt.id, 0) + 1}

    def skip(self, skipped: Skipped) -> None:
        """Remove the answers of a skipped prompt from the total."""
        self._answers -= self._wanted[skipped.prompt] - self._begun_of.pop(skipped.prompt, 0)

    def tell(self, text: str) -> None:
        """Show the present work after the last answer that has begun."""
        self._show(self._begun, text)

    def _show(self, done: int, text: str) -> None:
        self._terminal.progress(f"{bar(done, self._answers)} {done}/{self._answers}  {text}".rstrip())

    def _left(self, seconds: float) -> str:
        if self._begun == 0:
            return ""
        return time_left(seconds / self._begun * (self._answers - self._begun))
