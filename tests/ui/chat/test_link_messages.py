"""What a hurried engine posts: of text nothing is lost, of figures the latest is enough."""

import time
from collections.abc import Sequence
from threading import Thread
from typing import Any

import pytest
from recorded_link import RecordedLink, told
from saved import said
from ui_chat import drive

from app.engine.conversation.messages import Ready, Watched
from app.engine.decoding.stats import Stats
from app.ui.chat.messages import Heard, LoadProgress, Mail
from app.ui.panel import panel as panel_module
from app.ui.panel.panel_lines import panel_lines

READY = Ready("big", "llama 1B Q4_0", "suffix", 2000, 3)
WIDE = (140, 40)
NEVER = 3600.0


pytestmark = pytest.mark.usefixtures("folders")


def test_of_a_hurried_answer_all_text_is_there_and_little_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = [f"word{number} " for number in range(500)]
    panels: list[int] = []
    draws: list[None] = []
    batches: list[int] = []

    def counted(flow: Any, *arguments: Any, **options: Any) -> Any:
        panels.append(flow.stats.emitted)
        return panel_lines(flow, *arguments, **options)

    monkeypatch.setattr(panel_module, "panel_lines", counted)

    async def steps() -> None:
        async with told(WIDE) as chat:
            await chat.hear(READY)
            await chat.pilot.press("f2")
            await chat.type("go on")
            await chat.until(lambda: chat.screen.query_one("#panel")._timer is None)
            # From here on the next picture of the panel is due in an hour.
            monkeypatch.setattr(panel_module, "_PAUSE", NEVER)
            chat.screen.query_one("#panel")._drawn_at = float("-inf")
            draw, take = chat.screen.transcript._draw, chat.app.mailbox.take
            monkeypatch.setattr(chat.screen.transcript, "_draw", lambda: (draws.append(None), draw()))
            monkeypatch.setattr(chat.app.mailbox, "take", lambda: (mail := take(), batches.append(len(mail)))[0])
            panels.clear()
            hurried = Thread(target=in_a_hurry, args=(chat.link, pieces))
            hurried.start()
            await chat.until(lambda: chat.screen.flow.stats.rounds == len(pieces))
            hurried.join()
            assert chat.messages[-1] == "".join(pieces)
            assert sum(batches) == 2 * len(pieces)
            await chat.until(lambda: len(draws) == len([batch for batch in batches if batch]))
            assert len(draws) <= len(pieces) / 4, "one drawing for all that came meanwhile"
            assert len(panels) == 1, "at once, and then not again for an hour"
            await chat.pilot.resize_terminal(140, 44)
            await chat.pilot.pause()
            assert panels[-1] == 2 * len(pieces), "the latest figures are not lost"
            await chat.until(lambda: "word499" in chat.shown)

    drive(steps())


def in_a_hurry(link: RecordedLink, pieces: Sequence[str]) -> None:
    """Say more in a second than a screen can draw."""
    for place, piece in enumerate(pieces):
        link.say(said(piece, place, place), Watched(Stats(prompt_tokens=9).snapshot(), None, place))
        time.sleep(0.001)


def test_of_a_load_only_the_latest_progress_is_handled_and_messages_keep_their_order() -> None:
    handled: list[Mail] = []

    async def steps() -> None:
        async with told(WIDE, listen=handled.append) as chat:
            for number in range(201):
                chat.link.progress("big.gguf", number / 400)
            await chat.until(lambda: "loading big.gguf 50%" in chat.shown)
            assert [mail.fraction for mail in handled if isinstance(mail, LoadProgress)] == [0.5]
            chat.link.progress("big.gguf", 1.0)
            await chat.hear(READY)
            await chat.until(lambda: "loading" not in chat.shown)
            assert [mail.message for mail in handled if isinstance(mail, Heard)] == [READY, None]

    drive(steps())
