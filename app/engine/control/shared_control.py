"""Control of concurrent answers over one cache: how many of them share a pass, and which leaves it to draft alone.

A pass over the tokens of g answers takes T(g) seconds and emits g tokens. Where T is nearly flat, as on a GPU, that is
nearly g times the throughput; on a processor it is less, and no gain where T grows as fast as g. The best g is the
batch, and it has no room for draft tokens: a draft in a pass of its own must beat the throughput of all answers
together, and the others' pass without this answer comes on top. So with more answers at once less is drafted; a long
copy still pays off.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from app.engine.constants import MARGIN
from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.control.expected_gain import best_length
from app.engine.costs.pass_cost import VerifyCurve
from app.engine.decoding.controller import FixedLength, RoundPlan
from app.engine.decoding.round import Round
from app.engine.decoding.shared_pass import Bounds
from drafters.base import Draft
from models.base import Companion, LanguageModel


class SharedBatch:
    """Running answers over one cache, and the costs of their shared passes."""

    def __init__(self, curve: VerifyCurve, exact: int) -> None:
        """Take T(w), and the widest exact pass in tokens; 1: no wider pass is exact, and any may be used."""
        self.curve = curve
        self.exact = exact
        self._running: dict[LanguageModel, int] = {}
        self._reached: dict[LanguageModel, int] = {}
        """Number of answers that can share a pass, by text; changes only when an answer begins or ends."""

    def enter(self, text: LanguageModel, urgency: int) -> None:
        """Add an answer over a text of the cache; answers of equal urgency share their passes."""
        self._running[text] = urgency
        self._reached.clear()

    def leave(self, text: LanguageModel) -> None:
        """Remove the answer over a text, if there is one."""
        self._running.pop(text, None)
        self._reached.clear()

    def size(self, text: Companion, widest: int) -> int:
        """Return the best number of answers in a shared pass with this text, of at most `widest` tokens."""
        if (reached := self._reached.get(text)) is None:
            reached = self._reached[text] = self._within_reach(text)
        return max(range(1, min(reached, widest) + 1), key=lambda size: size / self.curve.seconds(size), default=1)

    def _within_reach(self, text: Companion) -> int:
        """Return the length of the unbroken chain of neighbouring running answers around a text."""
        urgency, chain = self._running.get(text), [text]
        alike = [one for one, its in self._running.items() if its == urgency and one is not text]
        # The list grows during the loop.
        for one in chain:
            chain += [cast("Companion", other) for other in alike if other not in chain and one.can_join(other)]
        return len(chain)


class BatchingController:
    """Controller of answers that share passes: the inner controller decides lengths, this one whether to share.

    Call order: that of `Controller`.
    """

    def __init__(
        self, inner: AdaptiveController | FixedLength, batch: SharedBatch, urgency: int, text: Companion, widest: int
    ) -> None:
        """Take the inner controller, the batch, and the widest pass that the answer may share."""
        self.bounds: Bounds | None = None
        self._inner = inner
        self._batch = batch
        self._urgency = urgency
        self._text = text
        self._widest = widest
        self._size = 1
        self._may_leave = False

    def begin(self) -> None:
        """Start an answer and add it to the batch."""
        self._batch.enter(self._text, self._urgency)
        self._inner.begin()

    def plan(self) -> RoundPlan:
        """Plan a round: the most tokens to verify in a pass of its own; a shared pass has no room for draft tokens.

        Where not even a fully accepted draft would be worth a pass of its own, one token of a free draft still shows
        whether a copy goes on.
        """
        self._size = self._batch.size(self._text, self._widest)
        # Without a draft nothing is selected.
        self._join(shares=self._size > 1)
        plan = self._inner.plan()
        longest = plan.limit
        self._may_leave = self._size == 1 or (longest > 0 and self._gain_alone([1.0] * longest) > MARGIN)
        return plan if self._may_leave else RoundPlan(min(longest, 0 if self._has_model else 1))

    def select(self, draft: Draft, room: int) -> Draft:
        """Return the part of a draft that is worth a pass of its own; an empty draft for a shared pass."""
        shares = self._size > 1 and not self._leaves(draft)
        self._join(shares=shares)
        return self._inner.select(draft, 0 if shares else room)

    @property
    def certain(self) -> int:
        """Return the most tokens to verify where a grammar allows only one; 0 in a shared pass."""
        return self._inner.certain if self.bounds is None else 0

    def observe(self, round_: Round) -> None:
        """Learn from a round that has ended."""
        if round_.counts:
            self._batch.curve.observe(round_.width + round_.others, round_.verify_seconds)
        self._inner.observe(round_)

    def _leaves(self, draft: Draft) -> bool:
        """Tell whether a draft gains more in a pass of its own, by lower bounds, as other answers wait for it."""
        if not isinstance(self._inner, AdaptiveController) or not draft.tokens:
            return False
        # A drawn token must not decide whether it is verified: that would bias the accept rule.
        if draft.probs is not None:
            return True
        return self._may_leave and self._gain_alone(self._inner.lengths.proven(draft)) > MARGIN

    def _gain_alone(self, chances: Sequence[float]) -> float:
        """Return the gain of a draft in a pass of its own, in tokens, less the cost of the others' separate pass."""
        inner, others, curve = self._inner, self._size - 1, self._batch.curve
        if not isinstance(inner, AdaptiveController):
            return 0.0
        rate = inner.state.rate_among(others)
        split = rate * (curve.seconds(1) + curve.seconds(others) - curve.seconds(1 + others))
        return best_length(chances, inner.state.curve, rate)[1] - split

    @property
    def _has_model(self) -> bool:
        return isinstance(self._inner, AdaptiveController) and self._inner.state.model is not None

    def _join(self, *, shares: bool) -> None:
        self.bounds = Bounds(self._text, self._size) if shares else None
        if isinstance(self._inner, AdaptiveController):
            companions, settings = self._size - 1 if shares else 0, self._inner.settings
            if companions != settings.companions:
                self._inner.use(replace(settings, companions=companions))
