"""Log probabilities in the three forms that clients read: two of OpenAI's, one of llama.cpp's."""

import codecs
from collections.abc import Sequence
from itertools import accumulate
from math import isnan
from typing import Any

from app.engine.decoding.logprobs import Likely, TokenLogprobs
from app.serve.requests.fields import Fields

_MOST = 100
"""Maximum number of likely tokens listed per position."""


def read_chat_listed(fields: Fields) -> int | None:
    """Read how many likely tokens a chat requests per emitted token; None: no log probabilities. Raises Refused."""
    wanted, listed = fields.flag("logprobs"), fields.whole("top_logprobs", 0, _MOST)
    if listed and not wanted:
        fields.refuse("top_logprobs", "needs 'logprobs': true")
    return (listed or 0) if wanted else None


def read_listed(fields: Fields, name: str) -> int | None:
    """Read that number from a single field; `false` means none. Raises Refused."""
    return None if fields.raw(name) is False else fields.whole(name, 0, _MOST)


def chat_logprobs(places: Sequence[TokenLogprobs]) -> dict[str, Any]:
    """Return the member `logprobs` of a chat's choice."""
    entries = [{**_entry(place.emitted), "top_logprobs": [_entry(one) for one in place.best]} for place in places]
    return {"content": entries, "refusal": None}


def text_logprobs(places: Sequence[TokenLogprobs], start: int = 0) -> dict[str, Any]:
    """Return the member `logprobs` of a text's choice; `start` is the character offset of its first token."""
    decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
    offsets = accumulate((len(decode(place.emitted.data)) for place in places), initial=start)
    return {
        "tokens": [_text(place.emitted) for place in places],
        "token_logprobs": [None if isnan(place.emitted.logprob) else place.emitted.logprob for place in places],
        "top_logprobs": [
            None if isnan(place.emitted.logprob) else {_text(one): one.logprob for one in place.best}
            for place in places
        ],
        "text_offset": list(offsets)[: len(places)],
    }


def characters(places: Sequence[TokenLogprobs]) -> int:
    """Return the number of characters in these tokens; an incomplete character at either end counts as one."""
    return len(b"".join(place.emitted.data for place in places).decode(errors="replace"))


def native_probabilities(places: Sequence[TokenLogprobs]) -> list[dict[str, Any]]:
    """Return the member `completion_probabilities` of llama.cpp's server."""
    return [{**_native(place.emitted), "top_logprobs": [_native(one) for one in place.best]} for place in places]


def _entry(one: Likely) -> dict[str, Any]:
    # A token may be part of a character: its bytes identify it.
    return {"token": _text(one), "logprob": one.logprob, "bytes": list(one.data)}


def _native(one: Likely) -> dict[str, Any]:
    return {"id": one.token, **_entry(one)}


def _text(one: Likely) -> str:
    return one.data.decode(errors="replace")
