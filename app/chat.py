"""The line chat: no screen, so it works everywhere. Reads a turn, streams the answer, prints one dim line."""

from dataclasses import dataclass, field, replace

from app.engine.ending import Finish
from app.engine.messages import Ended, Ready
from app.engine.worker import Question
from app.line_engine import LineEngine
from app.report import ending_note, summary
from app.request import Request
from app.terminal import Terminal
from models.errors import LocalspecError
from models.prompts import Message
from models.sampling import SamplingParams


@dataclass(slots=True)
class Chat:
    """A conversation and its settings; `ask` and `again` talk to the engine."""

    engine: LineEngine
    terminal: Terminal
    sampling: SamplingParams
    system: str | None
    raw: bool
    stops: tuple[str, ...]
    max_tokens: int | None
    draft_length: int
    drafter: str = "off"
    """Name of the drafter in use."""
    turns: list[Message] = field(default_factory=list)
    """User and assistant messages, alternating; the system message is kept apart."""
    last: Ended | None = None
    """The last answer, for /stats."""

    @classmethod
    def start(cls, request: Request, terminal: Terminal, engine: LineEngine) -> "Chat":
        """Load the models and return the chat over them."""
        ready: Ready = engine.load()
        chat = cls(
            engine, terminal, request.sampling, request.system, request.raw, request.stops,
            request.max_tokens, request.draft_length, ready.drafter,
        )  # fmt: skip
        chat.terminal.tell(
            f"{ready.model}: {ready.description}, context {ready.context_size:,}, drafter {ready.drafter}"
        )
        return chat

    def ask(self, text: str) -> None:
        """Answer a message; on failure the conversation is as it was before."""
        self.turns.append(Message("user", text))
        try:
            self._answer()
        except LocalspecError:
            self.turns.pop()
            raise

    def again(self) -> bool:
        """Answer the last message anew, with the next seed; False when there is none."""
        if not self.turns:
            return False
        old = self.turns.pop()
        self.sampling = replace(self.sampling, seed=self.sampling.seed + 1)
        try:
            self._answer()
        except LocalspecError:
            self.turns.append(old)
            raise
        return True

    def undo(self) -> bool:
        """Forget the last message and its answer; False when there is none."""
        if not self.turns:
            return False
        del self.turns[-2:]
        return True

    def _answer(self) -> None:
        for message in self.engine.answer(self._question()):
            self.terminal.say(message.text)
            if isinstance(message, Ended):
                self._end(message)

    def _end(self, ended: Ended) -> None:
        self.last = ended
        self.turns.append(Message("assistant", ended.answer))
        if not ended.answer.endswith("\n"):
            self.terminal.say("\n")
        note = ending_note(ended.finish)
        if note is not None:
            self.terminal.tell(note)
        self.terminal.tell(summary(ended))

    @property
    def was_stopped(self) -> bool:
        """Whether the last answer was stopped by the user."""
        return self.last is not None and self.last.finish is Finish.CANCELLED

    def _question(self) -> Question:
        turns = (Message("system", self.system), *self.turns) if self.system else tuple(self.turns)
        return Question(turns, self.sampling, self.raw, self.stops, self.max_tokens, self.draft_length)
