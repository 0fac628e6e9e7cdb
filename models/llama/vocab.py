"""Vocabulary of a loaded GGUF model: ids to bytes without loss, text to ids, and the end tokens."""

import ctypes
from itertools import repeat
from typing import Any

from models.base import AddedToken
from models.llama.bindings import llama_cpp
from models.text.thoughts import CONTROL_MARKS
from models.text.tool_calls import TOOL_MARKS, tokens_of_marks

_KINDS = {1: "spm", 2: "bpe", 3: "wpm", 4: "ugm", 5: "rwkv", 6: "plamo2"}
_USUAL_PIECE = 256
"""Bytes of room for the text of a token, enough for nearly all."""


class LlamaVocab:
    """See `models.base.Vocab`. Valid as long as the model it came from is loaded."""

    def __init__(self, model: Any) -> None:
        self._api = llama_cpp()
        self._vocab = self._api.llama_model_get_vocab(model)
        self.size: int = self._api.llama_vocab_n_tokens(self._vocab)
        self.kind = _KINDS.get(self._api.llama_vocab_type(self._vocab), "none")
        adds_bos = self._api.llama_vocab_get_add_bos(self._vocab)
        self.bos: int | None = self._api.llama_vocab_bos(self._vocab) if adds_bos else None
        self._ends: dict[int, bool] = {}
        self._added: tuple[AddedToken, ...] | None = None
        self._pieces = self._marks()

    def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        """Turn text into ids; with `special`, the spelling of a control token becomes that token."""
        # A command line can carry bytes that are no text; they come as lone surrogates.
        return self.tokenize_bytes(text.encode("utf-8", errors="replace"), special=special)

    def tokenize_bytes(self, data: bytes, *, special: bool = True) -> list[int]:
        """Turn the bytes of a text, which may break off within a character, into ids."""
        # No tokenizer makes more tokens than bytes, but some add a leading one of their own.
        room = len(data) + 8
        ids = (ctypes.c_int32 * room)()
        count = self._api.llama_tokenize(self._vocab, data, len(data), ids, room, False, special)
        if count < 0:
            room = -count
            ids = (ctypes.c_int32 * room)()
            count = self._api.llama_tokenize(self._vocab, data, len(data), ids, room, False, special)
        return list(ids[:count])

    def added_tokens(self) -> tuple[AddedToken, ...]:
        """Return all tokens that are found by their spelling."""
        if self._added is None:
            api, vocab = self._api, self._vocab
            unknown, control = api.LLAMA_TOKEN_ATTR_UNKNOWN, api.LLAMA_TOKEN_ATTR_CONTROL
            found, attribute = unknown | control | api.LLAMA_TOKEN_ATTR_USER_DEFINED, api.llama_vocab_get_attr
            kinds = enumerate(map(attribute, repeat(vocab), range(self.size)))
            self._added = tuple(
                AddedToken(token, self.text(token), bool(kind & (unknown | control)), bool(kind & unknown))
                for token, kind in kinds
                if kind & found
            )
        return self._added

    def text(self, token: int) -> str:
        """Return the vocabulary's own spelling of a token."""
        spelling: bytes = self._api.llama_vocab_get_text(self._vocab, token) or b""
        return spelling.decode("utf-8", errors="replace")

    def is_padding(self, token: int) -> bool:
        """Tell whether this id is only there to round the size of the vocabulary up."""
        unused = self._api.llama_vocab_get_attr(self._vocab, token) & self._api.LLAMA_TOKEN_ATTR_UNUSED
        return bool(unused) or self.text(token).startswith("[PAD")

    def special(self, role: str) -> str:
        """Return the spelling of the "bos" or "eos" token, which chat templates ask for; "" if there is none."""
        token: int = getattr(self._api, f"llama_vocab_{role}")(self._vocab)
        return self.text(token) if token >= 0 else ""

    def piece(self, token: int) -> bytes:
        """Return the bytes that a token adds to the text, however many; b"" for a control token that is no mark."""
        if token not in self._pieces:
            self._pieces[token] = self._read_piece(token)
        return self._pieces[token]

    def is_end(self, token: int) -> bool:
        """Return whether a token ends the generation."""
        if token not in self._ends:
            self._ends[token] = bool(self._api.llama_vocab_is_eog(self._vocab, token))
        return self._ends[token]

    def _marks(self) -> dict[int, bytes]:
        """Return the text of control tokens between which models think, and of those that calls of tools have."""
        thinks, calls = tokens_of_marks(self, CONTROL_MARKS), tokens_of_marks(self, TOOL_MARKS)
        marks = {**(thinks if len(thinks) > 1 else {}), **calls}
        return {token: mark.encode() for token, mark in marks.items()}

    def _read_piece(self, token: int) -> bytes:
        # A buffer for each call: a server reads pieces on several threads.
        buffer = ctypes.create_string_buffer(_USUAL_PIECE)
        size = self._api.llama_token_to_piece(self._vocab, token, buffer, len(buffer), 0, False)
        if size < 0:
            # A negative size is what it needs: tokens of 128 spaces exist, and none may be lost.
            buffer = ctypes.create_string_buffer(-size)
            size = self._api.llama_token_to_piece(self._vocab, token, buffer, len(buffer), 0, False)
        return buffer.raw[: max(size, 0)]
