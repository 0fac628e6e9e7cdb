"""Models that are changed while others are loaded or freed: one pair after the other, however quickly they change."""

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import app.lsp.loaded
from app.engine.conversation.messages import Ready
from app.engine.runtime.load import LoadPlan
from app.lsp.loaded import Models
from app.lsp.settings import Settings
from drafters.registry import parse_drafter
from models.llama.load import LlamaOptions

MOMENT = 0.1
PLAN = LoadPlan("a", parse_drafter("off"), LlamaOptions(), Path("machine.json"))
DOCUMENTS: Any = SimpleNamespace(text_documents={})


class SlowAsyncEngine:
    """Takes a moment to load, and one to free what it loaded."""

    in_memory: list[str]
    most: int

    def __init__(self, plan: LoadPlan) -> None:
        self.model = plan.model

    async def load(self, _: object) -> Ready:
        self.in_memory.append(self.model)
        type(self).most = max(self.most, len(self.in_memory))
        await asyncio.sleep(MOMENT)
        return Ready(self.model, "", "off", 512, None)

    async def look(self, _: object) -> object:
        return self

    def close(self) -> None:
        time.sleep(MOMENT)
        self.in_memory.remove(self.model)


class Silent:
    """An editor that shows nothing, how far a load is among it."""

    def loading(self) -> "Silent":
        return self

    def report(self, name: str, share: float) -> None:
        """Hear how far it is."""

    def end(self, text: str) -> None:
        """Hear how it ended."""

    def note(self, text: str) -> None:
        """Hear what was loaded."""


@pytest.mark.parametrize("pause", [0.0, MOMENT / 2, 1.5 * MOMENT, 2.5 * MOMENT])
def test_models_that_change_quickly_are_never_in_memory_together(monkeypatch: pytest.MonkeyPatch, pause: float) -> None:
    monkeypatch.setattr(SlowAsyncEngine, "in_memory", [], raising=False)
    monkeypatch.setattr(SlowAsyncEngine, "most", 0, raising=False)
    monkeypatch.setattr(app.lsp.loaded, "AsyncEngine", SlowAsyncEngine)

    async def story() -> None:
        editor: Any = Silent()
        models = Models(editor, PLAN, None)
        models.use(Settings(), DOCUMENTS)
        assert await models.ready(10)
        for name in "bcd":
            models.use(Settings(model=name), DOCUMENTS)
            await asyncio.sleep(pause)
        async with asyncio.timeout(10):
            while await models.ready(1) is None:
                await asyncio.sleep(0)
        assert (SlowAsyncEngine.most, SlowAsyncEngine.in_memory) == (1, ["d"])
        models.use(Settings(model="e"), DOCUMENTS)
        await asyncio.sleep(pause)
        await models.close()
        assert (SlowAsyncEngine.most, SlowAsyncEngine.in_memory) == (1, [])

    asyncio.run(story())
