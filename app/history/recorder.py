"""Recording of a conversation while it runs, for line chats, single answers and the chat screen.

    ask       a message of the user; it is on disk before the answer begins
    begin     an answer starts; hear: a piece of it; fail: an error ended it
    again     the next answer becomes an alternative to the last one
    undo, clear, name

Entries are never removed: undone and regenerated ones stay as branches. A message without any word of an answer becomes
a branch too, because the conversation continued without it.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from app.engine.conversation.messages import Ended, Said
from app.engine.decoding.ending import Finish
from app.engine.decoding.request import Question
from app.engine.runtime.load import TOY
from app.history.branch import answered, current_branch, newest_leaf, open_branch
from app.history.pace import Pace
from app.history.records import FAILED, Conversation, Entry, Record, SavedAnswer, new_conversation_id, new_entry_id
from app.history.resume import Resumed
from app.history.rounds import pack
from app.history.scribe import Scribe
from app.shell.paths import conversations_file
from app.shell.safe_text import one_line, title_of
from models.errors import LocalspecError
from models.library.catalog import STARTER, find_model
from models.text.prompts import Message


@dataclass(slots=True)
class _Growing:
    """An answer in progress."""

    entry: Entry
    pace: Pace
    text: str = ""
    tokens: list[int] = field(default_factory=list)
    messages: list[Said] = field(default_factory=list)


class Recorder:
    """One conversation and its storage; without a scribe it is kept in memory only."""

    def __init__(
        self,
        scribe: Scribe | None = None,
        *,
        model: str = "",
        source: str = "",
        wait: float = 2.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Take the target's name and the name to load it by; `wait`: maximum seconds that a call waits for the disk.

        A screen passes no wait: its calls return at once, and `notes` reports problems later.
        """
        self.model, self.source = model, source
        self.conversation: Conversation | None = None
        """None: no message yet."""
        self.entries: dict[int, Entry] = {}
        """All entries of the conversation, on all branches."""
        self._scribe = scribe
        self._wait = wait
        self._clock = clock
        self._home: int | None = None
        self._growing: _Growing | None = None

    @property
    def growing(self) -> int | None:
        """The entry of the answer in progress; None for none."""
        return None if self._growing is None else self._growing.entry.id

    @property
    def key(self) -> str:
        """Id of the saved conversation; "" where there is none."""
        return "" if self.private or self.conversation is None else self.conversation.id

    @property
    def private(self) -> bool:
        """Whether the conversation is not saved."""
        return self._scribe is None

    def resume(self, conversation: Conversation, entries: list[Entry]) -> None:
        """Continue a saved conversation; a last message without an answer is left out."""
        branch = open_branch(entries, conversation.leaf)
        self.conversation = replace(conversation, leaf=branch[-1].id if branch else None)
        self.entries = {entry.id: entry for entry in entries}
        if self._scribe is not None:
            self._scribe.know(conversation, *entries)

    def branch(self) -> list[Entry]:
        """Return the entries of the current branch."""
        leaf = None if self.conversation is None else self.conversation.leaf
        return current_branch(list(self.entries.values()), leaf)

    def turns(self) -> list[Message]:
        """Return the current branch as turns for the model, without the system message."""
        return [Message(entry.role, entry.text) for entry in self.branch()]

    def spelled(self) -> list[tuple[int, ...]]:
        """Return the tokens of each answer among the turns."""
        return [entry.answer.tokens for entry in self.branch() if entry.answer is not None]

    def ask(
        self, text: str, system: str | None = None, *, instead_of: int | None = None, typed: str | None = None
    ) -> None:
        """Record a message of the user, and wait until it is on disk.

        `instead_of` is an earlier message, beside which this one begins a branch; `typed` is the typed text, if it
        differs.
        """
        if self.conversation is None:
            now = self._clock()
            self.conversation = Conversation(new_conversation_id(), title_of(text), system, None, now, now)
        self.conversation = replace(self.conversation, system=system)
        self._home = self.conversation.leaf
        parent = self._home if instead_of is None else self.entries[instead_of].parent
        entry = Entry(new_entry_id(), self.conversation.id, parent, "user", text, self._clock())
        entry = replace(entry, typed=None if typed == text else typed)
        self._put(entry, leaf=entry.id)

    def again(self) -> None:
        """Make the next answer an alternative to the last one."""
        if self.conversation is not None and self.conversation.leaf is not None:
            self._home = self.conversation.leaf
            # Saved later: until the new answer has a word, the old one stays current.
            self.conversation = replace(self.conversation, leaf=self.entries[self._home].parent)

    def begin(self, question: Question, drafter: str) -> None:
        """Start the answer to the last message."""
        if self.conversation is None or self.conversation.leaf is None:
            return
        answer = SavedAnswer(self.model, self.source, drafter, str(question.accept), None, _settings(question), {}, ())
        leaf = self.conversation.leaf
        entry = Entry(new_entry_id(), self.conversation.id, leaf, "assistant", "", self._clock(), answer)
        self._growing = _Growing(entry, Pace())

    def hear(self, message: Said | Ended) -> None:
        """Take a piece of the answer; it is saved at the end of a sentence, or of the answer."""
        growing = self._growing
        if growing is None:
            return
        growing.text += message.text
        if isinstance(message, Ended):
            statistics = asdict(message.stats)
            self._end(str(message.finish), text=message.answer, drafter=message.drafter, statistics=statistics)
            return
        growing.tokens += message.round.emitted
        growing.messages.append(_without_distributions(message))
        if growing.pace.due(message.text):
            self._write()

    def fail(self) -> None:
        """Record an error: the failed answer stays as a branch; the conversation returns to the state before."""
        if self._growing is not None:
            self._end(FAILED)

    def writing(self, question: Question, drafter: str, rounds: Iterator[Said | Ended]) -> Iterator[Said | Ended]:
        """Yield an answer's messages, each after it was recorded."""
        self.begin(question, drafter)
        try:
            for message in rounds:
                self.hear(message)
                yield message
        except LocalspecError:
            self.fail()
            raise

    def undo(self) -> None:
        """Return to the state before the last message of the user."""
        branch = self.branch()
        if branch:
            self._put(leaf=branch[-2].parent if len(branch) > 1 else None)

    def switch(self, entry: int) -> None:
        """Switch to the branch of an entry, as far as it was answered."""
        if entry in self.entries:
            self._put(leaf=newest_leaf(answered(list(self.entries.values())), entry))

    def clear(self) -> None:
        """Let the next message start a new conversation."""
        self.conversation, self.entries, self._growing = None, {}, None

    def name(self, title: str) -> None:
        """Set the title of the conversation; an empty one changes nothing."""
        if self.conversation is not None and one_line(title):
            self.conversation = replace(self.conversation, title=one_line(title))
            self._put()

    def notes(self) -> list[str]:
        """Return notes for the user about saving, each once."""
        return [] if self._scribe is None else self._scribe.notes()

    def close(self) -> None:
        """Save the rest of an interrupted answer, and wait for the disk a last time."""
        if self._growing is not None:
            self._end(str(Finish.CANCELLED))
        if self._scribe is not None:
            self._scribe.close()

    def _end(self, finish: str, text: str | None = None, **details: Any) -> None:
        """Save the finished answer, and continue the conversation from it, or from the state before it."""
        growing = self._growing
        assert growing is not None
        if text is not None:
            growing.text = text
        counts = bool(growing.text) and finish != FAILED
        if growing.text:
            self._write(finish, counts=counts, rounds=pack(growing.messages), **details)
        self._growing = None
        if not counts:
            self._put(leaf=self._home)

    def _write(self, finish: str | None = None, *, counts: bool = True, **details: Any) -> None:
        growing = self._growing
        assert growing is not None
        assert growing.entry.answer is not None
        answer = replace(growing.entry.answer, tokens=tuple(growing.tokens), finish=finish, **details)
        entry = replace(growing.entry, text=growing.text, answer=answer)
        self._put(entry, leaf=entry.id if counts else self._home)

    def _put(self, *entries: Entry, **changes: Any) -> None:
        """Save the conversation with these changes, and some of its entries."""
        if self.conversation is None:
            return
        self.conversation = replace(self.conversation, changed=self._clock(), **changes)
        self.entries.update({entry.id: entry for entry in entries})
        records: tuple[Record, ...] = (self.conversation, *entries)
        if self._scribe is not None:
            self._scribe.put(*records)
            self._scribe.settle(self._wait)


def start_recorder(model: str, name: str, resumed: Resumed | None, *, saved: bool, wait: float = 2.0) -> Recorder:
    """Return the recorder of a run, from the target's name, the name to load it by, and the resumed conversation."""
    scribe = Scribe(conversations_file()) if saved else None
    recorder = Recorder(scribe, model=model, source=source_of(name), wait=wait)
    if resumed is not None:
        recorder.resume(resumed.conversation, list(resumed.entries))
    return recorder


def source_of(name: str) -> str:
    """Return the name that loads a model from any folder: a catalog name unchanged, a file as an absolute path."""
    if name in (STARTER, TOY):
        return name
    try:
        path = find_model(name).absolute()
    except (LocalspecError, FileNotFoundError):
        # A loaded model's file or working directory may have been deleted.
        return name
    return str(path) if path.is_file() else name


def _without_distributions(message: Said) -> Said:
    """Return a round without its draft distributions, which are never saved and can be a megabyte per token."""
    draft = replace(message.round.draft, probs=None)
    return replace(message, round=replace(message.round, draft=draft))


def _settings(question: Question) -> dict[str, Any]:
    """Return the settings of a question without its texts: turns are saved as entries, a prediction is large."""
    settings = asdict(replace(question, turns=(), prediction=""))
    del settings["turns"], settings["prediction"], settings["watch"]
    systems = [turn.text for turn in question.turns if turn.role == "system"]
    return {**settings, "system": systems[0] if systems else None}
