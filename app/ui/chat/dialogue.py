"""The conversation behind the chat screen: messages and the next question, without widgets or threads."""

from collections.abc import Sequence
from dataclasses import replace

from app.engine.conversation.messages import Ended, Said
from app.engine.decoding.request import Question
from app.history.branch import answered, beside
from app.history.recorder import Recorder
from app.history.records import Entry
from app.history.rounds import AnswerRounds, unpack
from models.text.prompts import Message


class Dialogue:
    """The messages, the current branch, and the settings of answers."""

    def __init__(self, settings: Question, system: str | None, usual_system: str | None = None) -> None:
        """Begin an empty conversation. `usual_system` is the system prompt of later new ones."""
        self.settings = replace(settings, watch=True)
        self.system, self._usual_system = system, usual_system
        self.record = Recorder()
        self.drafter = "off"
        self.measures = False
        """Whether later answers come with the target's probability of each token."""
        self.last: Ended | None = None
        """The last answer, for /stats."""

    def instruct(self, system: str | None) -> None:
        """Set the system prompt from the next answer on; None removes it."""
        self.system = self._usual_system = system

    def clear(self) -> None:
        """Start a new conversation with the next question."""
        self.system = self._usual_system
        self.record.clear()

    def ask(self, text: str, instead_of: int | None = None, typed: str | None = None) -> Question:
        """Return the question after a message of the user, which may stand in the place of an earlier one.

        `typed` is what was typed for it, if that is another text.
        """
        self.record.ask(text, self.system, instead_of=instead_of, typed=typed)
        return self._begin()

    def again(self) -> Question | None:
        """Return the last question once more, with the next seed; None when nothing was asked."""
        if not self.record.branch():
            return None
        sampling = self.settings.sampling
        self.settings = replace(self.settings, sampling=replace(sampling, seed=sampling.seed + 1))
        self.record.again()
        return self._begin()

    def hear(self, message: Said | Ended) -> int | None:
        """Record a piece of the answer and return its entry's id."""
        entry = self.record.growing
        if isinstance(message, Ended):
            self.last = message
        self.record.hear(message)
        return entry

    def resumed(self) -> tuple[Question, Sequence[Sequence[int]], str]:
        """Return the conversation so far as a question, the tokens of its answers, and its key, for `Link.recall`."""
        return self._question(), self.record.spelled(), self.record.key

    def rounds(self, entry: Entry) -> AnswerRounds | None:
        """Return how an answer's rounds went; None where that is not known."""
        return unpack(entry.answer.rounds) if entry.answer else None

    def alternatives(self, entry: int) -> list[Entry]:
        """Return what stands in the place of an entry: itself, what was regenerated, and what was edited.

        What came to nothing is none of them: from a message without an answer no conversation can go on.
        """
        known = self.record.entries
        return beside(answered(list(known.values())), known[entry]) if entry in known else []

    def undone(self) -> Entry | None:
        """Return the message that follows the current branch, the latest if there are several; None: none does."""
        conversation = self.record.conversation
        if conversation is None:
            return None
        known = answered(list(self.record.entries.values()))
        following = [entry for entry in known if entry.parent == conversation.leaf]
        return max(following, key=lambda entry: entry.created, default=None)

    def _begin(self) -> Question:
        question = self._question()
        self.record.begin(question, self.drafter)
        return question

    def _question(self) -> Question:
        system = (Message("system", self.system),) if self.system else ()
        listed = 0 if self.measures else self.settings.listed
        return replace(self.settings, turns=(*system, *self.record.turns()), listed=listed)
