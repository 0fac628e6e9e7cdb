"""Why drafts are as long as they are, in numbers: what a pass costs, how often each source is right, and must be."""

from dataclasses import dataclass, replace

from app.engine.control.acceptance import SourceCount
from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.control.controller_state import AnswerSettings, ControllerState
from app.engine.control.expected_gain import Seconds, break_even, no_time
from app.engine.control.policy import AdaptiveModelPolicy, DraftLengthPolicy


@dataclass(frozen=True, slots=True)
class WidthCost:
    """What a pass over several tokens costs now."""

    width: int
    seconds: float
    ratio: float
    """Over a pass of one token."""


@dataclass(frozen=True, slots=True)
class SourceAccount:
    """What a source of drafts was seen to do, verified or not, since the models were loaded.

    The field names are those of `--json`.
    """

    name: str
    guessed_at: tuple[int, ...]
    """Draft tokens at each place whose predecessors were all right."""
    right_at: tuple[int, ...]
    chance: float
    """Acceptance probability of its next token, as learnt: the recent past counts most."""
    needed: float | None
    """Acceptance probability a token from which on it pays here and now; None: it never does."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the controller knows, at one moment. The field names are those of `--json`."""

    longest: int
    """Longest draft that is allowed."""
    widths: tuple[WidthCost, ...]
    plain_rate: float
    """Tokens a second without drafting, as passes of one token cost now."""
    rate: float
    """Tokens a second that rounds achieved lately; never less than plain."""
    sources: tuple[SourceAccount, ...]
    model: str
    """Name of the draft model; "" without one."""
    model_step_ratio: float | None
    """Its pass of one token over the target's."""
    next_try: int | None
    """Rounds until a draft model that does not pay is probed; None: it pays, or can't at any acceptance."""
    adapts: bool = True
    """Whether it decides at all; else every draft of a fixed length is verified, and nothing is learnt."""
    failure: str = ""
    """What went wrong with the draft model in this answer, which goes on without it."""
    model_tuned: bool = True
    """Whether the fastest way to run the draft model was looked for, or there is no other; True without one."""
    aftermath: float = 0.0
    """How much longer passes of one token take after one over more, in passes of one token; 0: nothing to speak of."""


def explain(
    controller: AdaptiveController, settings: AnswerSettings | None = None, *, adapts: bool = True, failure: str = ""
) -> Explanation:
    """Return what a controller knows and would do with these settings; None: with those that it has.

    With `adapts` False it decides nothing.
    """
    state, policy = controller.state, controller.policy
    if settings is not None:
        state = replace(state, settings=settings)
        policy = AdaptiveModelPolicy(state, DraftLengthPolicy(state))
    one, model = state.curve.seconds(1), state.model
    widths = [width for width in state.curve.measured if width <= state.settings.max_draft + 1]
    costs = (WidthCost(width, state.curve.seconds(width), state.curve.ratio(width)) for width in widths)
    return Explanation(
        state.settings.max_draft,
        tuple(costs),
        1 / one,
        state.rate,
        tuple(_account(state, name, count) for name, count in state.acceptance.counts.items() if name),
        model.name if model else "",
        model.curve.seconds(1) / one if model else None,
        policy.rounds_to_next_probe() if adapts else None,
        adapts,
        failure,
        model is None or model.tuned,
        state.curve.aftermath_ratio,
    )


def _account(state: ControllerState, name: str, count: SourceCount) -> SourceAccount:
    plain = 1 / state.curve.seconds(1)
    needed = break_even(state.settings.max_draft, state.curve, plain, _draft_seconds(state, name))
    chance = state.acceptance.at(name, 0)
    return SourceAccount(name, tuple(count.proposed_at), tuple(count.right_at), chance, needed)


def _draft_seconds(state: ControllerState, source: str) -> Seconds:
    model = state.model
    if model is None or not source.startswith(model.name):
        return no_time
    return model.draft_seconds(1)
