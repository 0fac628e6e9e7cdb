"""The conversation of the line chat: asks the engine, streams answers, prints one line of figures after each."""

from dataclasses import dataclass, field, replace

from app.chat_input.settings import form_note, thinking_note
from app.engine.conversation.messages import Ended, Ready
from app.engine.decoding.request import Question
from app.engine.runtime.blocking_engine import LineEngine
from app.flags.request import Request
from app.history.recorder import Recorder, start_recorder
from app.history.report import last_turns
from app.history.resume import Resumed
from app.line_chat.speech import Speech
from app.shell.safe_text import one_line
from app.shell.terminal import Terminal
from app.wording.report import empty_answer_note, ending_note, summary, unfinished_note
from models.text.prompts import Message


@dataclass(slots=True)
class Chat:
    """A conversation and its settings; `ask` and `again` talk to the engine."""

    engine: LineEngine
    terminal: Terminal
    settings: Question
    """Settings of answers; each question fills in its turns."""
    system: str | None
    usual_system: str | None = None
    """System prompt of a new conversation."""
    drafter: str = "off"
    """Name of the drafter in use."""
    target: str = ""
    """Name of the target, as given."""
    turns: list[Message] = field(default_factory=list)
    """User and assistant messages, alternating; the system message is kept apart."""
    last: Ended | None = None
    """The last answer, for /stats."""
    record: Recorder = field(default_factory=Recorder)
    """Saves the conversation."""

    @classmethod
    def start(cls, request: Request, terminal: Terminal, engine: LineEngine) -> "Chat":
        """Load the models and return the chat over them."""
        ready: Ready = engine.load()
        chat = cls(
            engine, terminal, request.settings, request.system, request.usual_system, ready.drafter, request.plan.model
        )
        chat.terminal.tell(
            f"{ready.model}: {ready.description}, context {ready.context_size:,}, drafter {ready.drafter}"
        )
        if thinks := thinking_note(request.settings, ready.efforts):
            terminal.tell(thinks)
        chat.record = start_recorder(ready.model, request.plan.model, request.resumed, saved=request.saved)
        if request.resumed is not None:
            chat._go_on(request.resumed)
        if chat.record.private:
            terminal.tell("Private: nothing of this chat is saved.")
        if note := form_note(request.settings):
            terminal.tell(note)
        return chat

    def ask(self, text: str, typed: str | None = None) -> None:
        """Answer a message. If the answer fails or has no text, the conversation stays unchanged."""
        before = list(self.turns)
        self.record.ask(text, self.system, typed=typed)
        self._answer([*before, Message("user", text)], otherwise=before)

    def again(self) -> bool:
        """Answer the last message again with the next seed; return False if there is none. Else as `ask`."""
        if not self.turns:
            return False
        sampling = self.settings.sampling
        self.settings = replace(self.settings, sampling=replace(sampling, seed=sampling.seed + 1))
        self.record.again()
        self._answer(self.turns[:-1], otherwise=list(self.turns))
        return True

    def undo(self) -> bool:
        """Remove the last message and its answer; return False if there is none."""
        if not self.turns:
            return False
        del self.turns[-2:]
        self.record.undo()
        return True

    def instruct(self, system: str | None) -> None:
        """Set the system prompt from the next answer on; None removes it."""
        self.system = self.usual_system = system

    def clear(self) -> None:
        """Start a new conversation."""
        self.system = self.usual_system
        self.turns.clear()
        self.record.clear()

    def close(self) -> None:
        """Save the rest of the conversation, and report failures to save."""
        self.record.close()
        self.engine.leave(self.record.key)
        self._tell_notes()

    def _go_on(self, resumed: Resumed) -> None:
        """Continue a saved conversation, and show its last turns."""
        self.turns = self.record.turns()
        self.engine.recall(self._question(self.turns), self.record.spelled(), self.record.key)
        if resumed.branch:
            self.terminal.tell("\n" + last_turns(resumed.branch) + "\n")
        if resumed.unanswered is not None:
            self.terminal.warn(f"this message got no answer: {one_line(resumed.unanswered)}")
        self.terminal.tell(f'Continuing {resumed.conversation.id} "{resumed.conversation.title}".')
        if resumed.model not in (None, self.record.model):
            self.terminal.warn(f"the answers so far are from {resumed.model}.")

    def _answer(self, turns: list[Message], *, otherwise: list[Message]) -> None:
        """Answer the last of `turns`, and make them the conversation, or `otherwise` if nothing was said."""
        self.turns = otherwise
        self._tell_notes()
        question = self._question(turns)
        speech = Speech(self.terminal, divides=not question.raw)
        for message in self.record.writing(question, self.drafter, self.engine.answer(question)):
            speech.hear(message)
            if isinstance(message, Ended):
                if message.answer:
                    self.turns = [*turns, Message("assistant", message.answer)]
                self._tell_end(message, speech, again=len(otherwise) > len(turns))
        self.engine.keep(self.record.key)
        self._tell_notes()

    def _tell_end(self, ended: Ended, speech: Speech, *, again: bool) -> None:
        self.last = ended
        empty = None if ended.answer else empty_answer_note(again=again)
        unfinished = unfinished_note(ended.finish) if speech.is_unfinished else None
        formed = self.settings.grammar is not None and not unfinished
        notes = [ending_note(ended.finish, in_chat=True, formed=formed), empty, unfinished]
        if any(notes):
            self.terminal.tell(" ".join(note for note in notes if note))
        self.terminal.tell(summary(ended))

    def _tell_notes(self) -> None:
        for note in self.record.notes():
            self.terminal.warn(note)

    def _question(self, turns: list[Message]) -> Question:
        system = (Message("system", self.system),) if self.system else ()
        return replace(self.settings, turns=(*system, *turns))
