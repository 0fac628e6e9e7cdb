"""Tokens and texts: `/tokenize` and `/detokenize`."""

import json
from collections.abc import Sequence
from typing import Any

from app.serve.requests.fields import Fields
from app.serve.service import Service
from models.base import Vocab
from models.text.marked_text import TextReader
from models.text.marks import Marks

_MOST_IDS = 1 << 17
_AT_ONCE = 1 << 12
"""Tokens written as JSON at once."""
MOST_CHARACTERS = 1 << 20
"""Maximum characters: tokenizing a longer text would delay answers too much."""


async def tokenize(fields: Fields, service: Service) -> bytes:
    """Return the JSON of the tokens of a text, as llama.cpp's server does."""
    text = fields.text("content") or ""
    if len(text) > MOST_CHARACTERS:
        fields.refuse("content", f"has more than {MOST_CHARACTERS:,} characters")
    leads, special = fields.flag("add_special"), fields.flag("parse_special", default=True)
    pieces = fields.flag("with_pieces")

    def look(vocab: Vocab) -> bytes:
        tokens = vocab.tokenize(text) if special else TextReader(vocab, Marks.of(vocab)).plain(text)
        if leads and vocab.bos is not None and tokens[:1] != [vocab.bos]:
            tokens = [vocab.bos, *tokens]
        found = [{"id": token, "piece": _piece(vocab, token)} for token in tokens] if pieces else tokens
        return _written(found, fields.warnings)

    return await service.look(look)


async def detokenize(fields: Fields, service: Service) -> dict[str, Any]:
    """Return the text of tokens, as llama.cpp's server does."""
    tokens = fields.ids("tokens", _MOST_IDS, service.loaded.tokens)
    spelled = await service.look(lambda vocab: b"".join(spelling(vocab, token) for token in tokens))
    return {"content": spelled.decode(errors="replace")}


def _written(tokens: Sequence[Any], warnings: Sequence[str]) -> bytes:
    """Return tokens as JSON, written in parts: at once, this would hold Python's lock for a tenth of a second."""
    more = f',"warnings":{json.dumps(warnings)}' if warnings else ""
    parts = (tokens[first : first + _AT_ONCE] for first in range(0, len(tokens), _AT_ONCE))
    texts = (json.dumps(part, ensure_ascii=False, separators=(",", ":"))[1:-1] for part in parts)
    return f'{{"tokens":[{",".join(texts)}]{more}}}'.encode()


def spelling(vocab: Vocab, token: int) -> bytes:
    """Return the bytes of a token; for a control token those of its name."""
    return vocab.piece(token) or vocab.text(token).encode()


def _piece(vocab: Vocab, token: int) -> str | list[int]:
    """Return a token's text: a string, or its bytes if they are no character by themselves."""
    spelled = spelling(vocab, token)
    try:
        return spelled.decode()
    except UnicodeDecodeError:
        return list(spelled)
