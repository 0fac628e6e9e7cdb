"""Choice among several draft models for an answer: the one with which it is expected to take least time.

The time of a draft model is that of reading what it has not read, and of the expected further tokens at the rate that
its acceptance and its cost allow. One that has not drafted for some answers is judged by its long-run record, so it
gets its turn again where the present one does worse than that.
"""

from collections.abc import Mapping

from app.engine.constants import CHANGE_WORTH
from app.engine.control.controller_state import ControllerState
from app.engine.control.draft_model_cost import SMALLEST_WINDOW, ModelCost
from app.engine.control.expected_gain import best_rate
from app.engine.control.policy import AdaptiveModelPolicy


def quickest(state: ControllerState, policy: AdaptiveModelPolicy, unread: Mapping[str, int]) -> ModelCost:
    """Return the draft model for an answer; `unread` has the tokens that each has to read first, by name.

    Another takes over only where that saves a good part of the time, and where the answer can afford its reading.
    """
    assert state.model is not None, "one of several draft models is in use"
    seconds = {model.name: _seconds_of_rest(state, model, unread[model.name]) for model in state.models.working}
    best = min(state.models.working, key=lambda model: seconds[model.name])
    saves = seconds[best.name] < (1 - CHANGE_WORTH) * seconds[state.model.name]
    return best if saves and _can_read(state, policy, best, unread[best.name]) else state.model


def _seconds_of_rest(state: ControllerState, model: ModelCost, unread: int) -> float:
    chances = state.acceptance.usual(model.name, state.settings.max_draft)
    rate = best_rate(chances, state.curve, model.draft_seconds(1))
    return model.reading(unread) - model.reading(1) + state.losses.rest(state.progress.emitted) / rate


def _can_read(state: ControllerState, policy: AdaptiveModelPolicy, model: ModelCost, unread: int) -> bool:
    """Tell whether the loss budget, or a loan, covers the reading: a model that can't read can't draft."""
    if unread <= SMALLEST_WINDOW or model.reading(unread) <= state.losses_left:
        return True
    return policy.loan(model, unread, state.settings.max_draft) is not None
