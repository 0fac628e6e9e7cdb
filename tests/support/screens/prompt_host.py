"""A small app around the prompt, and a way to drive it."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from textual import events
from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.pilot import Pilot
from textual.widgets import Static

from app.ui.prompt.completion_popup import CompletionPopup
from app.ui.prompt.prompt import Prompt
from app.ui.prompt.prompt_area import PromptArea
from app.ui.prompt.prompt_history import PromptHistory

COMMANDS = {"help": "these lines", "draft": "who guesses", "undo": "forget the last turn", "quit": "leave"}
DRAFTERS = ("off", "lookup", "suffix")


def complete_argument(command: str, _: str) -> tuple[str, ...]:
    return DRAFTERS if command == "draft" else ()


class Clock:
    """A clock that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Host(App[None]):
    """The prompt at the bottom of a screen; remembers what it was told."""

    CSS = "#bottom { dock: bottom; height: auto; }"
    ESCAPE_TO_MINIMIZE = False

    def __init__(self, folder: Path, stored: Path | None = None, clock: Clock | None = None) -> None:
        super().__init__()
        history = PromptHistory(stored or folder / "history" / "prompts.jsonl")
        self.prompt = Prompt(
            folder, history, commands=COMMANDS, complete_argument=complete_argument, clock=clock or Clock()
        )
        self.sent: list[Prompt.Submitted] = []
        self.bubbled: list[str] = []
        self.editors = 0

    def compose(self) -> ComposeResult:
        yield Static("conversation", id="above")
        with Vertical(id="bottom"):
            yield self.prompt

    def on_mount(self) -> None:
        self.prompt.focus()

    def on_prompt_submitted(self, event: Prompt.Submitted) -> None:
        self.sent.append(event)

    def on_prompt_editor_wanted(self) -> None:
        self.editors += 1

    def on_key(self, event: Any) -> None:
        self.bubbled.append(event.key)

    @property
    def texts(self) -> list[str]:
        return [event.text for event in self.sent]

    @property
    def area(self) -> PromptArea:
        return self.query_one(PromptArea)

    @property
    def popup(self) -> CompletionPopup:
        return self.query_one(CompletionPopup)

    @property
    def offered(self) -> list[str]:
        """What the list shows, nothing while it is closed."""
        return [str(option.prompt) for option in self.popup.options] if self.popup.display else []


async def press(host: Host, pilot: Pilot[None], *keys: str) -> None:
    """Press keys, all before the first is handled, as typed ahead of a busy screen; wait until all are."""
    for key in keys:
        host.post_message(events.Key(key, key if len(key) == 1 else None))
    await pilot.pause()
    await pilot.pause()


Steps = Callable[[Host, Pilot[None]], Awaitable[None]]


def drive(host: Host, steps: Steps, size: tuple[int, int] = (80, 24)) -> None:
    """Run the app headless, and these steps on it."""

    async def run() -> None:
        async with host.run_test(size=size) as pilot:
            await steps(host, pilot)

    asyncio.run(run())
