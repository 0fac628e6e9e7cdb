"""The models of a chat on the screen: what is typed while one is loaded, and one in the place of another."""

from dataclasses import replace
from pathlib import Path

import pytest
from ui_chat import chatting, drive, gated, request

from models.errors import ModelFileError

pytestmark = pytest.mark.usefixtures("folders")


def test_what_is_typed_while_the_model_loads_is_asked_when_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = gated(monkeypatch)

    async def steps() -> None:
        async with chatting() as chat:
            await chat.type("abc")
            assert chat.screen.ready is None
            assert "The message is sent when the model is loaded." in chat.notes
            await chat.type("and this")
            assert chat.screen.prompt.text == "and this", "one waits already, and is not lost for it"
            gate.set()
            await chat.until(lambda: len(chat.messages) == 2 and not chat.screen.busy)
            assert chat.messages[0] == "abc"

    drive(steps())


def test_between_the_greeting_and_the_end_of_the_load_a_message_is_asked_as_well() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            # What the screen asks for as soon as it is ready, whose end would count as that of the load.
            await chat.until(lambda: [mail for mail in chat.heard if mail.job == 2 and mail.message is None])
            # The greeting is on the screen, and the message that the load is over is still to come.
            chat.screen.busy = "loading"
            await chat.type("abc")
            assert not chat.messages
            chat.screen.over(chat.screen.load_job)
            await chat.until(lambda: len(chat.messages) == 2 and not chat.screen.busy)
            assert chat.messages[0] == "abc"

    drive(steps())


def test_what_waits_for_a_model_that_can_not_be_loaded_is_in_the_prompt_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF, but not really")
    gate = gated(monkeypatch)

    async def steps() -> None:
        async with chatting() as chat:
            gate.set()
            await chat.ready()
            # A message that comes after the failure would be answered by the model that is still there.
            gate.clear()
            chat.screen.load(replace(chat.screen.request.plan, model=str(broken)))
            await chat.type("abc")
            assert chat.screen.waiting is not None
            gate.set()
            await chat.until(lambda: not chat.screen.busy)
            assert chat.screen.prompt.text == "abc"
            assert (chat.messages, chat.screen.waiting) == ([], None)
            assert (await chat.ask("def")).strip()

    drive(steps())


def test_what_has_to_wait_for_a_load_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = gated(monkeypatch)

    async def steps() -> None:
        async with chatting() as chat:
            first = ["/resume 1", "/new", "/draft off"]
            for line in first:
                await chat.type(line)
            told = [note.message for note in chat.app._notifications]
            assert told == ["The model is still loading. Try again when it is ready."] * len(first)
            gate.set()
            await chat.ready()
            gate.clear()
            chat.screen.load(chat.screen.request.plan)
            await chat.type("/undo")
            assert [*chat.app._notifications][-1].message == "A model or a drafter is loading. Escape cancels it."
            gate.set()
            await chat.ready()

    drive(steps())


def test_a_model_that_can_t_be_loaded_at_the_start_ends_the_chat_with_its_error() -> None:
    async def steps() -> None:
        asked = request()
        gone = replace(asked, plan=replace(asked.plan, model="gone.gguf"))
        async with chatting(gone) as chat:
            await chat.until(lambda: chat.screen.failure is not None)
            assert isinstance(chat.screen.failure, ModelFileError)
            assert chat.app.return_value == 3

    drive(steps())


def test_another_model_takes_over_with_its_own_name() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            await chat.ask("abc")
            await chat.type("/model toy")
            await chat.until(lambda: chat.screen.dialogue.drafter == "lookup" and not chat.screen.busy)
            assert "toy-0: toy, 32 tokens" in chat.notes
            await chat.ask("def")
            assert len(chat.messages) == 4

    drive(steps())


def test_the_drafter_changes_live_and_the_text_stays_the_same() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            first = await chat.ask("abcabc")
            await chat.type("/draft off")
            await chat.until(lambda: chat.screen.dialogue.drafter == "off")
            await chat.pilot.press("ctrl+n")
            assert await chat.ask("abcabc") == first
            assert chat.screen.dialogue.last is not None
            assert chat.screen.dialogue.last.drafter == "off"

    drive(steps())


def test_what_drafting_costs_is_told_of_who_drafts_once_the_load_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = gated(monkeypatch)

    async def steps() -> None:
        async with chatting() as chat:
            await chat.type("/spec")
            gate.set()
            await chat.until(lambda: "Drafter" in chat.shown and "pass cost" in chat.shown)
            assert "Drafter copy" in chat.shown
            assert "Drafter off" not in chat.shown

    drive(steps())
