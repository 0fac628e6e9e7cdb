"""The drafter's view of a conversation: its own prompt, then the answer's bytes, all in its own tokens."""

from collections.abc import Sequence
from itertools import accumulate

from drafters.text.conversation import OwnPrompt
from drafters.text.spelling import Spelling, whole_characters
from models.base import LanguageModel, Vocab
from models.text.fim import text_order
from models.text.prompts import Message

_SAFE = 8
"""Last tokens of a text that are spelled anew when it grows: a later byte can change them."""
_MOST_PLAIN = 4096
"""Bytes at the end of a prompt without messages that are read."""


class GrowingText:
    """Tokens of a text that grows by any bytes, after a prompt that stays."""

    def __init__(self, spelling: Spelling, prompt: list[int]) -> None:
        """Take the spelling of the drafter, and the tokens of the prompt."""
        self.tokens = prompt
        """Prompt and text; grows in place."""
        self.has_half = False
        """Whether the text ends within a character that the drafter can't spell."""
        self._spelling = spelling
        self._bytes = bytearray()
        self._ends: list[int] = []
        """End of each token after the prompt among the bytes."""

    @property
    def length(self) -> int:
        """Return the number of tokens after the prompt."""
        return len(self._ends)

    def add(self, data: bytes) -> None:
        """Add bytes, and spell the last tokens anew with them."""
        self._bytes += data
        kept = max(0, len(self._ends) - _SAFE)
        start = self._ends[kept - 1] if kept else 0
        tokens = self._spelled(bytes(self._bytes[start:]))
        del self.tokens[len(self.tokens) - (len(self._ends) - kept) :]
        self.tokens += tokens
        ends = [*accumulate((len(self._spelling.bytes_of(token)) for token in tokens), initial=start)][1:]
        self._ends[kept:] = [min(end, len(self._bytes)) for end in ends]

    def _spelled(self, data: bytes) -> list[int]:
        tokens = self._spelling.tokens(data)
        whole = whole_characters(data)
        self.has_half = tokens is None and whole < len(data)
        if tokens is None:
            # A byte that is no character is left out where the drafter has no token for it.
            tokens = self._spelling.tokens(data[:whole].decode(errors="ignore").encode())
        return tokens or []


class OwnView:
    """View of one answer at a time; made when it is first asked for."""

    def __init__(self, model: LanguageModel, target: Vocab) -> None:
        """Take the drafter's model and the target's vocabulary."""
        self.turns: tuple[Message, ...] = ()
        """Messages behind the next prompt; none for one that is plain text."""
        self._prompts = OwnPrompt(model)
        self.spelling = Spelling(model.vocab, self._prompts.marks)
        self._target = target
        self._text_order = text_order(target)
        self._prompt: Sequence[int] = ()
        self._text: GrowingText | None = None
        self._emitted = 0

    def begin(self, prompt: Sequence[int]) -> None:
        """Start an answer to a prompt of the target's tokens."""
        self._prompt, self._text, self._emitted = tuple(prompt), None, 0

    @property
    def is_new(self) -> bool:
        """Whether it was not asked for since the answer began."""
        return self._text is None

    def of(self, context: Sequence[int]) -> GrowingText:
        """Return the text of a context of the target, which is the prompt and what was emitted."""
        if self._text is None:
            self._text = GrowingText(self.spelling, self._own_prompt())
            if not self.turns:
                self._text.add(self._plain_text())
        if fresh := context[len(self._prompt) + self._emitted :]:
            self._text.add(b"".join(map(self._target.piece, fresh)))
            self._emitted += len(fresh)
        return self._text

    def _own_prompt(self) -> list[int]:
        if self.turns:
            return self._prompts.of_turns(self.turns)
        # Some models lose their mind without the token that every text began with in training.
        return self._prompts.of_text("") or self.spelling.tokens(b"\n") or []

    def _plain_text(self) -> bytes:
        """Return the end of a prompt that is no conversation."""
        tail = b"".join(map(self._target.piece, self._text_order(self._prompt)[-_MOST_PLAIN:]))[-_MOST_PLAIN:]
        return tail.decode(errors="ignore").encode()
