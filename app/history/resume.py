"""Lookup of a saved conversation to continue."""

from collections.abc import Callable
from dataclasses import dataclass

from app.history.branch import current_branch, open_branch
from app.history.records import Conversation, Entry, SavedAnswer
from app.history.store import Store
from app.shell.paths import conversations_file
from app.shell.terminal import Terminal


@dataclass(frozen=True, slots=True)
class Resumed:
    """A conversation to continue."""

    conversation: Conversation
    entries: tuple[Entry, ...]

    @property
    def branch(self) -> list[Entry]:
        """The current branch, as far as it was answered."""
        return open_branch(self.entries, self.conversation.leaf)

    @property
    def unanswered(self) -> str | None:
        """The last message as typed, if it has no answer: the program ended before its first sentence."""
        branch = current_branch(self.entries, self.conversation.leaf)
        return branch[-1].as_typed if branch and branch[-1].role == "user" else None

    @property
    def model(self) -> str | None:
        """The model's name in the last answer; None without an answer."""
        return None if (answer := self._last_answer()) is None else answer.model

    @property
    def source(self) -> str | None:
        """The name that loads that model."""
        return None if (answer := self._last_answer()) is None else answer.source

    def _last_answer(self) -> SavedAnswer | None:
        return next((entry.answer for entry in reversed(self.branch) if entry.answer), None)


def find_resumed(prefix: str, note: Callable[[str], None] | None = None) -> Resumed:
    """Return the conversation whose id begins with a text, the last one for ""; raises LocalspecError.

    `note` receives a message if a damaged file was moved away; by default it is printed to the terminal.
    """
    store = Store(conversations_file(), note or Terminal().warn)
    try:
        conversation = store.find(prefix)
        return Resumed(conversation, tuple(store.entries(conversation.id)))
    finally:
        store.close()
