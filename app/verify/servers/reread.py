"""Asks once more where a server told no log probabilities, as a drafting llama.cpp tells none of what it drafted.

Asked to go on with its own answer from some place, a server says the next token as the first of a reply, and the first
is never drafted. That needs a server that goes on with a begun answer, and many begin a new one instead; so what it
says is used only where it says again what it said, at one place before the fork or more.

Trap: a text that is cut between the letters of a word may be read as other tokens than it was said in, and then no
rounding is measured. It is cut before a blank.
"""

from collections.abc import Sequence
from dataclasses import replace

from app.bench.measuring.arms import BenchPrompt
from app.serve.client.served_answers import ServedAnswer, ServedToken
from app.verify.servers.asking import Asker, Messages
from app.verify.servers.audit import compare

_PLACES = 4
"""How many places before a fork are asked for."""


def fill_in(
    asker: Asker, prompt: BenchPrompt, messages: Messages, answers: tuple[ServedAnswer, ServedAnswer]
) -> tuple[ServedAnswer, ServedAnswer]:
    """Return the answers of two servers with log probabilities at their fork and before it, as far as they tell."""
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
        said = b"".join(token.data for token in tokens[:place]).decode(errors="replace")
        token = asker.next_token(server, prompt, messages, said)
        if token is None or (place < fork and token.data != tokens[place].data):
            return answer
        read[place] = token
    known = [_known(token, read.get(place)) for place, token in enumerate(tokens)]
    return replace(answer, tokens=tuple(known))


def _places(tokens: Sequence[ServedToken], fork: int) -> list[int]:
    """Return the last places that follow a whole word, the fork among them if it does; none without one before it."""
    before = [place for place in range(1, fork) if tokens[place].data[:1].isspace()][-_PLACES:]
    return [*before, fork] if before and tokens[fork].data[:1].isspace() else before


def _known(token: ServedToken, read: ServedToken | None) -> ServedToken:
    """Return a token as it was said, with what its server tells of its place when it is asked again."""
    listed = dict(read.best) if read is not None else {}
    if read is None or token.data not in listed:
        return token
    return ServedToken(token.data, listed[token.data], read.best)
