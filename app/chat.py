"""The line chat: no screen, so it works everywhere. Reads a turn, streams the answer, prints one dim line."""

from dataclasses import dataclass, field, replace

from app.engine.messages import Ended, Ready
from app.engine.worker import Question
from app.line_engine import LineEngine
from app.report import ending_note, summary
from app.request import Request
from app.terminal import Terminal
from models.errors import LocalspecError
from models.prompts import Message


@dataclass(slots=True)
class Chat:
    """A conversation and its settings; `ask` and `again` talk to the engine."""

    engine: LineEngine
    terminal: Terminal
    settings: Question
    """How to answer; its turns are filled in for each question."""
    system: str | None
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
        chat = cls(engine, terminal, request.settings, request.system, ready.drafter)
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
        sampling = self.settings.sampling
        self.settings = replace(self.settings, sampling=replace(sampling, seed=sampling.seed + 1))
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

    def _question(self) -> Question:
        turns = (Message("system", self.system), *self.turns) if self.system else tuple(self.turns)
        return replace(self.settings, turns=turns)
