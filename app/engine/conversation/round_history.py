"""Last rounds with a draft, for /explain: rounds are kept without their rows, so a pass is repeated."""

from collections import deque

from app.engine.conversation.messages import Walked
from app.engine.conversation.session import Session
from app.engine.decoding.round import Round
from app.engine.decoding.verify import Rows
from app.engine.trace.replay_round import retell
from models.sampling.sampler import Sampler
from models.system.counted import counted

KEPT = 8
"""Most rounds that are kept."""
_NONE = "No round of the last answer drafted, so there is none to explain."
_OTHERWISE = "The repeated pass gave a different result: this device does not round reproducibly."


class RoundHistory:
    """Last rounds with a draft of an answer, and its sampler."""

    def __init__(self) -> None:
        self._rounds: deque[tuple[int, Round]] = deque(maxlen=KEPT)
        self._number = 0
        self._sampler: Sampler | None = None

    def begin(self, sampler: Sampler) -> None:
        """Start an answer and forget the rounds of the previous one."""
        self._rounds.clear()
        self._number = 0
        self._sampler = sampler

    def observe(self, round_: Round) -> None:
        """Keep a round if it had a draft."""
        self._number += 1
        if round_.draft.tokens:
            self._rounds.append((self._number, round_))

    def walk(self, session: Session, back: int | None, exact_width: int) -> Walked:
        """Return a round step by step, counted back from the last, 1; or the reason why it can't be repeated.

        `back` None: the last round with a rejected token, else the last. Repeats the round's pass at its width; then
        reads the cache's former content again, in passes that are exact on this machine (`exact_width`). Raises
        Cancelled when it is stopped: the cache is then shorter.
        """
        if self._sampler is None or not self._rounds:
            return Walked(None, _NONE)
        back = back or self._most_instructive()
        if back > len(self._rounds):
            there_are = f"There {'is' if len(self._rounds) == 1 else 'are'} {counted(len(self._rounds), 'round')}"
            return Walked(None, f"{there_are} to explain: the last ones with a draft, at most {KEPT}.")
        number, round_ = self._rounds[-back]
        return _walk(session, round_, number, self._sampler, exact_width)

    def _most_instructive(self) -> int:
        for back in range(1, len(self._rounds) + 1):
            _, round_ = self._rounds[-back]
            if round_.verdict.accepted < len(round_.draft.tokens):
                return back
        return 1


def _walk(session: Session, round_: Round, number: int, sampler: Sampler, exact_width: int) -> Walked:
    target, draft, prefix = session.target, round_.draft, round_.prefix_length
    start = prefix - (round_.width - draft.size)
    held = target.length
    if held > start and not target.can_rewind(start):
        return Walked(None, f"{target.name} can't go back to that round: {target.rewind_support.reason}.")
    target.rewind(min(held, start))
    _read(session, start, exact_width)
    try:
        pending = session.tokens[start:prefix]
        logits = target.decode([*pending, *draft.checked], rows=draft.size + 1, parents=draft.parents)
        walk = retell(Rows(logits, draft, sampler, session.tokens[:prefix]), target.vocab, number, round_.emitted)
    finally:
        kept = min(prefix, target.length)
        target.rewind(kept if target.can_rewind(kept) else 0)
    _read(session, held, exact_width)
    return Walked(walk) if walk.verdict == round_.verdict else Walked(None, _OTHERWISE)


def _read(session: Session, until: int, exact_width: int) -> None:
    """Read the text up to `until`: the prompt in wide passes, the answer in exact ones, which restore its bits."""
    target, prompt = session.target, session.stats.prompt_tokens - 1
    while target.length < until:
        start = target.length
        end = start + (target.batch_size if start < prompt else min(exact_width, target.batch_size))
        end = min(end, until, prompt if start < prompt else until)
        target.decode(session.tokens[start:end], rows=0)
