"""The text and figures of one answer, collected from the engine's messages; a cancelled answer keeps its figures."""

import time

from app.engine.conversation.messages import Ended, PromptScored, Said
from app.engine.conversation.session import Reading
from app.engine.decoding.ending import Finish
from app.engine.decoding.logprobs import TokenLogprobs
from app.engine.decoding.round import Clock
from app.engine.decoding.stats import Snapshot, Stats
from app.engine.runtime.async_engine import AnswerMessage
from app.serve.requests.engine_request import EngineRequest, Outcome, Piece
from app.serve.requests.indent import Margin


class AnswerCollector:
    """Collects the messages of one answer; returns the text that can go to the client."""

    def __init__(self, request: EngineRequest, clock: Clock = time.perf_counter) -> None:
        """Start an answer to a request; `clock` returns seconds."""
        self.outcome: Outcome | None = None
        """The end of the answer; None while it runs."""
        self._clock = clock
        self._reads_since = 0.0
        self._margin = Margin(request.indent)
        self._pieces: list[str] = []
        self._places: list[TokenLogprobs] = []
        self._prompt_places: list[TokenLogprobs] = []
        self._stats = Stats()

    @property
    def stats(self) -> Snapshot:
        """Figures so far. The engine's final figures arrive with the end."""
        return self._stats.snapshot()

    def hear(self, message: AnswerMessage) -> Piece | None:
        """Take a message; return the new certain text, or None if the client needs nothing sent."""
        if isinstance(message, Ended):
            rest = self._margin.feed(message.text)
            self.end(rest + self._margin.finish(), message.finish, message.stats, message.stopped_by)
        elif isinstance(message, Said):
            return self._hear_text(message)
        elif isinstance(message, PromptScored):
            self._prompt_places += message.places
        elif isinstance(message, Reading):
            return self._hear_reading(message)
        return None

    def end(self, rest: str, finish: Finish, stats: Snapshot | None = None, stop: str = "") -> None:
        """End the answer with text that was not sent yet; `stop` is the stop string that ended it."""
        text, stats = "".join(self._pieces) + rest, self.stats if stats is None else stats
        scored = tuple(self._prompt_places)
        self.outcome = Outcome(rest, text, finish, stats, tuple(self._places), stop, scored)

    def _hear_reading(self, message: Reading) -> Piece:
        now = self._clock()
        if not self._stats.prompt_tokens:
            # Tokens done before any reading came from the cache.
            self._stats.prompt_tokens, self._stats.reused_tokens = message.total, message.done
            # Not measured from the request on, which may have waited for others.
            self._reads_since = now
        self._stats.prompt_seconds = now - self._reads_since
        return Piece(reading=message)

    def _hear_text(self, message: Said) -> Piece:
        self._stats.observe(message.round)
        text = self._margin.feed(message.text)
        self._pieces.append(text)
        self._places += message.places
        if self._margin.is_over:
            # The engine would continue with lines that are discarded.
            self.end("", Finish.LENGTH)
        return Piece(text, message.places, len(message.round.emitted))
