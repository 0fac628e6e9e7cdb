"""Truncation of a conversation that has outgrown the context: its oldest messages go, many at a time.

All messages after a removed one change their places, and have to be read anew. So a quarter of the context is freed at
once: prompts of the next turns then begin at one message, and find it in the cache.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence

from models.text.prompts import Message

_STEPS = 4
"""Parts into which a context is divided."""
_SHARE = 8
"""Inverse of the share of the context that stays free for an answer without a limit of tokens."""


def kept(
    turns: Sequence[Message], tokens: Callable[[Sequence[Message]], int], context_size: int, answer: int | None
) -> Sequence[Message]:
    """Return the messages to read: all of them, or a system message and as many of the last turns as fit.

    `tokens` returns the length of a prompt, `answer` is the limit of the answer, both in tokens. The last question
    always stays, even where it does not fit. Equal conversations lose equal messages, and so does mostly one that goes
    on.
    """
    head = turns[:1] if turns[:1] and turns[0].role == "system" else turns[:0]
    rests = [turns[n:] for n in range(len(head) + 1, len(turns)) if turns[n].role == "user"]
    if not rests:
        return turns
    room = context_size // _SHARE if answer is None else min(answer, context_size // _STEPS)
    whole = tokens(turns)
    excess = whole - (context_size - room)
    if excess <= 0:
        return turns
    step = max(1, context_size // _STEPS)
    wanted = -(-excess // step) * step
    found = bisect_left(rests, wanted, key=lambda rest: whole - tokens([*head, *rest]))
    return [*head, *rests[min(found, len(rests) - 1)]]
