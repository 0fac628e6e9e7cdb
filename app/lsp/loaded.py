"""The loaded models of the language server, replaced when the editor's settings name others."""

import asyncio
from dataclasses import replace

from app.complete.completer import Completer
from app.complete.place import Windows
from app.complete.settings import CompletionSettings
from app.engine.runtime.async_engine import AsyncEngine
from app.engine.runtime.load import LoadPlan
from app.lsp.documents import Document, Documents
from app.lsp.editor import Editor
from app.lsp.own_files import check_outside_project
from app.lsp.settings import Settings
from drafters.registry import parse_drafter
from models.errors import LocalspecError
from models.text.fim import FimFormat, no_fim


class Models:
    """At most one loaded pair, with its completer."""

    completer: Completer | None = None
    """None while no model is loaded."""

    def __init__(self, editor: Editor, plan: LoadPlan, draft_length: int | None) -> None:
        """Take the models of the command line; loading waits for `use`."""
        self._editor = editor
        self._base = plan
        self._draft_length = draft_length
        self._plan: LoadPlan | None = None
        self._asking = CompletionSettings()
        self._async_engine: tuple[LoadPlan, AsyncEngine] | None = None
        self._change: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        """Lock for changes: two loaded pairs may exceed the memory."""

    def use(self, settings: Settings, documents: Documents) -> None:
        """Load the models of the settings unless they are loaded, and apply the other settings; return at once."""
        try:
            plan = self._planned(settings)
        except LocalspecError as error:
            self._editor.fail(error)
            return
        asking = self._completion(settings)
        if self.completer is not None and (plan, asking) == (self._plan, self._asking):
            return
        self._asking = asking
        if plan == self._plan and self._change is not None and not self._change.done():
            return  # it is loading, and gets the new settings when ready
        if self._change is not None:
            self._change.cancel()
        self._change = asyncio.ensure_future(self._to(plan, documents))
        self._plan = plan

    async def ready(self, seconds: float) -> Completer | None:
        """Return the completer, after at most so many seconds of a running load; None for none."""
        if self.completer is None and self._change is not None:
            await asyncio.wait([self._change], timeout=seconds)
        return self.completer

    async def close(self) -> None:
        """Cancel running work, and free the models."""
        if self._change is not None:
            self._change.cancel()
        async with self._turn:
            await self._free()

    async def _to(self, plan: LoadPlan, documents: Documents) -> None:
        try:
            async with self._turn:
                if self._async_engine is None or self._async_engine[0] != plan:
                    await self._free()
                    self._async_engine = plan, await self._load(plan)
                await self._begin(self._async_engine[1], documents)
        except LocalspecError as error:
            self._editor.fail(error)

    async def _load(self, plan: LoadPlan) -> AsyncEngine:
        async_engine, loading = AsyncEngine(plan), self._editor.loading()
        end = "not loaded"
        try:
            ready = await async_engine.load(loading.report)
            if await async_engine.look(lambda worker: FimFormat.of(worker.vocab)) is None:
                raise no_fim(ready.model)
            end = f"{ready.model}, drafter {ready.drafter}"
        except BaseException:
            await _close(async_engine)
            raise
        finally:
            loading.end(end)
        for note in (f"{ready.model}: {ready.description}, context {ready.context_size:,}", *ready.notes):
            self._editor.note(note)
        return async_engine

    async def _begin(self, async_engine: AsyncEngine, documents: Documents) -> None:
        await self._stop()
        self.completer = Completer(async_engine, self._asking)
        for document in documents.text_documents.values():
            if isinstance(document, Document):
                self.completer.visited(documents.name(document.uri), document.text, 0)

    async def _stop(self) -> None:
        completer, self.completer = self.completer, None
        if completer is not None:
            await completer.close()

    async def _free(self) -> None:
        await self._stop()
        loaded, self._async_engine = self._async_engine, None
        if loaded is not None:
            await _close(loaded[1])

    def _completion(self, settings: Settings) -> CompletionSettings:
        lines = settings.prefix_lines
        windows = Windows(lines, settings.suffix_lines, step=max(1, lines // 2))
        rounding = self._base.allow_rounding
        return CompletionSettings(windows=windows, draft_length=self._draft_length, allow_rounding=rounding)

    def _planned(self, settings: Settings) -> LoadPlan:
        """Return the load plan of the settings, based on the command line; raises UsageError."""
        base = self._base
        for name in (settings.model, settings.draft):
            check_outside_project(name)
        options = replace(base.options, context_size=settings.context) if settings.context else base.options
        return replace(
            base,
            model=settings.model or base.model,
            drafter=parse_drafter(settings.draft) if settings.draft else base.drafter,
            options=options,
            fit_context=base.fit_context and not settings.context,
        )


async def _close(async_engine: AsyncEngine) -> None:
    """Free the models completely, even if cancelled: the next load needs their memory."""
    closing = asyncio.ensure_future(asyncio.to_thread(async_engine.close))
    try:
        await asyncio.wait([closing])
    finally:
        await asyncio.wait([closing])
