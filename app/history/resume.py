"""Going on with a saved conversation."""

from collections.abc import Callable
from dataclasses import dataclass

from app.history.branch import current_branch, open_branch
from app.history.records import Answer, Conversation, Entry
from app.history.store import Store
from app.shell.paths import conversations_file
from app.shell.terminal import Terminal


@dataclass(frozen=True, slots=True)
class Resumed:
    """A conversation to go on with."""

    conversation: Conversation
    entries: tuple[Entry, ...]

    @property
    def branch(self) -> list[Entry]:
        """What was said on the current branch, as far as it was answered."""
        return open_branch(self.entries, self.conversation.leaf)

    @property
    def unanswered(self) -> str | None:
        """The last message as typed, when it has no answer: the program ended before the first sentence of one."""
        branch = current_branch(self.entries, self.conversation.leaf)
        return branch[-1].as_typed if branch and branch[-1].role == "user" else None

    @property
    def model(self) -> str | None:
        """The name of the model of the last answer; None: there is no answer."""
        return None if (answer := self._last_answer()) is None else answer.model

    @property
    def source(self) -> str | None:
        """What opens that model."""
        return None if (answer := self._last_answer()) is None else answer.source

    def _last_answer(self) -> Answer | None:
        return next((entry.answer for entry in reversed(self.branch) if entry.answer), None)


def find_resumed(prefix: str, note: Callable[[str], None] | None = None) -> Resumed:
    """Return the conversation whose id begins like this, the last for ""; raises LocalspecError.

    `note` is told when a damaged file was moved aside; by itself, who is at the terminal.
    """
    store = Store(conversations_file(), note or Terminal().warn)
    try:
        conversation = store.find(prefix)
        return Resumed(conversation, tuple(store.entries(conversation.id)))
    finally:
        store.close()
