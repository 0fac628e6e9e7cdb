"""Pages of the manual in the chat screen: opened by /help TOPIC, scrolled by keys, closed by Escape."""

import pytest
from textual.containers import VerticalScroll
from ui_chat import chatting, drive

from app.manual.pages import TOPICS
from app.ui.chat.commands import complete_argument
from app.ui.chat.help import HelpScreen, ManualScreen

pytestmark = pytest.mark.usefixtures("folders")


def test_a_page_is_shown_scrolled_and_closed() -> None:
    async def steps() -> None:
        async with chatting(size=(80, 24)) as chat:
            await chat.ready()
            await chat.type("/help drafting")
            await chat.until(lambda: isinstance(chat.app.screen, ManualScreen))
            await chat.until(lambda: "Draft with a small model" in chat.shown)
            assert "<!--" not in chat.shown
            scroll = chat.app.screen.query_one(VerticalScroll)
            await chat.pilot.press("pagedown")
            await chat.until(lambda: scroll.scroll_offset.y > 0)
            await chat.pilot.press("end")
            await chat.until(lambda: "two of a thousand" in chat.shown)
            await chat.pilot.press("escape")
            await chat.until(lambda: chat.app.screen is chat.screen)

    drive(steps())


def test_help_alone_lists_the_topics_too() -> None:
    async def steps() -> None:
        async with chatting(size=(100, 40)) as chat:
            await chat.ready()
            await chat.type("/help")
            await chat.until(lambda: isinstance(chat.app.screen, HelpScreen))
            await chat.pilot.press("end")
            await chat.until(lambda: "/help privacy" in chat.shown)

    drive(steps())


def test_a_mistyped_topic_gets_the_nearest_and_opens_nothing() -> None:
    async def steps() -> None:
        async with chatting(size=(100, 30)) as chat:
            await chat.ready()
            await chat.type("/help draftng")
            await chat.until(lambda: "Did you mean drafting?" in chat.shown)
            assert chat.app.screen is chat.screen

    drive(steps())


def test_topics_are_completed_in_the_prompt() -> None:
    assert complete_argument("help", "dr") == ["drafting"]
    assert complete_argument("help", "") == list(TOPICS)
