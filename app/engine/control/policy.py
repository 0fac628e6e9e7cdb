"""Draft rules: the length of a draft, and when a draft model drafts. State in, decision out; nothing here writes.

The suffix index is polled in every round, or as often as a poll pays off. An unverified draft still shows how often it
would have been accepted, so learning that costs nothing. A draft model costs time before its draft is verified: its
expected gain must exceed the cost of its passes and of reading its unread text. Where it does not, the model is probed
as often as a hundredth of the time allows.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import mul

from app.engine.constants import (
    BY_CHANCE,
    CHECK_AGAIN,
    FIRST_DELAY,
    GROWTH,
    HORIZON,
    MODEL_MARGIN,
    PROBE_LENGTH,
    PROBE_SHARE,
    TIME_SHARE,
)
from app.engine.control.controller_state import ControllerState
from app.engine.control.draft_model_cost import SMALLEST_WINDOW, WINDOWS, ModelCost
from app.engine.control.expected_gain import (
    Seconds,
    affordable,
    best_length,
    best_siblings,
    best_size,
    nearly_free,
    no_time,
    worth_of_rest,
)
from app.engine.control.loss_budget import first_length, kept_back, run_trust
from app.engine.decoding.controller import places_of, with_siblings
from drafters.base import NO_DRAFT, Draft, Offers
from drafters.branching import ranked, tree_draft
from drafters.hybrid import Ask, ModelRequest, checked_source


@dataclass(frozen=True, slots=True)
class DraftLengthPolicy:
    """Policy of draft lengths: how many tokens a round may draft, and how many of a draft are verified."""

    state: ControllerState

    @property
    def must_decode_plainly(self) -> bool:
        """Return whether a one-token pass is due for measurement; all other costs are relative to it."""
        return self.state.curve.one_is_due and not self.state.settings.companions

    @property
    def certain(self) -> int:
        """Return the most tokens to verify where a grammar allows only one: cheaper than passes of their own."""
        return max(0, self.state.settings.max_draft - (self.state.progress.pending - 1))

    def limit(self) -> int:
        """Return the most tokens that may be worth proposing in a round that drafts."""
        any_length = self.state.model is not None or self.state.progress.drafts_trees
        return self.certain if any_length else min(self.certain, self._longest_copy())

    def worth(self, draft: Draft) -> float:
        """Return the expected gain, in tokens, of the best beginning of a draft; 0: verifying does not pay off."""
        return best_length(self.verifiable(draft), self.state.curve, self.state.rate)[1] if draft.tokens else 0.0

    def select(self, draft: Draft, room: int) -> Draft:
        """Return the beginning of a draft that is worth verifying, with siblings; see `Controller.select`."""
        if room == 0 or not draft.tokens:
            return NO_DRAFT if room == 0 else draft
        state = self.state
        if draft.offers is not None and state.settings.max_siblings:
            return self._tree(draft, draft.offers, room)
        chances = self.verifiable(draft)[:room]
        if draft.probs is None:
            length, _ = best_length(chances, state.curve, state.rate)
            draft = draft if length == len(draft.tokens) else draft.shortened(length)
        if not state.settings.max_siblings or not draft.runners_up:
            return draft
        chances, room = chances[: len(draft.tokens)], min(state.settings.max_siblings, room - len(draft.tokens))
        places, second = places_of(draft, len(chances)), state.acceptance.second(draft.source)
        return with_siblings(draft, best_siblings(chances, places, second, state.curve, state.rate, room))

    def _tree(self, draft: Draft, offers: Offers, room: int) -> Draft:
        """Return the tree of a draft's chain and offers that is worth verifying: those of the largest gains."""
        state, one = self.state, self.state.curve.seconds(1)
        bounds, proof, kept = self._proof(draft)
        most = self.affordable_length(room, no_time, bounds, state.losses_left, proof, kept)
        # An accepted token beside the chain is read again in the next round.
        worth = 1 - state.rate * (state.curve.seconds(2) - one)
        chain, beside = state.acceptance.chances(draft), state.acceptance.offered(draft)
        nodes = ranked(draft, chain, beside, state.settings.max_siblings, worth)[:most]
        size = best_size([node.gain for node in nodes], state.curve, state.rate)
        if offers.wants_rows and nodes:
            size = max(size, nearly_free(len(nodes), state.curve))
        return tree_draft(draft, nodes[:size])

    def verifiable(self, draft: Draft) -> list[float]:
        """Return the acceptance probabilities of a draft, up to the length that the loss budget allows to verify."""
        draft, bounds = self._within_budget(draft)
        return self.state.acceptance.chances(draft)[: len(bounds)]

    def proven(self, draft: Draft) -> list[float]:
        """Return the lower bounds of the probabilities that `verifiable` returns."""
        return self._within_budget(draft)[1]

    def _within_budget(self, draft: Draft) -> tuple[Draft, list[float]]:
        """Return a draft, a copy cut to its limit, and the lower bounds as far as the loss budget allows."""
        state = self.state
        if state.model is None or not draft.source.startswith(state.model.name):
            draft = draft.shortened(self._longest_copy())
        bounds, proof, kept = self._proof(draft)
        places = self.affordable_length(len(draft.tokens), no_time, bounds, state.losses_left, proof, kept)
        return draft, bounds[:places]

    def _proof(self, draft: Draft) -> tuple[list[float], float, float]:
        """Return the lower bounds of a draft, and of a free draft its trust and the part of the budget kept back."""
        state, bounds = self.state, self.state.acceptance.lower_bounds(draft)
        if state.model is not None and draft.source.startswith(state.model.name):
            return bounds, 0.0, 0.0
        return bounds, run_trust(state.polling.run, state.curve), kept_back(state.curve, state.losses.tokens)

    def affordable_length(
        self,
        longest: int,
        draft_seconds: Seconds,
        lower_bounds: Sequence[float],
        left: float,
        proof: float = 0.0,
        kept: float = 0.0,
    ) -> int:
        """Return the longest draft whose expected loss is within the rest of the loss budget."""
        curve = self.state.curve
        one, after, seconds = curve.seconds(1), curve.aftermath, curve.seconds
        cost: Callable[[int], float] = lambda n: (seconds(n + 1) - one + after + draft_seconds(n)) / one  # noqa: E731
        # Before the first token nothing is on the screen, so a delay is most visible.
        if self.state.progress.rounds == 0:
            return affordable(longest, cost, (), FIRST_DELAY, 0.0)
        return affordable(longest, cost, lower_bounds, left / one + proof - kept, self.state.losses.trust(proof))

    def _longest_copy(self) -> int:
        # Only accepted tokens show that a copy is long: repeated phrases break off after a few tokens.
        return max(first_length(self.state.curve), GROWTH * self.state.polling.run)


@dataclass(frozen=True, slots=True)
class AdaptiveModelPolicy:
    """Policy of the draft model: when it drafts, and how far; the `DraftModelPolicy` of the hybrid drafter."""

    state: ControllerState
    lengths: DraftLengthPolicy

    def worth(self, draft: Draft) -> float:
        """Return the expected gain, in tokens, of the best beginning of a draft; 0: verifying does not pay off."""
        return self.lengths.worth(draft)

    def request(self, free: Draft, unread: int, limit: int, *, skipped: int = 0) -> ModelRequest:
        """Return the request to the draft model whose expected gain exceeds the cost of its time."""
        state, model = self.state, self.state.model
        # The first token of an answer waits for no draft model.
        if model is None or state.progress.rounds == 0:
            return ModelRequest(unread=state.request.unread, reads_part=state.request.reads_part)
        request = self._loan_between_copies(free, model, unread, limit) or self._paying(model, free, unread, limit)
        if request.ask is Ask.NOTHING:
            return replace(request, reads_part=True) if skipped else request
        window = request.unread if request.unread < unread else None
        given = request.length if request.ask is Ask.CHECK else 0
        # Reading a prompt has other costs for each token than drafting.
        timed = request.ask is Ask.DRAFT and unread <= SMALLEST_WINDOW
        return replace(
            request,
            window=window,
            reads_part=bool(skipped or window),
            reading_seconds=model.reading(request.unread + given),
            expected_seconds=model.drafting(unread, 1) if timed else 0.0,
        )

    def goes_on(self, source: str, confidence: tuple[float, ...]) -> bool:
        """Tell whether one more step of the draft model pays off after draft tokens of this confidence."""
        state, model = self.state, self.state.model
        assert model is not None, "only a draft model takes steps"
        so_far = Draft(tokens=(0,) * len(confidence), confidence=confidence, source=source)
        chances = state.acceptance.chances(so_far)
        done, step, longest = len(confidence), model.curve.seconds(1), state.settings.max_draft
        more: Seconds = lambda n: step * max(0, n - done)  # noqa: E731
        bounds = [*state.acceptance.lower_bounds(so_far), *state.acceptance.proven(source, longest)[done:]]
        longest = self.lengths.affordable_length(longest, more, bounds, state.losses_left)
        ahead = state.acceptance.expected(source, longest)[done:]
        return best_length([*chances, *ahead][:longest], state.curve, state.rate, more)[0] > done

    def rounds_to_next_probe(self) -> int | None:
        """Return the rounds until a draft model that does not pay off is probed; None: it pays off, or never can."""
        state, model = self.state, self.state.model
        if model is None or state.model_is_asked or not self.can_pay(model):
            return None
        rounds, emitted = state.progress.rounds, state.progress.emitted
        a_round = state.losses.seconds / rounds if rounds else state.curve.seconds(1)
        cost = model.probing(state.request.unread, PROBE_LENGTH, emitted, state.curve)
        # Probe budget and loss budget both grow with the time of the answer, each by its share.
        waits = (cost - state.probes.seconds) / PROBE_SHARE, (cost - state.losses_left) / TIME_SHARE
        return max(0, math.ceil(max(waits) / a_round))

    def may_draft(self) -> tuple[bool, int]:
        """Return whether the draft model may draft in this round, and the round of the next check."""
        state, rounds = self.state, self.state.progress.rounds
        if state.model is None or state.model_is_asked or rounds < state.probes.check_at:
            return state.model_is_asked, state.probes.check_at
        # On a fast GPU this check in every round would slow down rounds without drafts.
        wait = self.rounds_to_next_probe()
        return wait == 0, rounds + min(CHECK_AGAIN, CHECK_AGAIN if wait is None else wait)

    def _loan_between_copies(self, free: Draft, model: ModelCost, unread: int, limit: int) -> ModelRequest | None:
        """Return the request for a loan; None also while a copy goes on, which needs no draft model."""
        request = self.loan(model, unread, limit)
        copies = request is not None and self.state.polling.run >= BY_CHANCE and self.worth(free) > 0
        return None if copies else request

    def loan(self, model: ModelCost, unread: int, limit: int) -> ModelRequest | None:
        """Return the request to read all unread tokens on a loan of the loss budget; None where no loan is due.

        Reading only the end of a prompt costs less, but drafts of such a model are seldom accepted.
        """
        state, losses = self.state, self.state.losses
        if unread <= SMALLEST_WINDOW or state.settings.companions:
            return None
        chances, rest = state.acceptance.proven(model.name, limit), losses.rest(state.progress.emitted)
        length, worth = worth_of_rest(chances, state.curve, state.rate, model.draft_seconds(1), rest)
        if not losses.can_lend(model.reading(unread), worth, state.curve.seconds(1)):
            return None
        return ModelRequest(Ask.DRAFT, length, unread=unread, is_loan=True)

    def _paying(self, model: ModelCost, free: Draft, unread: int, limit: int) -> ModelRequest:
        """Return the request that pays off; where none does, a probe if one is due."""
        state = self.state
        windows, free_worth = model.windows(unread, state.losses_left), self.worth(free)
        # Skip an unproven draft model while the free draft already has an expected gain.
        if not windows or (free_worth > 0 and not state.acceptance.knows(model.name)):
            return ModelRequest(unread=state.request.unread)
        # A draft model seldom agrees with wrong free drafts.
        agreed = [*accumulate(state.acceptance.chances(free), mul)]
        # Where reading all would use up the loss budget, reading less leaves some of it for drafting.
        for read in windows:
            ways = {0, model.read_along(read, agreed)}
            valued = [self.valued(model, free.source, agreed[:given], read, limit) for given in sorted(ways)]
            gain, request = max(valued, key=lambda each: each[0])
            if request.length and gain > free_worth + MODEL_MARGIN:
                return request
        # A probe needs only the last tokens. Reading all that it missed costs more each round.
        return self._probe(model, min(windows[0], WINDOWS[0]), limit)

    def valued(
        self, model: ModelCost, free: str, agreed: list[float], unread: int, limit: int
    ) -> tuple[float, ModelRequest]:
        """Return the expected gain of a draft by the model, in tokens, and its request; `agreed`: see `ModelCost`."""
        state, name, given = self.state, model.name, len(agreed)
        source, like = (checked_source(name, free), name) if given else (name, "")
        chances = state.acceptance.expected(source, limit, like)
        draft_seconds = model.draft_seconds(1, agreed)
        length, gain = best_length(chances, state.curve, state.rate, draft_seconds)
        if length:  # without a length that pays off there is nothing to afford
            reading, bounds = model.draft_seconds(unread, agreed), state.acceptance.proven(source, limit)
            if (places := self.lengths.affordable_length(limit, reading, bounds, state.losses_left)) < length:
                length, gain = best_length(chances[:places], state.curve, state.rate, draft_seconds)
        # Unread tokens are read once and serve all later rounds, so their cost is spread over these.
        rounds = max(HORIZON, state.progress.rounds)
        gain -= state.rate * (model.reading(unread) - model.reading(1)) / rounds
        if given and length:
            return gain, ModelRequest(Ask.CHECK, given, unread=unread)
        return gain, ModelRequest(Ask.DRAFT, length, unread=unread)

    def _probe(self, model: ModelCost, unread: int, limit: int) -> ModelRequest:
        """Return the request for a short draft where the probe budget covers it, else an empty request."""
        state, length = self.state, min(PROBE_LENGTH, limit)
        cost = model.probing(unread, length, state.progress.emitted, state.curve)
        if cost > min(state.probes.seconds, state.losses_left) or not self.can_pay(model):
            return ModelRequest(unread=unread)
        return ModelRequest(Ask.DRAFT, length, unread=unread, is_probe=True)

    def can_pay(self, model: ModelCost) -> bool:
        """Tell whether a draft of this model that is always accepted would pay off."""
        return model.can_pay(self.state.settings.max_draft, self.state.curve, self.state.rate)
