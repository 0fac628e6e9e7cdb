"""What is left out of a conversation that has outgrown the context: its oldest messages, many at a time.

All that follows what is left out gets other places, and has to be read anew. So a quarter of the context is freed at
once: the next turns begin at the same message, whoever counts, and find it in the cache.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence

from models.text.prompts import Message

_STEPS = 4
"""Into which a context is divided."""
_SHARE = 8
"""Share of the context, as its inverse, that is kept free for an answer of which nobody said how long it may be."""


def kept(
    turns: Sequence[Message], tokens: Callable[[Sequence[Message]], int], context_size: int, answer: int | None
) -> Sequence[Message]:
    """Return the messages that are to be read: all of them, or a system message and the last turns, as many as fit.

    `tokens` tells how many a prompt has, `answer` how many the answer may have. The last question always stays, whether
    it fits or not. The same conversation loses the same messages at each call, and one that goes on mostly does.
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
