"""Tokens and texts: `/tokenize`, `/detokenize`, and prompts that come as token ids."""

import codecs
from collections.abc import Sequence
from typing import Any

from app.serve.fields import Fields
from app.serve.service import Service
from models.base import Vocab

_MOST_IDS = 1 << 17
_MOST_CHARACTERS = 1 << 20
"""What is longer would keep answers waiting for too long."""
_MOST_PROMPTS = 16


async def tokenize(fields: Fields, service: Service) -> dict[str, Any]:
    """Return the tokens of a text, as llama.cpp's server does."""
    text = fields.text("content") or ""
    if len(text) > _MOST_CHARACTERS:
        fields.refuse("content", f"has more than {_MOST_CHARACTERS:,} characters")
    leads, special = fields.flag("add_special"), fields.flag("parse_special", default=True)
    pieces = fields.flag("with_pieces")

    def look(vocab: Vocab) -> list[Any]:
        tokens = vocab.tokenize(text, special=special)
        if leads and vocab.bos is not None and tokens[:1] != [vocab.bos]:
            tokens = [vocab.bos, *tokens]
        return [{"id": token, "piece": _piece(vocab, token)} for token in tokens] if pieces else tokens

    return {"tokens": await service.look(look)}


async def detokenize(fields: Fields, service: Service) -> dict[str, Any]:
    """Return the text of tokens, as llama.cpp's server does."""
    tokens = fields.ids("tokens", _MOST_IDS, service.loaded.tokens)
    spelled = await service.look(lambda vocab: b"".join(_bytes(vocab, token) for token in tokens))
    return {"content": spelled.decode(errors="replace")}


async def read_prompts(fields: Fields, service: Service, most: int = _MOST_PROMPTS) -> list[str]:
    """Read one prompt, or a list of prompts, each a text or token ids; raises Refused."""
    value = fields.raw("prompt")
    if not isinstance(value, list):
        prompt = fields.text("prompt")
        return [fields.refuse("prompt", "is required") if prompt is None else prompt]
    if value and isinstance(value[0], int):
        return [await _spelled(fields, "prompt", service)]
    if not 1 <= len(value) <= most:
        fields.refuse("prompt", f"must have from 1 to {most} prompts")
    return [await _one_of(fields.within({"prompt": item}, ""), service) for item in value]


async def _one_of(fields: Fields, service: Service) -> str:
    if isinstance(fields.raw("prompt"), list):
        return await _spelled(fields, "prompt", service)
    return fields.text("prompt") or ""


async def _spelled(fields: Fields, name: str, service: Service) -> str:
    """Return the text of token ids; refuses what its own tokenizer would not spell so: it would be another prompt."""
    tokens = fields.ids(name, _MOST_IDS, service.loaded.tokens)

    def look(vocab: Vocab) -> str | None:
        text = codecs.decode(b"".join(_bytes(vocab, token) for token in tokens), "utf-8", "replace")
        return text if _same(vocab, vocab.tokenize(text), tokens) else None

    text = await service.look(look)
    return fields.refuse(name, "has tokens that their text is not read as") if text is None else text


def _same(vocab: Vocab, read: Sequence[int], tokens: Sequence[int]) -> bool:
    leading = [] if vocab.bos is None else [vocab.bos]
    return list(read) == list(tokens) or [*leading, *read] == list(tokens)


def _bytes(vocab: Vocab, token: int) -> bytes:
    return vocab.piece(token) or vocab.text(token).encode()


def _piece(vocab: Vocab, token: int) -> str | list[int]:
    """Return what a token adds to a text: a string, or the bytes of what is no character by itself."""
    spelled = _bytes(vocab, token)
    try:
        return spelled.decode()
    except UnicodeDecodeError:
        return list(spelled)
