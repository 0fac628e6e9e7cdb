"""Prompts in every form that clients send them in: texts, token ids, ids with texts among them, and several at once."""

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
"""Most prompts of a request; LangChain puts twenty into one."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What an answer goes on with."""

    text: str
    tokens: tuple[int, ...] = ()
    """What is read in place of the text, to the token; empty: the text."""
    special: bool = True
    """Whether control tokens that the text spells are those tokens; as in llama.cpp, unless the client says no."""

    def to(self, base: Question) -> Question:
        """Return the question that asks to go on with it."""
        if self.tokens:
            return replace(base, turns=(), tokens=self.tokens)
        return replace(base, turns=(Turn("user", self.text),), raw=True, special=self.special)


async def read_prompts(fields: Fields, service: Service) -> list[Prompt]:
    """Read one prompt, or a list of prompts; token ids stay what they are. Raises Refused."""
    return [await _read(fields, item, service) for item in _listed(fields)]


async def read_prefixes(fields: Fields, service: Service) -> list[Prompt]:
    """Read what comes before a hole, as text: token ids must be those that their text is read as. Raises Refused."""
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
    """Return token ids, texts among them as their tokens."""
    loaded = service.loaded
    if len(parts) > (most := loaded.ready.context_size):
        message = f"The prompt has more tokens than the context has room for: {most:,}."
        raise Refused(400, message, code="context_length_exceeded", n_ctx=most)
    checked = [_part(fields, part, loaded.tokens) for part in parts]
    if sum(len(part) for part in checked if isinstance(part, str)) > MOST_CHARACTERS:
        fields.refuse(_FIELD, f"has more than {MOST_CHARACTERS:,} characters")
    tokens = await service.look(lambda vocab: _joined(vocab, checked, special=special))
    if tokens is None:
        fields.refuse(_FIELD, "has an id that is not a token")
    return tokens or fields.refuse(_FIELD, "has no tokens")


def _part(fields: Fields, part: object, size: int) -> int | str:
    if isinstance(part, str):
        return _text(fields, part)
    if isinstance(part, bool) or not isinstance(part, int) or not 0 <= part < size:
        fields.refuse(_FIELD, f"must hold token ids from 0 to {size - 1}, or strings")
    return part


def _joined(vocab: Vocab, parts: Sequence[int | str], *, special: bool) -> tuple[int, ...] | None:
    """Return the tokens of ids and texts; None where an id only pads the vocabulary."""
    if any(vocab.is_padding(part) for part in set(parts) if isinstance(part, int)):
        return None
    tokens: list[int] = []
    read = vocab.tokenize if special else TextReader(vocab, Marks.of(vocab)).plain
    for part in parts:
        tokens += [part] if isinstance(part, int) else read(part)
    # As in llama.cpp, the first token is the client's own business where it begins with ids.
    begins_with_text = bool(parts) and isinstance(parts[0], str)
    if begins_with_text and vocab.bos is not None and tokens[:1] != [vocab.bos]:
        tokens.insert(0, vocab.bos)
    return tuple(tokens)


async def _spelled(fields: Fields, tokens: Sequence[int], service: Service) -> str:
    def look(vocab: Vocab) -> str | None:
        text = codecs.decode(b"".join(spelling(vocab, token) for token in tokens), "utf-8", "replace")
        return text if _is_read_as(vocab, text, tokens) else None

    text = await service.look(look)
    return fields.refuse(_FIELD, "has tokens that their text would not be split into") if text is None else text


def _is_read_as(vocab: Vocab, text: str, tokens: Sequence[int]) -> bool:
    read, leading = vocab.tokenize(text), [] if vocab.bos is None else [vocab.bos]
    return list(tokens) in (read, [*leading, *read])
