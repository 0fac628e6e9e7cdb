"""Log probabilities requested again where a server omitted them, as llama.cpp omits them for drafted tokens.

Asked to continue its own answer from some place, a server emits the next token as the first of a reply, and the first
token is never drafted. Many servers begin a new answer instead, so the reply is used only where the server repeats its
own tokens at one or more places before the fork.
Trap: text cut inside a word may be tokenized differently, and then no rounding is measured. So it is cut before a
blank.
"""

from collections.abc import Sequence
from dataclasses import replace

from app.bench.measuring.arms import BenchPrompt
from app.serve.client.served_answers import ServedAnswer, ServedToken
from app.verify.servers.asking import Asker, Messages
from app.verify.servers.audit import compare

_PLACES = 4
"""Most places before a fork to request."""


def fill_in(
    asker: Asker, prompt: BenchPrompt, messages: Messages, answers: tuple[ServedAnswer, ServedAnswer]
) -> tuple[ServedAnswer, ServedAnswer]:
    """Return the answers of two servers with log probabilities at and before their fork, as far as they report them."""
    fork = compare(*answers).fork
    if fork is None or fork.token is None:
        return answers
    first, second = answers
    return (
        _filled(asker, 0, prompt, messages, first, fork.token),
        _filled(asker, 1, prompt, messages, second, fork.token),
    )


def _filled(
    asker: Asker, server: int, prompt: BenchPrompt, messages: Messages, answer: ServedAnswer, fork: int
) -> ServedAnswer:
    tokens = answer.tokens or ()
    if fork >= len(tokens) or tokens[fork].logprob is not None:
        return answer
    read: dict[int, ServedToken] = {}
    for place in _places(tokens, fork):
        begun = b"".join(token.data for token in tokens[:place]).decode(errors="replace")
        token = asker.next_token(server, prompt, messages, begun)
        if token is None or (place < fork and token.data != tokens[place].data):
            return answer
        read[place] = token
    known = [_known(token, read.get(place)) for place, token in enumerate(tokens)]
    return replace(answer, tokens=tuple(known))


def _places(tokens: Sequence[ServedToken], fork: int) -> list[int]:
    """Return the last places after a whole word, possibly the fork; none without a place before the fork."""
    before = [place for place in range(1, fork) if tokens[place].data[:1].isspace()][-_PLACES:]
    return [*before, fork] if before and tokens[fork].data[:1].isspace() else before


def _known(token: ServedToken, read: ServedToken | None) -> ServedToken:
    """Return the original token with the log probabilities of the repeated request."""
    listed = dict(read.best) if read is not None else {}
    if read is None or token.data not in listed:
        return token
    return ServedToken(token.data, listed[token.data], read.best)
