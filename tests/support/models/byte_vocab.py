"""A vocabulary of all bytes, some longer tokens and marks of thoughts: enough for JSON, small enough to try all."""

import re
from collections.abc import Sequence

from models.base import AddedToken

WORDS = (b"true", b"null", b'{"', b'":', b'": "', b'", "', b"name", b"\n\n", b"12", b"\xc3\xa9", b"  ", b"]}")
MARKS = ("<think>", "</think>", "<|channel|>", "<|message|>")
_ENDS = ("<end>", "<stop>")


class ByteVocab:
    """See `models.base.Vocab`; the longest token that fits comes first."""

    kind = "bytes"
    bos: int | None = None

    def __init__(self, marks: Sequence[str] = MARKS) -> None:
        self._marks = (*marks, *_ENDS)
        self.pieces = [*(bytes([byte]) for byte in range(256)), *WORDS, *(mark.encode() for mark in marks), b"", b""]
        self.size = len(self.pieces)
        self._by_piece = {piece: token for token, piece in enumerate(self.pieces) if piece}
        self._longest = max(map(len, self.pieces))

    @property
    def ends(self) -> tuple[int, int]:
        """The two tokens that end an answer."""
        return self.size - 2, self.size - 1

    def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        """Return the tokens of a text."""
        parts = re.split(f"({'|'.join(map(re.escape, self._marks))})", text) if special else [text]
        return [token for part in parts for token in self._tokens(part, special=special)]

    def _tokens(self, part: str, *, special: bool) -> list[int]:
        if special and part in self._marks:
            return [self.size - len(self._marks) + self._marks.index(part)]
        data, found = part.encode(errors="replace"), []
        known = {piece: token for piece, token in self._by_piece.items() if token < 256 + len(WORDS)}
        while data:
            piece = next(data[:size] for size in range(self._longest, 0, -1) if data[:size] in known)
            found.append(known[piece])
            data = data[len(piece) :]
        return found

    def added_tokens(self) -> list[AddedToken]:
        """Return the marks and the ends."""
        first = self.size - len(self._marks)
        return [AddedToken(first + place, spelling, True) for place, spelling in enumerate(self._marks)]

    def piece(self, token: int) -> bytes:
        """Return the bytes of a token."""
        return self.pieces[token]

    def text(self, token: int) -> str:
        """Return its spelling."""
        is_mark = token >= self.size - len(self._marks)
        return self._marks[token - self.size] if is_mark else self.pieces[token].decode("latin-1")

    def is_end(self, token: int) -> bool:
        """Return whether it ends an answer."""
        return token in self.ends

    def is_padding(self, token: int) -> bool:  # noqa: ARG002
        """Return whether it stands for nothing: none does."""
        return False

    def special(self, role: str) -> str:
        """Return the spelling of the end."""
        return _ENDS[0] if role == "eos" else ""
