"""The transcript of a chat: its messages, shown while they are generated, to read, copy and edit."""

from collections.abc import Sequence

from app.engine.decoding.origins import Origin
from app.ui.transcript.browsing import Browsing
from app.ui.transcript.entries import Answer, Entry, NoteKind, note, user_entry


class Transcript(Browsing, can_focus=True):
    """Messages of a chat, and notes between them; a message has a key that its owner chose."""

    def add_user(self, key: int, text: str) -> None:
        """Show what the user says, and go there."""
        self._add(key, user_entry(key, text))
        self.follow()

    def begin_answer(self, key: int, *, divides: bool = True) -> None:
        """Add an empty answer to fill; with `divides` its thoughts are split off."""
        self._add(key, Answer(key, divides=divides))

    def append(
        self,
        key: int,
        text: str,
        lengths: Sequence[int] = (),
        origins: Sequence[Origin] = (),
        probabilities: Sequence[float] = (),
    ) -> None:
        """Add text to an answer, the characters that each token completes, the tokens' origins and probabilities.

        Lengths may run ahead of the text. What comes for an answer that was taken back is not shown.
        """
        if isinstance(answer := self._entries.get(key), Answer):
            answer.append(text, lengths, origins, probabilities)
            self.touch()

    def finish(self, key: int, footer: str = "") -> None:
        """End an answer, with a line below it."""
        if isinstance(answer := self._entries.get(key), Answer):
            answer.finish(footer)
            self.touch()

    def add_answer(
        self,
        key: int,
        text: str,
        footer: str = "",
        lengths: Sequence[int] = (),
        origins: Sequence[Origin] = (),
        *,
        divides: bool = True,
    ) -> None:
        """Show a whole answer."""
        self.begin_answer(key, divides=divides)
        self.append(key, text, lengths, origins)
        self.finish(key, footer)

    def add_note(self, text: str, kind: NoteKind) -> None:
        """Show something the program has to say; an "output" keeps its columns."""
        self._all.append(note(text, kind))
        self.touch()

    def truncate(self, key: int) -> None:
        """Remove a message and all later ones. Raises KeyError."""
        index = self._all.index(self._entries[key])
        for entry in self._all[index:]:
            if entry.key is not None:
                del self._entries[entry.key]
        del self._all[index:]
        self.forget_selection()
        self.touch()

    def clear(self) -> None:
        """Remove all entries."""
        self._all.clear()
        self._entries.clear()
        self.forget_selection()
        self.follow()

    def text_of(self, key: int) -> str:
        """Return the exact text of a message; raises KeyError."""
        return self._entries[key].text

    def message_keys(self) -> list[int]:
        """Return the keys of the messages, in order."""
        return list(self._entries)

    def code_blocks(self, key: int) -> list[str]:
        """Return the code of a message, block by block, without their last line ends; raises KeyError."""
        return self._entries[key].code_blocks()

    def _add(self, key: int, entry: Entry) -> None:
        if key in self._entries:
            raise ValueError(f"There is a message {key} already.")
        self._all.append(entry)
        self._entries[key] = entry
        self.touch()
