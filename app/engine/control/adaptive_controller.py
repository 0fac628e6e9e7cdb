"""Controller of `--draft auto`: draft lengths from measured costs and learnt acceptance, without settings.

It never drafts for long at a loss: see `loss_budget`. The rules are in `policy`, what they depend on in
`controller_state`; this file applies the one to the other, in order.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from app.engine.constants import POLL_SHARE
from app.engine.control.acceptance import Acceptance
from app.engine.control.controller_state import AnswerSettings, ControllerState, DraftModels
from app.engine.control.draft_model_cost import ModelCost
from app.engine.control.model_choice import quickest
from app.engine.control.policy import AdaptiveModelPolicy, DraftLengthPolicy
from app.engine.costs.pass_cost import VerifyCurve
from app.engine.decoding.controller import RoundPlan
from app.engine.decoding.round import Round
from app.engine.decoding.shared_pass import Bounds
from drafters.base import NO_DRAFT, Draft, Hindsight
from drafters.hybrid import ModelRequest


class AdaptiveController:
    """Controller that plans, selects and observes by the policies; the `DraftModelControl` of the hybrid drafter too.

    Call order: `begin()` once an answer, then in each round `plan()`, `select()` if the plan's limit is above 0,
    `observe()`. Between `plan()` and `select()` the hybrid drafter lets it `choose()` among several draft models, asks
    `policy`, and reports `requested()`, then `learn()` or `read()`, and `stepped()`. `use()` may come between any two
    calls.
    """

    bounds: Bounds | None = None

    def __init__(self, curve: VerifyCurve, settings: AnswerSettings, *models: ModelCost | None) -> None:
        """Take the target's pass costs, the settings of the next answer, and the costs of its draft models; None: none.

        Of several, the first drafts until another is expected to be quicker.
        """
        there = DraftModels(tuple(model for model in models if model is not None))
        self.state = ControllerState(settings, curve, there)
        self.lengths = DraftLengthPolicy(self.state)
        self.policy = AdaptiveModelPolicy(self.state, self.lengths)
        self._plan: RoundPlan | None = None

    @property
    def acceptance(self) -> Acceptance:
        """Return the acceptance probabilities by source."""
        return self.state.acceptance

    @property
    def settings(self) -> AnswerSettings:
        """Return the settings of the answer."""
        return self.state.settings

    @property
    def certain(self) -> int:
        """Return the most tokens to verify where a grammar allows only one."""
        return self.lengths.certain

    def use(self, settings: AnswerSettings) -> None:
        """Take the settings for the passes to come."""
        self.state.use(settings)

    def begin(self) -> None:
        """Start an answer; the previous one may have been stopped inside a round."""
        self.state.begin()
        self._plan = None

    def plan(self) -> RoundPlan:
        """Plan a round: return the most tokens that may be worth drafting."""
        self._plan = RoundPlan(self._limit())
        return self._plan

    def _limit(self) -> int:
        if self.lengths.must_decode_plainly:
            return 0
        if not self.state.polling.is_due:
            may_draft, check_at = self.policy.may_draft()
            self.state.probes.check_again(check_at)
            if not may_draft:
                return 0
        return self.lengths.limit()

    def choose(self, unread: Callable[[], Mapping[str, int]]) -> str:
        """Return the name of the draft model that drafts now, of several; chosen once in an answer.

        The first round waits for no draft model. A later change would cost the reading of the text once more.
        """
        state = self.state
        assert state.model is not None, "there are several draft models"
        if state.progress.rounds > 0 and not state.models.is_chosen:
            found = unread()
            model = quickest(state, self.policy, found)
            state.chosen(model, found[model.name])
        return state.model.name

    def failed(self, name: str) -> None:
        """Take that a draft model failed, and drafts no more in this answer."""
        self.state.failed(name)

    def requested(self, request: ModelRequest) -> None:
        """Take the request that the hybrid drafter makes to the draft model now."""
        self.state.requested(request)

    def learn(self, source: str, hindsight: Hindsight) -> None:
        """Learn from the draft model's predictions of text that it has read."""
        self.state.acceptance.learn(source, hindsight, self.state.part_reader)
        self.state.losses.spend_expected()
        if self._plan is not None:
            self._plan = replace(self._plan, caught_up=True)

    def read(self) -> None:
        """Charge the requested pass, which is done."""
        self.state.losses.spend_expected()

    def stepped(self) -> None:
        """Charge one more step of the draft model to the round."""
        assert self.state.model is not None, "only a draft model takes steps"
        self.state.losses.spend(self.state.model.curve.seconds(1))

    def select(self, draft: Draft, room: int) -> Draft:
        """Return the beginning of a draft that is worth verifying; the rest still counts for acceptance."""
        assert self._plan is not None, "plan() comes before select()"
        self.state.losses.spend_expected()
        self._plan = RoundPlan(self._plan.limit, draft, self._plan.caught_up)
        return self.lengths.select(draft, room)

    def observe(self, round_: Round) -> None:
        """Learn the costs of the passes, the tokens emitted, and which draft tokens matched the text."""
        assert self._plan is not None, "plan() comes before observe()"
        plan, self._plan, state = self._plan, None, self.state
        aftermath = state.curve.aftermath
        verify_seconds = state.curve.observe(round_.width + round_.others, round_.verify_seconds)
        seconds = round_.draft_seconds + verify_seconds + round_.host_seconds
        model_ran = state.model_is_asked or plan.caught_up
        state.progress.observe(round_, plan.proposed)
        state.throughput.observe(len(round_.emitted) + round_.others, seconds, state.plain_rate(round_.others))
        state.losses.end_round(seconds, self._saved(round_, seconds, aftermath, model_ran=model_ran))
        state.probes.earn(seconds)
        state.polling.observe(round_, plan.proposed, state.rate, model_ran=model_ran)
        self._observe_acceptance(plan.proposed or NO_DRAFT, round_)
        self._observe_draft_seconds(plan, round_.draft_seconds)

    def _saved(self, round_: Round, seconds: float, aftermath: float, *, model_ran: bool) -> float:
        """Return the seconds that a round saved against plain decoding; negative when it lost."""
        one = self.state.curve.seconds(1)
        if round_.draft.tokens:
            return len(round_.emitted) * one - seconds - aftermath
        # A plain round loses only the time to look for a draft. Polls of every round must stay cheap: a budget
        # spent on them could not pay for the drafts that they find.
        return -(round_.draft_seconds if model_ran else min(round_.draft_seconds, POLL_SHARE * one))

    def _observe_acceptance(self, proposed: Draft, round_: Round) -> None:
        acceptance, part_reader = self.state.acceptance, self.state.part_reader
        if self.state.settings.companions and not round_.draft.tokens:
            acceptance.follow(proposed, round_.emitted, part_reader)
        else:
            acceptance.observe(proposed, round_.emitted, part_reader)

    def _observe_draft_seconds(self, plan: RoundPlan, seconds: float) -> None:
        # A failed draft model drafts no more: its old expectation would be compared with other drafters' times.
        expected, model, proposed = self.state.drafting_timed(), self.state.model, plan.proposed or NO_DRAFT
        if model is not None and expected > 0 and proposed.source == model.name and not plan.caught_up:
            steps = (len(proposed.tokens) - 1) * model.curve.seconds(1)
            model.curve.rescale(seconds / (expected + steps))
