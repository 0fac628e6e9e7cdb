"""Prompts in every form that clients send: texts, token ids, ids mixed with texts, and lists of them."""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.engine.decoding.request import Question
from app.serve.replies.errors import Refused
from app.serve.requests.fields import Fields
from app.serve.requests.tokens import MOST_CHARACTERS, spelling
from app.serve.service import Service
from models.base import Vocab
from models.text.marked_text import TextReader
from models.text.marks import Marks
from models.text.prompts import Message as Turn

_FIELD = "prompt"
_MOST = 64
"""Maximum prompts of a request; LangChain sends twenty."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt to continue."""

    text: str
    tokens: tuple[int, ...] = ()
    """Token ids that replace the text; empty: the text counts."""
    special: bool = True
    """Whether control tokens spelled in the text become these tokens; True by default, as in llama.cpp."""

    def to(self, base: Question) -> Question:
        """Return a question that continues this prompt."""
        if self.tokens:
            return replace(base, turns=(), tokens=self.tokens)
        return replace(base, turns=(Turn("user", self.text),), raw=True, special=self.special)


async def read_prompts(fields: Fields, service: Service) -> list[Prompt]:
    """Read one prompt, or a list of prompts; token ids stay unchanged. Raises Refused."""
    return [await _read(fields, item, service) for item in _listed(fields)]


async def read_prefixes(fields: Fields, service: Service) -> list[Prompt]:
    """Read the text before a gap; token ids must be the tokens of their own text. Raises Refused."""
    prompts = await read_prompts(fields, service)
    return [Prompt(await _spelled(fields, one.tokens, service)) if one.tokens else one for one in prompts]


def _listed(fields: Fields) -> list[object]:
    value = fields.raw(_FIELD)
    if value is None:
        fields.refuse(_FIELD, "is required")
    if not isinstance(value, list) or any(isinstance(item, int | float) for item in value):
        return [value]
    return value if 1 <= len(value) <= _MOST else fields.refuse(_FIELD, f"must have from 1 to {_MOST} prompts")


async def _read(fields: Fields, value: object, service: Service) -> Prompt:
    special = fields.flag("parse_special", default=True)
    if isinstance(value, list):
        return Prompt("", await _ids(fields, value, service, special=special))
    return Prompt(_text(fields, value), special=special)


def _text(fields: Fields, value: object) -> str:
    text = fields.within({_FIELD: value}, "").text(_FIELD)
    return fields.refuse(_FIELD, "must be a string, or token ids") if text is None else text


async def _ids(fields: Fields, parts: Sequence[object], service: Service, *, special: bool) -> tuple[int, ...]:
    """Return token ids, with texts among them converted to tokens."""
    loaded = service.loaded
    if len(parts) > (most := loaded.ready.context_size):
        message = f"The prompt has more tokens than the context has room for ({most:,})."
        raise Refused(400, message, code="context_length_exceeded", n_ctx=most)
    checked = [_part(fields, part, loaded.tokens) for part in parts]
    if sum(len(part) for part in checked if isinstance(part, str)) > MOST_CHARACTERS:
        fields.refuse(_FIELD, f"has more than {MOST_CHARACTERS:,} characters")
    tokens = await service.look(lambda vocab: _joined(vocab, checked, special=special))
    if tokens is None:
        fields.refuse(_FIELD, "has an id that stands for no token")
    return tokens or fields.refuse(_FIELD, "has no tokens")


def _part(fields: Fields, part: object, size: int) -> int | str:
    if isinstance(part, str):
        return _text(fields, part)
    if isinstance(part, bool) or not isinstance(part, int) or not 0 <= part < size:
        fields.refuse(_FIELD, f"must hold token ids from 0 to {size - 1}, or strings")
    return part


def _joined(vocab: Vocab, parts: Sequence[int | str], *, special: bool) -> tuple[int, ...] | None:
    """Return the joined tokens of ids and texts; None if an id only pads the vocabulary."""
    if any(vocab.is_padding(part) for part in set(parts) if isinstance(part, int)):
        return None
    tokens: list[int] = []
    read = vocab.tokenize if special else TextReader(vocab, Marks.of(vocab)).plain
    for part in parts:
        tokens += [part] if isinstance(part, int) else read(part)
    # As in llama.cpp, a prompt that begins with ids gets no first token added.
    begins_with_text = bool(parts) and isinstance(parts[0], str)
    if begins_with_text and vocab.bos is not None and tokens[:1] != [vocab.bos]:
        tokens.insert(0, vocab.bos)
    return tuple(tokens)


async def _spelled(fields: Fields, tokens: Sequence[int], service: Service) -> str:
    def look(vocab: Vocab) -> str | None:
        text = codecs.decode(b"".join(spelling(vocab, token) for token in tokens), "utf-8", "replace")
        return text if _is_read_as(vocab, text, tokens) else None

    text = await service.look(look)
    return (
        fields.refuse(_FIELD, "has token ids that differ from the tokens of their text: send the text instead")
        if text is None
        else text
    )


def _is_read_as(vocab: Vocab, text: str, tokens: Sequence[int]) -> bool:
    read, leading = vocab.tokenize(text), [] if vocab.bos is None else [vocab.bos]
    return list(tokens) in (read, [*leading, *read])
