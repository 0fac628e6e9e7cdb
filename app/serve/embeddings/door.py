"""Handler of `/v1/embeddings`, in OpenAI's protocol."""

import base64
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.serve.answering import Answering
from app.serve.embeddings.shelf import EmbeddingShelf
from app.serve.replies.errors import Refused, refusal
from app.serve.replies.warnings_list import with_warnings
from app.serve.requests.body import read_fields
from app.serve.requests.fields import Fields
from app.serve.requests.known_fields import Route
from app.serve.service import Service
from models.embeddings.embedder import Embedding, Vector
from models.errors import LocalspecError

_MOST = 2048
"""Texts of one request, at most; OpenAI's limit."""
_FORMATS = ("float", "base64")
_NO_MODEL = (
    "No model for embeddings is loaded: the model of this server writes text. Start the server with --embedding-model "
    "FILE, such as nomic-embed-text or Qwen3-Embedding."
)


class EmbeddingsDoor:
    """Turns texts into vectors."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._answering = Answering(service)

    async def create(self, request: Request) -> Response:
        """Return a vector for each text; raises Refused."""
        fields = await read_fields(request, Route.EMBEDDINGS, self._service, leases=False)
        shelf = self._service.shelf
        if shelf is None:
            raise Refused(404, _NO_MODEL, code="not_supported")
        texts, width, encodes = _texts(fields, shelf), _width(fields, shelf), _encodes(fields)
        found = await self._answering.attend(request, _all(shelf, texts))
        tokens = sum(one.tokens for one in found)
        data = [
            {"object": "embedding", "index": place, "embedding": _written(_cut(one.vector, width), base64_=encodes)}
            for place, one in enumerate(found)
        ]
        reply = {
            "object": "list",
            "data": data,
            "model": shelf.embedder.name,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }
        return JSONResponse(with_warnings(reply, fields.warnings))


async def _all(shelf: EmbeddingShelf, texts: list[str | list[int]]) -> list[Embedding]:
    """Return all vectors; between two texts a client that has left ends the work. Raises Refused."""
    try:
        return [await shelf.embed(text) for text in texts]
    except LocalspecError as error:
        raise refusal(error, shelf.embedder.longest) from error


def _texts(fields: Fields, shelf: EmbeddingShelf) -> list[str | list[int]]:
    """Read a text, token ids, or a list of such; raises Refused."""
    value = fields.raw("input")
    if value is None or value in ("", []):
        fields.refuse("input", "is required: a text, or a list of texts")
    if not isinstance(value, list) or any(isinstance(item, int | float) for item in value):
        value = [value]
    if len(value) > _MOST:
        fields.refuse("input", f"has more than {_MOST:,} texts")
    return [_one(fields, item, shelf) for item in value]


def _one(fields: Fields, item: object, shelf: EmbeddingShelf) -> str | list[int]:
    within = fields.within({"input": item}, "")
    if isinstance(item, list):
        return within.ids("input", 1 << 17, shelf.embedder.vocabulary) or fields.refuse("input", "has an empty list")
    return within.prose("input") or fields.refuse("input", "must be texts that are not empty, or token ids")


def _width(fields: Fields, shelf: EmbeddingShelf) -> int:
    width = shelf.embedder.width
    wanted = fields.whole("dimensions", 1, 1 << 20)
    if wanted is not None and wanted > width:
        fields.refuse("dimensions", f"must be at most {width:,}, the width of this model's vectors")
    return wanted or width


def _encodes(fields: Fields) -> bool:
    kind = fields.text("encoding_format") or _FORMATS[0]
    if kind not in _FORMATS:
        fields.refuse("encoding_format", "must be 'float' or 'base64'")
    return kind == _FORMATS[1]


def _cut(vector: Vector, width: int) -> Vector:
    """Return the first numbers of a vector, again of length one."""
    if width == len(vector):
        return vector
    first = vector[:width]
    return (first / np.float32(float(np.linalg.norm(first)) or 1.0)).astype(np.float32)


def _written(vector: Vector, *, base64_: bool) -> Any:
    if base64_:
        return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
    return [float(number) for number in vector]
