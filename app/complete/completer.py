"""Completions during typing: one at a time for the latest position, and the next one in advance."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace

from app.complete.asking import Asking, CompletionRequest
from app.complete.place import CursorPosition
from app.complete.results import Results
from app.complete.ring import Ring
from app.complete.settings import CompletionSettings, Limits
from app.complete.tidy import shown
from app.engine.conversation.messages import Ended, Said
from app.engine.decoding.ending import Finish
from app.engine.runtime.async_engine import AsyncEngine
from app.engine.runtime.jobs import Urgency
from models.errors import Cancelled, LocalspecError

DEFAULT = Limits()
WHOLE = (Finish.END, Finish.STOP)
"""Finish reasons after which the last line is complete."""
OnText = Callable[[str], None]
_log = logging.getLogger("localspec.complete")


@dataclass(frozen=True, slots=True)
class Completion:
    """A completion to insert at a cursor."""

    text: str
    """Text to insert; "" if none is worth showing."""
    place: CursorPosition
    ended: Ended | None
    """Finish reason; None: from memory, typed along or computed in advance."""


@dataclass(slots=True)
class _Run:
    """A completion in progress."""

    request: CompletionRequest
    idle: bool
    """Whether it runs in advance, without a request yet."""
    task: "asyncio.Task[tuple[str, Ended]]" = field(init=False)
    waiter: "asyncio.Future[tuple[str, Ended]] | None" = None
    """The request that waits for it; None: none."""
    on_text: OnText | None = None
    text: str = ""
    """The text shown so far."""

    def hear(self, text: str) -> None:
        """Show the text so far if it changed."""
        if text != self.text and self.on_text is not None:
            self.on_text(text)
        self.text = text


class Completer:
    """Completes positions in one event loop; only the latest request counts."""

    def __init__(
        self,
        async_engine: AsyncEngine,
        settings: CompletionSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take an engine, whose models may still be loading, and the clock of the ring of chunks."""
        self._async_engine = async_engine
        self._settings = settings or CompletionSettings()
        self._ring = Ring(self._settings.ring, clock)
        self._asking = Asking(self._settings, self._ring)
        self._results = Results(self._settings.results)
        self._run: _Run | None = None
        self._limits = DEFAULT
        self._edited: tuple[str, str, int, int] | None = None

    async def complete(
        self, place: CursorPosition, limits: Limits = DEFAULT, on_text: OnText | None = None
    ) -> Completion:
        """Return the completion at a position; `on_text` receives each version of the text so far.

        Any other waiting request, and a completion in advance, is cancelled within a round. Raises
        asyncio.CancelledError when cancelled itself, and LocalspecError.
        """
        self._limits = limits
        self._dismiss()
        request = self._asking.at(place, limits)
        if (known := self._results.find(request)) is not None:
            self._stop(idle_too=False)
            if on_text is not None and known:
                on_text(known)
            return Completion(known, place, None)
        if self._run is not None and self._is_about(request):
            self._run.idle = False
            # The engine cancels work without a request when a request arrives.
            with suppress(Cancelled):
                text, ended = await self._wait(self._run, on_text)
                if ended.finish is not Finish.CANCELLED:
                    return Completion(text, place, None)
        text, ended = await self._wait(self._start(request, idle=False), on_text)
        return Completion(text, place, ended)

    def known(self, place: CursorPosition, limits: Limits = DEFAULT) -> Completion | None:
        """Return the remembered completion at a position, at once; None for none."""
        text = self._results.find(self._asking.at(place, limits))
        return None if text is None else Completion(text, place, None)

    def prefetch(self, completion: Completion) -> None:
        """Start the completion for the position after an accepted one, while the engine is free."""
        if not completion.text or (self._run is not None and self._run.waiter is not None):
            return
        limits = replace(self._limits, wait=None)
        request = self._asking.at(completion.place.after(completion.text), limits)
        if not self._is_about(request) and self._results.find(request) is None:
            self._start(request, idle=True)

    def visited(self, path: str, text: str, line: int, above: int = 0) -> None:
        """Note a visited or saved line of a file: its text may help elsewhere.

        For a long file the surrounding lines suffice as the text; `above` is the number of lines before them.
        """
        self._ring.add(path, text, line, above)

    def edited(self, path: str, text: str, line: int, above: int = 0) -> None:
        """Note a changed line of a file: the previously changed place may help here."""
        before, self._edited = self._edited, (path, text, line, above)
        if before and (before[0] != path or abs(before[2] - line) > self._settings.ring.lines):
            self._ring.add(*before)

    def closed(self, path: str) -> None:
        """Drop a document; its chunks may still help elsewhere."""
        self._asking.forget(path)
        self._results.forget(path)
        if self._edited and self._edited[0] == path:
            self._ring.add(*self._edited)
            self._edited = None

    async def settled(self) -> None:
        """Wait until no completion is running."""
        if self._run is not None:
            await asyncio.wait([self._run.task])

    async def close(self) -> None:
        """Cancel running work; returns after it has ended."""
        self._dismiss()
        run, self._run = self._run, None
        if run is not None:
            run.task.cancel()
            await asyncio.wait([run.task])

    def _dismiss(self) -> None:
        """Tell a waiting request that its answer is cancelled."""
        if self._run is not None and self._run.waiter is not None:
            self._run.waiter.cancel()
            self._run.waiter = self._run.on_text = None

    def _stop(self, *, idle_too: bool) -> None:
        if self._run is not None and (idle_too or not self._run.idle):
            self._run.task.cancel()
            self._run = None

    def _is_about(self, request: CompletionRequest) -> bool:
        """Tell whether the running completion answers this request."""
        return self._run is not None and self._run.request.key == request.key and not self._run.task.done()

    def _start(self, request: CompletionRequest, *, idle: bool) -> _Run:
        """Cancel running work and start a request; the engine receives both in this order."""
        self._stop(idle_too=True)
        run = self._run = _Run(request, idle)
        run.task = asyncio.create_task(self._answer(run))
        run.task.add_done_callback(_note_failure)
        return run

    async def _wait(self, run: _Run, on_text: OnText | None) -> tuple[str, Ended]:
        """Wait for the running completion; a cancelled wait cancels it, unless a newer request waits."""
        run.on_text = on_text
        if run.text and on_text is not None:
            on_text(run.text)
        waiter = run.waiter = asyncio.shield(run.task)
        try:
            answer = await waiter
            if run.waiter is not waiter:
                # A newer request arrived at the moment when this one was ready.
                raise asyncio.CancelledError
            return answer
        except asyncio.CancelledError:
            if run.waiter is waiter:
                run.task.cancel()
            raise
        finally:
            if run.waiter is waiter:
                run.waiter = run.on_text = None

    async def _answer(self, run: _Run) -> tuple[str, Ended]:
        """Run the engine's answer, and remember the shown text."""
        request, ended, so_far = run.request, None, ""
        urgency = Urgency.IDLE if run.idle else Urgency.COMPLETION
        async with aclosing(self._async_engine.answer(request.question, urgency, request.limits.wait)) as messages:
            async for message in messages:
                if isinstance(message, Said):
                    so_far += message.text
                    run.hear(self._shown(request, so_far, broken_off=False))
                elif isinstance(message, Ended):
                    ended = message
        assert ended is not None, "an answer ends with Ended or fails"
        text = self._shown(request, ended.answer, broken_off=ended.finish not in WHOLE)
        run.hear(text)
        if ended.finish is not Finish.CANCELLED:
            self._results.keep(request, text, cut=ended.finish is Finish.TIME)
        return text, ended

    def _shown(self, request: CompletionRequest, so_far: str, *, broken_off: bool) -> str:
        text = shown(so_far, request.around, broken_off=broken_off, tidies=self._settings.tidies)
        return text.replace("\n", request.place.newline)


def _note_failure(task: "asyncio.Task[tuple[str, Ended]]") -> None:
    """Retrieve a task's error: without a waiter, asyncio would report it as never retrieved."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, Cancelled):
        level = logging.INFO if isinstance(error, LocalspecError) else logging.ERROR
        _log.log(level, "a completion failed: %s", error)
