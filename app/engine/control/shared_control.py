"""Answers given at once over one cache: how many of them are worth one pass, and who leaves it to draft alone.

A pass over the tokens of g answers takes T(g) and gives g tokens: with T as flat as a graphics card's nearly g times as
many a second, on a processor less, and none more where T grows as fast as g. The best g is the batch, and it has no
room for guesses: what all achieve together is the price that a draft has to beat in a pass of its own, and the others'
pass without this answer comes on top. So the more there are at once, the less is drafted; who copies still may.
"""

from collections.abc import Sequence
from typing import cast

from app.engine.calibrate import VerifyCurve
from app.engine.control.expected_gain import MARGIN, best_length
from app.engine.control.policy import Adaptive
from app.engine.decoding.controller import FixedLength
from app.engine.passes import Bounds
from app.engine.round import Round
from drafters.base import Draft
from models.base import Companion, LanguageModel


class SharedBatch:
    """Who speaks now over one cache, and what passes cost that they share."""

    def __init__(self, curve: VerifyCurve, exact: int) -> None:
        """Take T(w), and the widest pass that is exact; 1: none is, and any may be used."""
        self.curve = curve
        self.exact = exact
        self._speaking: dict[LanguageModel, int] = {}
        self._reached: dict[LanguageModel, int] = {}
        """Looked up in every round of each, and changed only by who comes and goes."""

    def enter(self, text: LanguageModel, urgency: int) -> None:
        """Let somebody speak over a text of the cache; those that are equally urgent share their passes."""
        self._speaking[text] = urgency
        self._reached.clear()

    def leave(self, text: LanguageModel) -> None:
        """Let somebody fall silent; who does not speak may leave too."""
        self._speaking.pop(text, None)
        self._reached.clear()

    def size(self, text: Companion, widest: int) -> int:
        """Return how many of those who can share a pass with a text do best in one of at most so many tokens."""
        if (reached := self._reached.get(text)) is None:
            reached = self._reached[text] = self._within_reach(text)
        return max(range(1, min(reached, widest) + 1), key=lambda size: size / self.curve.seconds(size), default=1)

    def _within_reach(self, text: Companion) -> int:
        """Return the length of the chain of those who speak, one beside the next: beyond a gap nobody shares."""
        urgency, chain = self._speaking.get(text), [text]
        alike = [one for one, its in self._speaking.items() if its == urgency and one is not text]
        # It grows while it is gone through.
        for one in chain:
            chain += [cast("Companion", other) for other in alike if other not in chain and one.can_join(other)]
        return len(chain)


class BatchingController:
    """A controller of answers that share passes: it asks another how long to draft, and says whether to share."""

    def __init__(
        self, inner: Adaptive | FixedLength, batch: SharedBatch, urgency: int, text: Companion, widest: int
    ) -> None:
        """Take who decides about drafts, whom the answer is given among, and the widest pass that it may be in."""
        self.bounds: Bounds | None = None
        self._inner = inner
        self._batch = batch
        self._urgency = urgency
        self._text = text
        self._widest = widest
        self._size = 1
        self._may_leave = False

    def begin(self) -> None:
        """Start an answer, and speak from now on."""
        self._batch.enter(self._text, self._urgency)
        self._inner.begin()

    def limit(self) -> int:
        """Return the most tokens to check, alone; a shared pass has no room for any.

        Where not even a draft that is right throughout would be worth leaving, one free guess shows how a copy goes on.
        """
        self._size = self._batch.size(self._text, self._widest)
        # Without a draft nothing is trimmed.
        self._join(shares=self._size > 1)
        longest = self._inner.limit()
        self._may_leave = self._size == 1 or (longest > 0 and self._gain_alone([1.0] * longest) > MARGIN)
        return longest if self._may_leave else min(longest, 0 if self._has_model else 1)

    def trim(self, draft: Draft, room: int) -> Draft:
        """Return what is worth checking of a draft in a pass of its own, or nothing in a shared one."""
        shares = self._size > 1 and not self._leaves(draft)
        self._join(shares=shares)
        return self._inner.trim(draft, 0 if shares else room)

    @property
    def certain(self) -> int:
        """Return the most tokens to check of what can't be wrong; a pass that may be shared has room for none."""
        return self._inner.certain if self.bounds is None else 0

    def observe(self, round_: Round) -> None:
        """Learn from a round that has ended."""
        if round_.counts:
            self._batch.curve.observe(round_.width + round_.others, round_.verify_seconds)
        self._inner.observe(round_)

    def _leaves(self, draft: Draft) -> bool:
        """Tell whether a draft is worth more in a pass of its own: only what is proved counts, as others pay for it."""
        if not isinstance(self._inner, Adaptive) or not draft.tokens:
            return False
        # What was drawn must not decide whether it is checked.
        if draft.probs is not None:
            return True
        return self._may_leave and self._gain_alone(self._inner.proved(draft)) > MARGIN

    def _gain_alone(self, chances: Sequence[float]) -> float:
        """Return what a draft gains in a pass of its own, in tokens, though that of the others then comes on top."""
        inner, others, curve = self._inner, self._size - 1, self._batch.curve
        if not isinstance(inner, Adaptive):
            return 0.0
        price = inner.price_among(others)
        split = price * (curve.seconds(1) + curve.seconds(others) - curve.seconds(1 + others))
        return best_length(chances, inner.curve, price)[1] - split

    @property
    def _has_model(self) -> bool:
        return isinstance(self._inner, Adaptive) and self._inner.model is not None

    def _join(self, *, shares: bool) -> None:
        self.bounds = Bounds(self._text, self._size) if shares else None
        if isinstance(self._inner, Adaptive):
            self._inner.others = self._size - 1 if shares else 0
