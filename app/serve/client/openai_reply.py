"""Readers of OpenAI-protocol replies. Servers differ in the details, and no field is trusted.

Traps:
    Fillers. A server that drafts may write log probability 0 for a token it did not sample by itself. A token that is
    certain leaves the others next to nothing; where none or likely ones are listed, 0 is no log probability.
    Minus infinity is written as null, -9999, or the lowest number there is.
    Text that is thought goes to a field of its own, while the tokens hold all of it.
    A list of tokens may have gaps, or replacement characters where one token has half a character. It is used only
    where it spells the text.
"""

from collections.abc import Iterable
from typing import Any

from app.serve.client.served_answers import ServedAnswer, ServedModel, ServedToken

_IMPOSSIBLE = -1000.0
"""Lower log probabilities are fillers."""
_POSSIBLE = 0.001
"""Higher values are probabilities or other figures, not log probabilities; the margin is for rounding."""
_CERTAIN = -8.0
"""Log probability of the second token. Above it, the first token can't have log probability 0."""
_FACTS = ("n_params", "n_vocab", "size")
_THOUGHTS = ("reasoning_content", "reasoning")


def read_models(reply: object) -> tuple[ServedModel, ...]:
    """Return the models that a reply to GET /v1/models names; none for any other reply."""
    listed = _list(_dict(reply).get("data"))
    named = [(record["id"], _dict(record.get("meta"))) for record in map(_dict, listed) if _name(record.get("id"))]
    return tuple(
        ServedModel(
            str(_name(name)), tuple((fact, size) for fact in _FACTS if (size := _count(meta.get(fact))) is not None)
        )
        for name, meta in named
    )


def read_answer(reply: object, seconds: float, begun: str = "") -> ServedAnswer | None:
    """Return the answer in a reply of either endpoint, received after `seconds`; None for a reply without an answer.

    A server that was asked to continue a text, `begun`, may send that text again before the new one.
    """
    record = _dict(reply)
    choice = _dict(next(iter(_list(record.get("choices"))), None))
    parts = _parts(choice)
    if parts is None:
        return None
    parts = [part.removeprefix(begun) for part in parts]
    tokens = _tokens(choice.get("logprobs"))
    usage, timings = _dict(record.get("usage")), _dict(record.get("timings"))
    drafted, accepted = _drafting(usage, timings)
    reported = _count(usage.get("completion_tokens"))
    return ServedAnswer(
        text="".join(parts),
        tokens=tokens if tokens is not None and _spells(tokens, parts) else None,
        finish=_name(choice.get("finish_reason")) or "",
        seconds=seconds,
        counted=reported if reported is not None or tokens is None else len(tokens),
        drafted=drafted,
        accepted=accepted,
    )


def _parts(choice: dict[str, Any]) -> list[str] | None:
    """Return the texts of an answer in order: thoughts, then text."""
    if isinstance(choice.get("text"), str):
        return [_clean(choice["text"])]
    if not isinstance(choice.get("message"), dict):
        return None
    message = choice["message"]
    thoughts = [message[name] for name in _THOUGHTS if isinstance(message.get(name), str)][:1]
    texts = [message["content"]] if isinstance(message.get("content"), str) else []
    return [_clean(text) for text in (*thoughts, *texts)]


def _tokens(logprobs: object) -> tuple[ServedToken, ...] | None:
    """Return the tokens in either form of the protocol; None for a reply without tokens, or in another form."""
    record = _dict(logprobs)
    if isinstance(record.get("content"), list):
        entries = [_dict(entry) for entry in record["content"]]
        listed = [[_pair(best) for best in map(_dict, _list(entry.get("top_logprobs")))] for entry in entries]
        own = [_pair(entry) for entry in entries]
    elif isinstance(record.get("tokens"), list):
        # The older form: lists side by side, and no bytes.
        own, listed = _side_by_side(record)
    else:
        return None
    if not own or any(data is None for data, _ in own):
        return None
    return tuple(_token(data or b"", logprob, best) for (data, logprob), best in zip(own, listed, strict=True))


_Pair = tuple[bytes | None, float | None]


def _side_by_side(record: dict[str, Any]) -> tuple[list[_Pair], list[list[_Pair]]]:
    tokens = record["tokens"]
    logprobs, tops = _list(record.get("token_logprobs")), _list(record.get("top_logprobs"))
    nothing: list[None] = [None] * len(tokens)
    own = [_pair({"token": token, "logprob": value}) for token, value in zip(tokens, logprobs + nothing, strict=False)]
    listed = [
        [_pair({"token": token, "logprob": value}) for token, value in _dict(top).items()]
        for _, top in zip(tokens, tops + nothing, strict=False)
    ]
    return own, listed


def _pair(entry: dict[str, Any]) -> _Pair:
    """Return bytes and log probability of a token; None for each that is missing."""
    token, data = entry.get("token"), _list(entry.get("bytes"))
    if data and all(type(byte) is int and 0 <= byte < 256 for byte in data):
        spelled: bytes | None = bytes(data)
    else:
        spelled = token.encode(errors="backslashreplace") if isinstance(token, str) else None
    return spelled, _logprob(entry.get("logprob"))


def _token(data: bytes, logprob: float | None, listed: Iterable[_Pair]) -> ServedToken:
    known: dict[bytes, float] = {}
    for name, value in listed:
        if name is not None and value is not None:
            known[name] = max(value, known.get(name, value))
    if logprob is not None:
        known.setdefault(data, logprob)
    best = tuple(sorted(known.items(), key=lambda pair: -pair[1]))
    second = best[1][1] if len(best) > 1 else 0.0
    if data not in known or (best[0][1] >= 0 and second > _CERTAIN):
        return ServedToken(data)
    return ServedToken(data, known[data], best)


def _spells(tokens: Iterable[ServedToken], parts: Iterable[str]) -> bool:
    spelled = b"".join(token.data for token in tokens).decode(errors="replace")
    # Half a character at the end is written in more than one way.
    return all(part.strip().rstrip("\ufffd") in spelled for part in parts)


def _drafting(usage: dict[str, Any], timings: dict[str, Any]) -> tuple[int | None, int | None]:
    """Return the numbers of draft tokens and of accepted ones; None where the server reports none."""
    drafted, accepted = _count(timings.get("draft_n")), _count(timings.get("draft_n_accepted"))
    if drafted is not None:
        return drafted, accepted
    details = _dict(usage.get("completion_tokens_details"))
    accepted, rejected = (_count(details.get(f"{what}_prediction_tokens")) for what in ("accepted", "rejected"))
    # Servers that know the fields and do not draft write zeros.
    if accepted is None or rejected is None or accepted + rejected == 0:
        return None, None
    return accepted + rejected, accepted


def _logprob(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if _IMPOSSIBLE < value < _POSSIBLE else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _name(value: object) -> str | None:
    """Return a printable name: a server may send anything, control sequences included."""
    return "".join(c if c.isprintable() else "?" for c in value) if isinstance(value, str) and value else None


def _clean(text: str) -> str:
    """Return a text that can be encoded: JSON may hold halves of surrogate pairs."""
    return text.encode(errors="backslashreplace").decode()


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
