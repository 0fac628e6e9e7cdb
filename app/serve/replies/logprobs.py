"""Log probabilities, in the three shapes that clients read: OpenAI's two, and llama.cpp's."""

import codecs
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from app.engine.decoding.logprobs import Likely, TokenLogprobs
from app.serve.requests.fields import Fields

_MOST = 100
"""Likely tokens that are told for each place."""


def read_chat_listed(fields: Fields) -> int | None:
    """Read how many likely tokens a chat wants beside each of its own; None: nothing. Raises Refused."""
    wanted, listed = fields.flag("logprobs"), fields.whole("top_logprobs", 0, _MOST)
    if listed and not wanted:
        fields.refuse("top_logprobs", "needs 'logprobs': true")
    return (listed or 0) if wanted else None


def read_listed(fields: Fields, name: str) -> int | None:
    """Read the same where one number says it; `false` is nothing, too. Raises Refused."""
    return None if fields.raw(name) is False else fields.whole(name, 0, _MOST)


def chat_logprobs(places: Sequence[TokenLogprobs]) -> dict[str, Any]:
    """Return `logprobs` of a chat's choice."""
    entries = [{**_entry(place.said), "top_logprobs": [_entry(one) for one in place.best]} for place in places]
    return {"content": entries, "refusal": None}


def text_logprobs(places: Sequence[TokenLogprobs], start: int = 0) -> dict[str, Any]:
    """Return `logprobs` of a text's choice, whose first token begins at a character of the answer."""
    decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
    offsets = accumulate((len(decode(place.said.data)) for place in places), initial=start)
    return {
        "tokens": [_text(place.said) for place in places],
        "token_logprobs": [place.said.logprob for place in places],
        "top_logprobs": [{_text(one): one.logprob for one in place.best} for place in places],
        "text_offset": list(offsets)[: len(places)],
    }


def characters(places: Sequence[TokenLogprobs]) -> int:
    """Return how many characters tokens have, parts of one at either end counted as one."""
    return len(b"".join(place.said.data for place in places).decode(errors="replace"))


def native_probabilities(places: Sequence[TokenLogprobs]) -> list[dict[str, Any]]:
    """Return `completion_probabilities` of llama.cpp's server."""
    return [{**_native(place.said), "top_logprobs": [_native(one) for one in place.best]} for place in places]


def _entry(one: Likely) -> dict[str, Any]:
    # A token may be a part of a character: its bytes say which.
    return {"token": _text(one), "logprob": one.logprob, "bytes": list(one.data)}


def _native(one: Likely) -> dict[str, Any]:
    return {"id": one.token, **_entry(one)}


def _text(one: Likely) -> str:
    return one.data.decode(errors="replace")
