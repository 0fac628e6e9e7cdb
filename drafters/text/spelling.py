"""Tokens for bytes that go on with a text: no first token, no leading blank, no control tokens, any cut."""

from functools import cached_property

from models.base import Vocab
from models.text.marked_text import TextReader
from models.text.marks import Marks

_CONTINUES, _CONTINUATION = 0xC0, 0x80
_LENGTHS = ((0x80, 1), (0xE0, 2), (0xF0, 3), (0x100, 4))
"""Bytes of a UTF-8 character by its first byte: (first value above, bytes)."""


class Spelling:
    """Tokenizer of one vocabulary for pieces of a text that end anywhere, also within a character."""

    def __init__(self, vocab: Vocab, marks: Marks) -> None:
        """Take a vocabulary and its marks, which no text becomes."""
        self._vocab = vocab
        self._reader = TextReader(vocab, marks)

    def tokens(self, data: bytes) -> list[int] | None:
        """Return the tokens of bytes that come after others; None where no token spells a byte that is no character."""
        tokens: list[int] = []
        while data:
            text, loose, data = _divided(data)
            tokens += self._reader.plain(text, goes_on=True) if text else ()
            for byte in loose:
                if (token := self._bytes.get(byte)) is None:
                    return None
                tokens.append(token)
        return tokens

    def bytes_of(self, token: int) -> bytes:
        """Return the bytes that a token adds to a text."""
        return self._vocab.piece(token)

    @cached_property
    def _bytes(self) -> dict[int, int]:
        """Return the tokens of single bytes that are no characters."""
        pieces = ((token, self._vocab.piece(token)) for token in range(self._vocab.size))
        return {piece[0]: token for token, piece in pieces if len(piece) == 1 and piece[0] >= _CONTINUATION}


def _divided(data: bytes) -> tuple[str, bytes, bytes]:
    """Return the text that bytes begin with, the bytes after it that are no characters, and the rest."""
    try:
        return data.decode(), b"", b""
    except UnicodeDecodeError as error:
        return data[: error.start].decode(), data[error.start : error.end], data[error.end :]


def whole_characters(data: bytes) -> int:
    """Return how many of the first bytes do not end within a UTF-8 character."""
    for back in range(1, min(3, len(data)) + 1):
        first = data[-back]
        if first & _CONTINUES != _CONTINUATION:
            size = next(size for above, size in _LENGTHS if first < above)
            return len(data) - back if size > back else len(data)
    return len(data)
