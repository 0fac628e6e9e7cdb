"""One answer as it comes from the engine: text that passes, and figures, also of one that is called off."""

from collections.abc import Callable

from app.desk import AnswerMessage
from app.engine.ending import Finish
from app.engine.messages import Ended, Said
from app.engine.session import Reading
from app.engine.stats import Snapshot, Stats
from app.serve.asked import Asked, Outcome
from app.serve.indent import Margin


class Answer:
    """Hears what the engine says, and tells what of it goes to the client."""

    def __init__(self, asked: Asked, prompt_seconds: Callable[[], float]) -> None:
        """Take the question, and who knows how long its prompt took to read."""
        self.outcome: Outcome | None = None
        """How it ended; None: it goes on."""
        self._prompt_seconds = prompt_seconds
        self._margin = Margin(asked.indent)
        self._said: list[str] = []
        self._stats = Stats()

    @property
    def stats(self) -> Snapshot:
        """What was counted so far; the engine's own figures come with the end."""
        return self._stats.snapshot()

    def hear(self, message: AnswerMessage) -> str | None:
        """Take a message; return the text that is certain by it, None where there is no news for the client."""
        if isinstance(message, Ended):
            rest = self._margin.feed(message.text)
            self.end(rest + self._margin.finish(), message.finish, message.stats)
        elif isinstance(message, Said):
            return self._hear_text(message)
        elif isinstance(message, Reading):
            return self._hear_reading(message)
        return None

    def end(self, rest: str, finish: Finish, stats: Snapshot | None = None) -> None:
        """End it, with text that was not told yet."""
        stats = self.stats if stats is None else stats
        seconds = stats.prompt_seconds or self._prompt_seconds()
        self.outcome = Outcome(rest, "".join(self._said) + rest, finish, stats, seconds)

    def _hear_reading(self, message: Reading) -> str:
        if not self._stats.prompt_tokens:
            # What is done before anything was read lay in the cache.
            self._stats.prompt_tokens, self._stats.reused_tokens = message.total, message.done
        return ""

    def _hear_text(self, message: Said) -> str:
        self._stats.observe(message.round)
        text = self._margin.feed(message.text)
        self._said.append(text)
        if self._margin.is_over:
            # The engine would go on with lines that nobody wants.
            self.end("", Finish.LENGTH)
        return text
