"""Marks by confidence in a chat: measured only while they are shown, and the context of a reopened chat."""

from math import exp
from pathlib import Path

import pytest
from ui_chat import Chat, chatting, drive, own_folders

from app.engine.conversation.messages import Said
from app.ui.chat.conversing import resume
from app.ui.drawing.marks import Confidence, Marks, confidence_of
from app.ui.transcript.entries import Answer


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own_folders(monkeypatch, tmp_path)


def measured(chat: Chat, place: int) -> list[float | None]:
    entry = chat.screen.transcript._all[place]
    assert isinstance(entry, Answer)
    return entry._probabilities


def answers(chat: Chat) -> list[int]:
    return [place for place, entry in enumerate(chat.screen.transcript._all) if isinstance(entry, Answer)]


def test_probabilities_are_measured_only_while_they_are_shown() -> None:
    async def steps() -> None:
        async with chatting(size=(100, 30)) as chat:
            await chat.ready()
            await chat.ask("one")
            await chat.pilot.press("f3")
            assert chat.screen.transcript.marks is Marks.ORIGINS
            await chat.ask("two")
            await chat.pilot.press("f3")
            assert chat.screen.transcript.marks is Marks.CONFIDENCE
            assert Confidence.UNKNOWN.replace(" ", "\u00a0") in chat.shown
            await chat.ask("three")
            await chat.pilot.press("f3")
            assert chat.screen.transcript.marks is Marks.OFF
            await chat.ask("four")
            first, second, third, fourth = (measured(chat, place) for place in answers(chat))
            assert {*first, *second, *fourth} == {None}
            likelihoods = [one for said in chat.said if isinstance(said, Said) for one in said.round.likelihoods]
            assert third == [exp(one.logprob) for one in likelihoods]
            assert all(one is not None and 0 < one <= 1 for one in third)
            assert len({confidence_of(one) for one in third}) > 1, "the toy is sure of some tokens alone"

    drive(steps())


def test_the_text_is_the_same_with_and_without_the_marks() -> None:
    async def steps() -> None:
        texts = []
        for presses in (0, 2):
            async with chatting() as chat:
                await chat.ready()
                await chat.pilot.press(*["f3"] * presses)
                texts.append(await chat.ask("one"))
        assert texts[0] == texts[1]

    drive(steps())


def test_older_answers_are_said_to_be_unmeasured() -> None:
    async def steps() -> None:
        async with chatting(notices=True) as chat:
            await chat.ready()
            await chat.ask("one")
            await chat.pilot.press("f3", "f3")
            await chat.until(lambda: "measured from the next answer on" in " ".join(chat.shown.split()))

    drive(steps())


def test_a_reopened_chat_shows_how_full_its_context_is() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            await chat.ask("one " * 40)
            await chat.ask("two")
            used = chat.screen.flow.context_used
            record = chat.screen.dialogue.record.conversation
            assert record is not None
            assert used > 80
            await chat.pilot.press("ctrl+n")
            assert chat.screen.flow.context_used == 0
            resume(chat.screen, record.id)
            await chat.until(lambda: chat.screen.flow.context_used > 0)
            # The token that ends an answer is not read before the next question, and the next answer is opened.
            assert chat.screen.flow.context_used == pytest.approx(used, abs=12)

    drive(steps())
