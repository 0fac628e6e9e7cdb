"""One answer as it comes from the engine: text that passes, and figures, also of one that is called off."""

import time

from app.engine.conversation.messages import Ended, Said
from app.engine.conversation.session import Reading
from app.engine.decoding.ending import Finish
from app.engine.decoding.logprobs import TokenLogprobs
from app.engine.decoding.round import Clock
from app.engine.decoding.stats import Snapshot, Stats
from app.engine.runtime.async_engine import AnswerMessage
from app.serve.requests.asked import Asked, Outcome, Piece
from app.serve.requests.indent import Margin


class Answer:
    """Hears what the engine says, and tells what of it goes to the client."""

    def __init__(self, asked: Asked, clock: Clock = time.perf_counter) -> None:
        """Take the question, and what time is taken by."""
        self.outcome: Outcome | None = None
        """How it ended; None: it goes on."""
        self._clock = clock
        self._reads_since = 0.0
        self._margin = Margin(asked.indent)
        self._said: list[str] = []
        self._places: list[TokenLogprobs] = []
        self._stats = Stats()

    @property
    def stats(self) -> Snapshot:
        """What was counted so far; the engine's own figures come with the end."""
        return self._stats.snapshot()

    def hear(self, message: AnswerMessage) -> Piece | None:
        """Take a message; return what is certain by it, None where there is no news for the client."""
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
        text, stats = "".join(self._said) + rest, self.stats if stats is None else stats
        self.outcome = Outcome(rest, text, finish, stats, tuple(self._places))

    def _hear_reading(self, message: Reading) -> Piece:
        now = self._clock()
        if not self._stats.prompt_tokens:
            # What is done before anything was read lay in the cache.
            self._stats.prompt_tokens, self._stats.reused_tokens = message.total, message.done
            # From here on, and not from the request on, which may have waited for others.
            self._reads_since = now
        self._stats.prompt_seconds = now - self._reads_since
        return Piece()

    def _hear_text(self, message: Said) -> Piece:
        self._stats.observe(message.round)
        text = self._margin.feed(message.text)
        self._said.append(text)
        self._places += message.places
        if self._margin.is_over:
            # The engine would go on with lines that nobody wants.
            self.end("", Finish.LENGTH)
        return Piece(text, message.places)
