"""Answers on the chat screen: told round by round, stopped, the same as in a script, and stepped through."""

from pathlib import Path

import pytest
from ui_chat import Chat, chatting, drive, slowly

from app.engine.conversation.messages import Ended, Ready, Said, Watched
from app.engine.decoding.ending import Finish
from app.ui.panel.replay import ReplayScreen

pytestmark = pytest.mark.usefixtures("folders")


def test_an_answer_is_told_round_by_round_and_shown_whole() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            assert isinstance(chat.said[0], Ready)
            answer = await chat.ask("abcabcabc")
            said = [message for message in chat.said if isinstance(message, Said)]
            (ended,) = [message for message in chat.said if isinstance(message, Ended)]
            assert "".join(message.text for message in said) + ended.text == ended.answer == answer
            assert [message for message in chat.said if isinstance(message, Watched)]
            assert chat.messages == ["abcabcabc", answer]
            assert chat.screen.flow.stats.emitted == ended.stats.emitted

    drive(steps())


async def answering(chat: Chat) -> None:
    """Ask, and wait for the first word."""
    await chat.ready()
    await chat.type("abc")
    await chat.until(lambda: any(isinstance(one, Said) and one.text for one in chat.said))


def test_escape_stops_an_answer_and_keeps_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    slowly(monkeypatch)

    async def steps() -> None:
        async with chatting(predict=1500) as chat:
            await answering(chat)
            await chat.pilot.press("escape")
            await chat.until(lambda: not chat.screen.busy)
            ended = chat.said[-2]
            assert isinstance(ended, Ended)
            assert ended.finish is Finish.CANCELLED
            assert chat.messages == ["abc", ended.answer]
            await chat.until(lambda: "Stopped." in chat.shown)
            assert (await chat.ask("def")).strip()

    drive(steps())


def test_who_leaves_stops_the_model_before_anything_else_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    slowly(monkeypatch)

    async def steps() -> None:
        async with chatting(predict=1500) as chat:
            await answering(chat)
            (ticket,) = chat.screen.link._open.values()
            assert not ticket.cancelled
            chat.app.exit(143)
            assert ticket.cancelled

    drive(steps())


def test_while_an_answer_runs_a_message_stays_in_the_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    slowly(monkeypatch)

    async def steps() -> None:
        async with chatting(predict=1500) as chat:
            await chat.ready()
            await chat.type("abc")
            await chat.until(lambda: chat.screen.busy)
            await chat.type("and this")
            assert chat.screen.prompt.text == "and this"
            await chat.pilot.press("escape")
            await chat.until(lambda: not chat.screen.busy)
            assert chat.messages[0] == "abc"

    drive(steps())


def test_the_same_seed_says_the_same_on_the_screen_as_in_a_script(tmp_path: Path) -> None:
    from run_localspec import localspec

    script = localspec("run", "toy", "abcabc", "-n", "40", "--seed", "1", "--draft", "off", "-c", "2000", home=tmp_path)

    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            assert await chat.ask("abcabc") == script.stdout.removesuffix("\n")

    drive(steps())


def test_an_answer_can_be_stepped_through() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            await chat.pilot.press("f4")
            assert not isinstance(chat.app.screen, ReplayScreen)
            await chat.ask("abcabcabc")
            await chat.pilot.press("f4")
            await chat.until(lambda: isinstance(chat.app.screen, ReplayScreen))
            await chat.pilot.press("q")
            await chat.until(lambda: chat.app.screen is chat.screen)

    drive(steps())


def test_a_round_is_walked_through_on_the_screen() -> None:
    async def steps() -> None:
        async with chatting(no_adapt=True, draft_max=3) as chat:
            await chat.ready()
            await chat.ask("abcabcabc")
            await chat.type("/explain")
            await chat.until(lambda: "Round " in chat.shown and "copy" in chat.shown)
            assert "target picks" in chat.shown
            await chat.pilot.press("escape")
            await chat.ready()
            assert await chat.ask("def")

    drive(steps())
