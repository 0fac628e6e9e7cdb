"""An engine whose answers also update the figures on the screen.

Prefetched answers are left out: the figures describe shown text.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace

from app.engine.conversation.messages import PromptScored
from app.engine.conversation.session import Reading
from app.engine.decoding.request import Question
from app.engine.runtime.async_engine import AnswerMessage, AsyncEngine
from app.engine.runtime.jobs import Urgency
from app.engine.runtime.load import LoadPlan
from app.ui.panel.flow import Flow


class WatchedEngine(AsyncEngine):
    """Updates a flow with each answer, on the caller's event loop."""

    def __init__(self, plan: LoadPlan, flow: Flow, now: Callable[[], float], drawn: Callable[[], object]) -> None:
        """Take the plan, the flow to update, its clock in seconds, and a function called after each update."""
        super().__init__(plan)
        self._flow = flow
        self._now = now
        self._drawn = drawn

    async def answer(
        self,
        question: Question,
        urgency: Urgency = Urgency.ANSWER,
        wait: float | None = None,
        on_end: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[AnswerMessage]:
        """Yield the messages of an answer; see `AsyncEngine.answer`."""
        begun, watched = False, urgency is not Urgency.IDLE
        try:
            async with aclosing(super().answer(replace(question, watch=watched), urgency, wait, on_end)) as messages:
                async for message in messages:
                    if watched and not begun:
                        self._flow.begin()
                        begun = True
                    if watched:
                        self._hear(message)
                    yield message
        finally:
            if begun:
                # One that was called off says no last word.
                self._flow.idle()
                self._drawn()

    def _hear(self, message: AnswerMessage) -> None:
        if isinstance(message, Reading):
            self._flow.reading = message
        elif not isinstance(message, PromptScored):
            self._flow.hear(message, self._now())
        self._drawn()
