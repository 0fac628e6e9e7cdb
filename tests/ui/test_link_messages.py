"""What a hurried engine posts: of text nothing is lost, of figures the latest is enough."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from recorded_link import told
from saved import said
from textual.message import Message
from ui_chat import drive, own_folders

from app.engine.messages import Ready, Watched
from app.engine.stats import Stats
from app.ui import panel as panel_module
from app.ui import transcript_view
from app.ui.messages import Heard, LoadProgress
from app.ui.panel_lines import panel_lines

READY = Ready("big", "llama 1B Q4_0", "suffix", 2000, 3)
WIDE = (140, 40)
NEVER = 3600.0


@pytest.fixture(autouse=True)
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    own_folders(monkeypatch, tmp_path)
    return


def test_of_a_hurried_answer_all_text_is_there_and_little_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = [f"word{number} " for number in range(500)]
    panels: list[int] = []
    draws: list[None] = []

    def counted(flow: Any, *arguments: Any, **options: Any) -> Any:
        panels.append(flow.stats.emitted)
        return panel_lines(flow, *arguments, **options)

    monkeypatch.setattr(panel_module, "panel_lines", counted)

    async def steps() -> None:
        async with told(WIDE) as chat:
            await chat.hear(READY)
            await chat.type("go on")
            await chat.until(lambda: chat.screen.query_one("#panel")._timer is None)
            # From here on the next picture of each is due in an hour.
            monkeypatch.setattr(panel_module, "_PAUSE", NEVER)
            monkeypatch.setattr(transcript_view, "_FRAME", NEVER)
            monkeypatch.setattr(transcript_view, "_SLOWEST", NEVER)
            draw = chat.screen.transcript._draw
            monkeypatch.setattr(chat.screen.transcript, "_draw", lambda: (draws.append(None), draw()))
            panels.clear()
            for place, piece in enumerate(pieces):
                chat.link.say(said(piece, place, place), Watched(Stats(prompt_tokens=9).snapshot(), None, place))
            await chat.until(lambda: chat.screen.flow.stats.rounds == len(pieces))
            assert chat.messages[-1] == "".join(pieces)
            assert panels == [2], "after the first round, and then not again for an hour"
            assert len(draws) <= 2
            await chat.pilot.resize_terminal(140, 44)
            await chat.pilot.pause()
            assert panels[-1] == 2 * len(pieces), "the latest figures are not lost"
            await chat.until(lambda: "word499" in chat.shown)

    drive(steps())


def test_of_a_load_only_the_latest_progress_is_handled_and_messages_keep_their_order() -> None:
    # A message that goes on to the app comes by once more.
    dispatched: list[Message] = []

    def hook(message: Message) -> None:
        if message not in dispatched:
            dispatched.append(message)

    async def steps() -> None:
        async with told(WIDE, hook=hook) as chat:
            for number in range(201):
                chat.link.progress("big.gguf", number / 400)
            await chat.pilot.pause()
            handled = [message for message in dispatched if isinstance(message, LoadProgress)]
            assert [message.fraction for message in handled] == [0.5]
            await chat.until(lambda: "loading big.gguf 50%" in chat.shown)
            chat.link.progress("big.gguf", 1.0)
            await chat.hear(READY)
            await chat.until(lambda: "loading" not in chat.shown)
            assert [message.said for message in dispatched if isinstance(message, Heard)] == [READY, None]

    drive(steps())
