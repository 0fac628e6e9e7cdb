"""A transcript in an app of its own, for tests: what drives it, and what is seen."""

import asyncio
from collections.abc import Awaitable, Callable

from textual import on
from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot

from app.ui.transcript.transcript import Transcript

CODE = "```python\nx = 1\n```"


class Host(App[None]):
    """Nothing but a transcript, and what it said."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[Message] = []

    def compose(self) -> ComposeResult:
        yield Transcript()

    @on(Transcript.Copied)
    @on(Transcript.EditWanted)
    @on(Transcript.ReplayWanted)
    @on(Transcript.BranchWanted)
    def hear(self, message: Message) -> None:
        self.heard.append(message)


Script = Callable[[Transcript, "Pilot[None]"], Awaitable[None]]


def drive(script: Script, size: tuple[int, int] = (60, 20)) -> Host:
    async def run() -> Host:
        app = Host()
        async with app.run_test(size=size) as pilot:
            transcript = app.query_one(Transcript)
            transcript.focus()
            await quiet(transcript, pilot)
            await script(transcript, pilot)
            await quiet(transcript, pilot)
        return app

    return asyncio.run(asyncio.wait_for(run(), timeout=60))


async def drawn(transcript: Transcript, pilot: "Pilot[None]") -> None:
    """Wait until what is seen is drawn."""
    await pilot.pause()
    while transcript._is_due:
        await asyncio.sleep(0.01)
    await pilot.pause()


async def quiet(transcript: Transcript, pilot: "Pilot[None]") -> None:
    """Wait until everything is drawn, also what isn't seen."""
    await pilot.pause()
    while transcript._is_due or transcript.column.has_estimates:
        await asyncio.sleep(0.01)
    await pilot.pause()


def rows(transcript: Transcript) -> list[str]:
    height = transcript.scrollable_content_region.height
    return ["".join(part.text for part in transcript.render_line(y)).rstrip() for y in range(height)]
