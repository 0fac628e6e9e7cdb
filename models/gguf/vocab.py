"""Vocabulary in a GGUF file, read without loading the model: enough to check whether two models are a pair."""

from functools import cached_property

from models.errors import ModelFileError
from models.gguf.header import Header
from models.gguf.strings import Strings
from models.text.fim_markers import FAMILIES

_TOKENS = "tokenizer.ggml.tokens"
_TYPES = "tokenizer.ggml.token_type"
_UNUSED = 5
"""Type of a token that only rounds the size up."""
_KINDS = {"llama": "spm", "bert": "wpm", "t5": "ugm", "rwkv": "rwkv", "plamo2": "plamo2"} | dict.fromkeys(
    ("gpt2", "hybriddna", "whitespace", "gemma4"), "bpe"
)
_FIRST = {"llama": 1, "bert": 101, "gpt2": 11, "hybriddna": 11, "whitespace": 11, "plamo2": 1}
"""The first token of a text, where the file names none."""
_ADDS_FIRST = frozenset({"spm", "wpm"})
_LLAMA_3 = ("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano")
_PRE_ADDS_FIRST = frozenset({*_LLAMA_3, "tekken", "chameleon"})
"""Ways to cut a text into words that come with a first token, where the file does not say."""
ROLES = ("bos", "eos", "eot", "eom", "unknown", "padding", "fim_pre", "fim_suf", "fim_mid")


class HeaderVocab:
    """Vocabulary for the check in `models.pair`, read from the file on first use."""

    def __init__(self, header: Header) -> None:
        """Take the vocabulary of a model; raises ModelFileError where there is none."""
        place = header.array(_TOKENS)
        model = header.text("tokenizer.ggml.model")
        if place is None or not header.strings(_TOKENS) or model not in _KINDS:
            raise ModelFileError(
                f"{header.path.name} has no vocabulary that this engine knows.",
                cause=f"Its tokenizer is {model!r}." if model else "",
                hint="Choose a model that is made for text.",
            )
        self._header, self._place, self._model = header, place, model
        self.size = place.count
        self.kind = _KINDS[model]
        self.bos = self._first() if self._adds_first() else None

    @property
    def raw(self) -> bytes:
        """All tokens, each after its length, as they are in the file."""
        return self._strings.data

    def text(self, token: int) -> str:
        """Return the vocabulary's own spelling of a token."""
        return self._spellings[token].decode("utf-8", errors="replace")

    def is_padding(self, token: int) -> bool:
        """Return whether this id only pads the vocabulary."""
        return self._types[token : token + 1] == [_UNUSED] or self.text(token).startswith("[PAD")

    def spelled_alike(self) -> tuple[int, int] | None:
        """Return the first two tokens of one spelling, at which the engine would end the process; None for none."""
        if len(set(self._spellings)) == self.size:
            return None
        seen: dict[bytes, int] = {}
        for token, spelling in enumerate(self._spellings):
            if (other := seen.setdefault(spelling, token)) != token:
                return other, token
        return None

    def missing_bytes(self) -> list[int]:
        """Return the bytes that no token of a SentencePiece vocabulary stands for, by its number or as it is."""
        there = set(self._spellings)
        return [byte for byte in range(256) if b"<0x%02X>" % byte not in there and bytes([byte]) not in there]

    def find(self, spelling: str) -> int | None:
        """Return the token that is spelled so; None for none."""
        found = self._place.found
        if spelling not in found:
            found[spelling] = self._strings.find(spelling)
        return found[spelling]

    def first_difference(self, other: "HeaderVocab") -> int | None:
        """Return the first token that the two spell differently, of those that both have; None for none."""
        if self.raw.startswith(other.raw) or other.raw.startswith(self.raw):
            return None
        shared = range(min(self.size, other.size))
        return next((token for token in shared if self.text(token) != other.text(token)), None)

    def special(self) -> dict[str, int]:
        """Return the tokens that have a role, by role, as far as the file names them."""
        found = {role: self._header.number(f"tokenizer.ggml.{role}_token_id") for role in ROLES}
        return {role: token for role, token in found.items() if token is not None and 0 <= token < self.size}

    def fim_markers(self) -> tuple[str, ...]:
        """Return the markers of prefix, suffix and middle that the vocabulary has; () for none."""
        for family in FAMILIES:
            if all(self.find(marker) is not None for marker in family):
                return family
        return ()

    def _first(self) -> int | None:
        named = self._header.number("tokenizer.ggml.bos_token_id")
        default = _FIRST.get(self._model, -1)
        if named is not None and 0 <= named < self.size:
            return named
        # "No such token" is -1 in the engine, when the tokenizer adds one that it does not have.
        return default if default < self.size else -1

    def _adds_first(self) -> bool:
        pre = self._header.text("tokenizer.ggml.pre")
        if self._model == "gemma4":
            return True
        adds_first = self._header.truth("tokenizer.ggml.add_bos_token")
        if adds_first is not None:
            return adds_first
        return self.kind in _ADDS_FIRST or (self.kind == "bpe" and pre in _PRE_ADDS_FIRST)

    @cached_property
    def _strings(self) -> Strings:
        return Strings(self._header.raw(self._place), self.size, self._header.path.name)

    @cached_property
    def _spellings(self) -> list[bytes]:
        """Spelling of each token."""
        found = self._strings.split()
        # The engine hands spellings on as C strings, which end at their first zero, and gives a name to empty ones.
        if b"" in found or b"\0" in b"".join(found):
            found = [each.partition(b"\0")[0] or b"[EMPTY_%d]" % token for token, each in enumerate(found)]
        return found

    @cached_property
    def _types(self) -> list[int]:
        return self._header.whole_numbers(_TYPES)
