"""Figures behind draft lengths: costs of passes, acceptance of each source, and its break-even point."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from app.engine.control.acceptance import SourceCount
from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.control.controller_state import AnswerSettings, ControllerState
from app.engine.control.expected_gain import Seconds, break_even, no_time
from app.engine.control.policy import AdaptiveModelPolicy, DraftLengthPolicy


@dataclass(frozen=True, slots=True)
class WidthCost:
    """Cost of a pass over several tokens, as measured by now."""

    width: int
    seconds: float
    ratio: float
    """Over a pass of one token."""


@dataclass(frozen=True, slots=True)
class SourceAccount:
    """Counts of a source's draft tokens, verified or not, since the models were loaded; its estimate and break-even.

    The field names are those of `--json`.
    """

    name: str
    guessed_at: tuple[int, ...]
    """Draft tokens by place, counted if all earlier ones matched the text."""
    right_at: tuple[int, ...]
    chance: float
    """Acceptance probability of its next token; the recent past counts most."""
    needed: float | None
    """Acceptance probability for each token above which it pays off now; None: it never does."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Controller's figures at one moment. The field names are those of `--json`."""

    longest: int
    """Longest draft allowed, in tokens."""
    widths: tuple[WidthCost, ...]
    plain_rate: float
    """Tokens a second without drafting, as passes of one token cost now."""
    rate: float
    """Tokens a second of the last rounds; never less than plain."""
    sources: tuple[SourceAccount, ...]
    model: str
    """Name of the draft model; "" without one."""
    model_step_ratio: float | None
    """Seconds of its one-token pass over those of the target's."""
    next_try: int | None
    """Rounds until a draft model that does not pay off is probed; None: it pays off, or can't at any acceptance."""
    adapts: bool = True
    """Whether the controller adapts; else every draft is verified whole, and nothing is learnt."""
    failures: Mapping[str, str] = field(default_factory=dict)
    """Title of the error by the name of each draft model that failed in this answer, which goes on without it."""
    model_tuned: bool = True
    """Whether `tune` has looked for the draft model's fastest settings, or there are no others; True without one."""
    aftermath: float = 0.0
    """Extra time of one-token passes after a wider pass, in one-token passes; 0: not measurable."""
    waiting: tuple[str, ...] = ()
    """Names of the working draft models that don't draft now, since `model` is expected to be quicker."""
    disturbed: bool = False
    """Whether other programs held the cores while the costs of passes were measured."""


def explain(
    controller: AdaptiveController,
    settings: AnswerSettings | None = None,
    *,
    adapts: bool = True,
    failures: Mapping[str, str] | None = None,
) -> Explanation:
    """Return a controller's figures under these settings; None: under its present ones.

    `adapts` False: as for a controller that verifies every draft.
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
        model.reading(1) / one if model else None,
        policy.rounds_to_next_probe() if adapts else None,
        adapts,
        dict(failures or {}),
        model is None or model.tuned,
        state.curve.aftermath_ratio,
        tuple(other.name for other in state.models.working if other is not model),
        any(curve.disturbed for curve in (state.curve, *(each.curve for each in state.models.all))),
    )


def _account(state: ControllerState, name: str, count: SourceCount) -> SourceAccount:
    plain = 1 / state.curve.seconds(1)
    needed = break_even(state.settings.max_draft, state.curve, plain, _draft_seconds(state, name))
    chance = state.acceptance.at(name, 0)
    return SourceAccount(name, tuple(count.proposed_at), tuple(count.right_at), chance, needed)


def _draft_seconds(state: ControllerState, source: str) -> Seconds:
    # A draft model also goes on with a free draft: the source is then that of both.
    models = (model for model in state.models.all if source == model.name or source.startswith(f"{model.name}+"))
    return next((model.draft_seconds(1) for model in models), no_time)
