"""Driving the editor in tests: on the real engine with a toy model, or on one that says what a test tells it to."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from recorded import recorded
from textual.pilot import Pilot

from app.complete.completer import Completer
from app.complete.settings import CompletionSettings
from app.engine.conversation.messages import Ended, Ready, Said, Watched
from app.engine.conversation.session import Reading
from app.engine.decoding.ending import Finish
from app.engine.decoding.request import Question
from app.engine.runtime.async_engine import AnswerMessage, AsyncEngine
from app.engine.runtime.jobs import Urgency
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.worker import Worker
from app.flags.request import Request, ScreenSettings
from app.ui.editor.app import EditApp, engine_for
from app.ui.editor.file import open_file
from app.ui.editor.file_screen import MakeEngine
from app.ui.editor.ghost_area import GhostArea
from app.ui.editor.screen import EditScreen
from app.ui.editor.watched_engine import WatchedEngine
from app.ui.panel.flow import Flow
from drafters.registry import parse_drafter
from models.errors import LocalspecError
from models.llama.load import LlamaOptions
from models.sampling.sampler import SamplingParams

CODE = '''"""Two shapes."""


def area(width, height):
    """Return the area of a rectangle."""
    return width * height


def border(width, height):
    """Return the length around it."""
    \n

print(area(2, 3), border(2, 3))
'''
"""With the cursor at line 11, column 5, a function is to be filled in."""
_BLANK = "    "
"""What stands before it."""


def filled(text: str) -> str:
    """Return the code with a text in its hole."""
    return CODE.replace("    \n\n", f"    {text}\n\n", 1)


def request(memory: Path, model: str = "toy-fim", theme: str = "dark", **keys: str) -> Request:
    """Return what `localspec run --edit` asks for."""
    plan = LoadPlan(model, parse_drafter("auto"), LlamaOptions(context_size=4000), memory / "machine.json")
    return Request(
        plan=plan,
        settings=Question(turns=(), sampling=SamplingParams(temperature=0.0)),
        prompt=None,
        system=None,
        usual_system=None,
        as_json=False,
        quiet=False,
        saved=False,
        resumed=None,
        plain=False,
        screen=ScreenSettings(theme, False, keys),
    )


class RecordedAsyncEngine(AsyncEngine):
    """Loads nothing; answers with what a test says, in the rounds of an answer that was recorded."""

    def __init__(self, _: LoadPlan) -> None:
        self.texts: list[str] = []
        """What it says, one after the other; nothing after the last."""
        self.asked: list[Question] = []
        self.loaded = asyncio.Event()
        """Set when the models may be there."""
        self.fails_with: LocalspecError | None = None
        """What the next answer fails with."""
        self.in_parts = False
        """Whether an answer stops half-way, until it is called off."""

    async def load(self, on_progress: Callable[[str, float], None] = lambda _, __: None) -> Ready:
        on_progress("qwen2.5-coder-1.5b-instruct-q4_k_m", 0.42)
        await self.loaded.wait()
        return replace(recorded("answer").ready, notes=())

    async def look(self, _: Callable[[Worker], Any]) -> Any:
        return True

    async def answer(
        self,
        question: Question,
        urgency: Urgency = Urgency.ANSWER,
        wait: float | None = None,  # noqa: ARG002
        on_end: Callable[[], None] = lambda: None,  # noqa: ARG002
    ) -> AsyncGenerator[AnswerMessage]:
        self.asked.append(question)
        if self.fails_with is not None:
            raise self.fails_with
        text = self.texts.pop(0) if urgency is Urgency.COMPLETION and self.texts else ""
        # What is written at the cursor is not shown to a model when it is blank: it says that first.
        blank = "" if question.infill and question.infill.begun.strip() else _BLANK
        for message in _in_other_words(blank + text if text else ""):
            yield message
            if self.in_parts and isinstance(message, Said) and message.text:
                await asyncio.Event().wait()

    def close(self) -> None:
        pass


class ScriptedAsyncEngine(WatchedEngine, RecordedAsyncEngine):
    """The same, followed by the screen as the engine is."""


def _in_other_words(text: str) -> Iterator[AnswerMessage]:
    """Yield the recorded messages with another text: all of it in the first round."""
    rest = text
    for message in recorded("answer").told:
        if isinstance(message, Said):
            yield replace(message, text=rest)
            rest = ""
        elif isinstance(message, Ended):
            yield replace(message, text="", answer=text, finish=Finish.END)
        elif isinstance(message, Reading | Watched):
            yield message


class Editor:
    """An editor on a screen."""

    def __init__(self, app: EditApp, pilot: Pilot[Any], path: Path) -> None:
        self.app = app
        self.pilot = pilot
        self.path = path

    @property
    def screen(self) -> EditScreen:
        return self.app.editor

    @property
    def area(self) -> GhostArea:
        return self.screen.area

    @property
    def async_engine(self) -> ScriptedAsyncEngine:
        async_engine = self.screen.async_engine
        assert isinstance(async_engine, ScriptedAsyncEngine)
        return async_engine

    @property
    def shown(self) -> str:
        """What is on the screen."""
        return "\n".join(line.text.rstrip() for line in self.app.screen._compositor.render_strips())

    async def until(self, condition: Callable[[], object], seconds: float = 30.0) -> None:
        """Let the app run until something is so."""
        for _ in range(int(seconds / 0.01)):
            await self.pilot.pause(0.01)
            if condition():
                return
        raise AssertionError(f"waited in vain; ghost {self.area.ghost!r}, the screen:\n{self.shown}")

    async def ready(self) -> None:
        """Wait until the models are there."""
        await self.until(lambda: self.screen.is_ready)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def proposed(self) -> str:
        """Wait until something is proposed and all of it was said."""
        await self.until(lambda: self.area.ghost and not self.screen.asking.asks)
        return self.area.ghost


@asynccontextmanager
async def editing(
    path: Path,
    text: str | None = CODE,
    cursor: tuple[int, int] = (10, 4),
    *,
    size: tuple[int, int] = (100, 24),
    make_engine: MakeEngine | None = None,
    theme: str = "dark",
    notices: bool = False,
    **keys: str,
) -> AsyncIterator[Editor]:
    """Open a file with a text, or one that is not there, by default on the toy model."""
    if text is not None:
        path.write_bytes(text.encode())
    asked = request(path.parent, theme=theme, **{name.replace("_", "."): key for name, key in keys.items()})
    clock = (0.12 * tick for tick in count())
    app = EditApp(
        open_file(path), cursor, make_engine or partial(engine_for, asked), asked.screen, now=lambda: next(clock)
    )
    app.animation_level = "none"
    app.editor.asking._pause = 0.02
    try:
        async with app.run_test(size=size, notifications=notices) as pilot:
            editor = Editor(app, pilot, path)
            await editor.until(lambda: app.editor.is_mounted and app.screen is app.editor)
            yield editor
    finally:
        await asyncio.to_thread(app.editor.async_engine.close)


@asynccontextmanager
async def told(path: Path, *texts: str, loaded: bool = True, **settings: Any) -> AsyncIterator[Editor]:
    """Open a file on an engine that says these texts, one a question."""

    def make(flow: Flow, changed: Callable[[], object]) -> tuple[AsyncEngine, Completer]:
        async_engine = ScriptedAsyncEngine(request(path.parent).plan, flow, lambda: 0.0, changed)
        async_engine.texts += texts
        return async_engine, Completer(async_engine, CompletionSettings())

    async with editing(path, make_engine=make, **settings) as editor:
        if loaded:
            editor.async_engine.loaded.set()
            await editor.ready()
        yield editor


def drive(steps: Coroutine[Any, Any, None]) -> None:
    """Run what a test does with an editor."""
    asyncio.run(steps)
