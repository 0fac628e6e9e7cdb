"""Reading in the pause after an answer: a draft model reads what it has not read, which then delays no answer.

During an answer a draft model that is not expected to pay reads little, and so little is learnt about it. In the pause
its guesses are compared with the answer that the target gave, and the next turn of a conversation finds it ready.
"""

from collections.abc import Sequence

from app.engine.control.acceptance import Acceptance
from app.engine.control.draft_model_cost import SMALLEST_WINDOW
from app.engine.conversation.drafting import Drafting
from app.engine.conversation.session import Session
from drafters.alternatives import parts_of
from drafters.base import ModelDrafter
from drafters.head import HeadDrafter

_JUDGED = 128
"""Last tokens of an answer with which guesses are compared."""


def read_in_pause(session: Session, drafting: Drafting) -> None:
    """Let each draft model that might pay read the last prompt and answer, and learn how often it is right.

    An infill is left out, since its text changes with every key. Raises Cancelled, and LocalspecError as passes do.
    """
    adaptive = drafting.adaptive
    if adaptive is None or adaptive.settings.infill or not session.drafter_has_begun:
        return
    may_pay = {model.name for model in adaptive.state.models.working if adaptive.policy.can_pay(model)}
    for drafter in parts_of(drafting.model):
        if drafter.name in may_pay:
            _read(drafter, session.tokens, session.stats.emitted, adaptive.acceptance)


def _read(drafter: ModelDrafter, tokens: Sequence[int], emitted: int, acceptance: Acceptance) -> None:
    # What a head has skipped has no row any more, and what a model lacks room for is skipped again.
    if drafter.skipped and not isinstance(drafter, HeadDrafter) and len(tokens) < drafter.model.context_size:
        drafter.focus(tokens, len(tokens))
    if (unread := drafter.unread(tokens)) <= SMALLEST_WINDOW:
        return
    first, step = len(tokens) - max(0, min(emitted - 1, _JUDGED, unread - 1)), drafter.model.max_rows
    # As many guesses at a time as one pass has rows for; the first pass reads all that comes before them.
    for end in (*range(first + step, len(tokens), step), len(tokens)):
        acceptance.learn(drafter.name, drafter.catch_up(tokens[:end], end - first + 1))
        first = end
