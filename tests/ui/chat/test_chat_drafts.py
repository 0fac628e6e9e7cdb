"""What is typed and not sent, and earlier messages that are edited: nothing is lost, and each goes to its own place."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from saved import talk
from ui_chat import Chat, chatting, drive, gated, own_folders, request, silent_until_stopped

from app.history.store import Store
from app.shell.paths import conversations_file, prompts_file
from app.ui.prompt.prompt_area import PromptArea


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own_folders(monkeypatch, tmp_path)


def unanswered() -> None:
    """Save a conversation whose last message has no answer."""
    with closing(Store(conversations_file())) as store:
        store.write(talk(1, "hi", "hello", "and now"))


async def edited(chat: Chat, key: str = "f6") -> None:
    """Let the user edit the last message."""
    await chat.pilot.press(key)
    await chat.until(lambda: "editing" in chat.shown)


def test_what_was_typed_is_above_the_message_that_is_edited() -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            await chat.ask("abc")
            chat.screen.prompt.set_text("a draft")
            await edited(chat)
            assert chat.screen.prompt.text == "abc"
            await chat.pilot.press("up")
            await chat.until(lambda: "editing" not in chat.shown)
            assert chat.screen.prompt.text == "a draft"
            await chat.pilot.press("down")
            await chat.until(lambda: "editing" in chat.shown)
            assert chat.screen.prompt.text == "abc"
            await chat.pilot.press("up", "enter")
            await chat.until(lambda: len(chat.messages) == 4 and not chat.screen.busy)
            assert [chat.messages[0], chat.messages[2]] == ["abc", "a draft"], "it took no other's place"
            assert chat.screen.editing is None

    drive(steps())


def test_what_was_typed_is_above_a_message_that_was_chosen_to_be_edited() -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            await chat.ask("abc")
            chat.screen.prompt.set_text("a draft")
            await chat.pilot.press("tab", "up")
            await edited(chat, "e")
            await chat.pilot.press("up")
            assert chat.screen.prompt.text == "a draft"
            assert "a draft" not in prompts_file().read_text(), "it was not sent"

    drive(steps())


@pytest.mark.parametrize("draft", ["", "a draft"])
def test_a_message_without_an_answer_takes_no_others_place_in_the_prompt(draft: str) -> None:
    unanswered()

    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            chat.screen.prompt.set_text(draft)
            await chat.pilot.press("f7")
            await chat.until(lambda: "title 1" in chat.shown)
            await chat.pilot.press("enter")
            await chat.until(lambda: chat.messages == ["hi", "hello"])
            assert chat.screen.prompt.text == (draft or "and now")
            await chat.pilot.press(*["up"] * bool(draft))
            assert chat.screen.prompt.text == "and now"

    drive(steps())


def test_what_is_typed_while_the_model_loads_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    unanswered()
    gate = gated(monkeypatch)

    async def steps() -> None:
        async with chatting(request(go_on=True)) as chat:
            await chat.pilot.press(*"typed")
            gate.set()
            await chat.ready()
            assert (chat.messages, chat.screen.prompt.text) == (["hi", "hello"], "typed")
            await chat.pilot.press("up")
            assert chat.screen.prompt.text == "and now"

    drive(steps())


def loading(chat: Chat, model: str = "toy") -> None:
    """Begin to load a model."""
    chat.screen.load(replace(chat.screen.request.plan, model=model))


def test_a_message_edited_while_a_model_loads_is_sent_to_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = gated(monkeypatch)

    async def steps() -> None:
        async with chatting(predict=4) as chat:
            gate.set()
            await chat.ready()
            await chat.ask("abc")
            gate.clear()
            loading(chat)
            await edited(chat)
            await chat.pilot.press("d", "enter")
            await chat.until(lambda: "editing" not in chat.shown)
            assert chat.screen.waiting is not None
            gate.set()
            await chat.until(lambda: chat.messages[:1] == ["abcd"] and not chat.screen.busy)
            assert len(chat.messages) == 2

    drive(steps())


def test_a_message_that_waits_takes_not_the_place_of_one_that_is_edited_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = gated(monkeypatch)

    async def steps() -> None:
        async with chatting(predict=4) as chat:
            gate.set()
            await chat.ready()
            await chat.ask("abc")
            gate.clear()
            loading(chat)
            await chat.type("hello")
            await edited(chat)
            gate.set()
            await chat.until(lambda: len(chat.messages) == 4 and not chat.screen.busy)
            assert [chat.messages[0], chat.messages[2]] == ["abc", "hello"]
            await chat.pilot.press("d", "enter")
            await chat.until(lambda: chat.messages[0] == "abcd" and not chat.screen.busy)
            assert len(chat.messages) == 2

    drive(steps())


@pytest.mark.parametrize("draft", ["", "!"])
def test_an_edit_that_waits_for_a_model_that_can_not_be_loaded_is_an_edit_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, draft: str
) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF, but not really")
    gate = gated(monkeypatch)

    async def steps() -> None:
        async with chatting(predict=4) as chat:
            gate.set()
            await chat.ready()
            await chat.ask("abc")
            gate.clear()
            loading(chat, "broken.gguf")
            await edited(chat)
            await chat.pilot.press("d", "enter", *draft)
            assert chat.screen.waiting is not None
            gate.set()
            await chat.until(lambda: not chat.screen.busy)
            assert chat.screen.prompt.text == "\n".join(filter(None, ["abcd", draft]))
            await chat.until(lambda: "editing" in chat.shown)
            await chat.pilot.press("enter")
            await chat.until(lambda: chat.messages[:1] != ["abc"] and not chat.screen.busy)
            assert len(chat.messages) == 2

    drive(steps())


def test_what_waited_in_vain_is_not_mixed_with_a_message_that_is_edited(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF, but not really")
    gate = gated(monkeypatch)

    async def steps() -> None:
        async with chatting(predict=4) as chat:
            gate.set()
            await chat.ready()
            await chat.ask("abc")
            gate.clear()
            loading(chat, "broken.gguf")
            await chat.type("hello")
            await edited(chat)
            gate.set()
            await chat.until(lambda: not chat.screen.busy)
            assert (chat.screen.prompt.text, chat.screen.waiting) == ("abc", None)
            await chat.pilot.press("up")
            assert chat.screen.prompt.text == "hello"

    drive(steps())


async def stopped_before_a_word(chat: Chat) -> None:
    """Send what is in the prompt, and stop the answer before it has begun."""
    await chat.pilot.press("enter")
    await chat.until(lambda: chat.screen.busy)
    await chat.pilot.press("escape")
    await chat.until(lambda: not chat.screen.busy)


def test_an_edit_that_got_no_word_is_an_edit_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            await chat.ask("abc")
            await chat.ask("def")
            with monkeypatch.context() as patched:
                silent_until_stopped(patched)
                await edited(chat)
                await chat.pilot.press("g")
                await stopped_before_a_word(chat)
            assert "No text was generated, so the message is dropped." in chat.notes
            assert (chat.messages[2], chat.screen.prompt.text) == ("def", "defg")
            await chat.until(lambda: "editing" in chat.shown)
            await chat.pilot.press("enter")
            await chat.until(lambda: chat.messages[2:3] == ["defg"] and not chat.screen.busy)
            assert len(chat.messages) == 4

    drive(steps())


def test_a_new_message_that_got_no_word_is_a_new_one_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            await chat.ask("abc")
            with monkeypatch.context() as patched:
                silent_until_stopped(patched)
                chat.screen.prompt.set_text("def")
                await stopped_before_a_word(chat)
            assert (chat.screen.prompt.text, chat.screen.editing) == ("def", None)

    drive(steps())


def test_an_answer_that_was_to_be_another_and_got_no_word_leaves_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            answer = await chat.ask("abc")
            with monkeypatch.context() as patched:
                silent_until_stopped(patched)
                await chat.pilot.press("f5")
                await chat.until(lambda: chat.screen.busy)
                await chat.pilot.press("escape")
                await chat.until(lambda: not chat.screen.busy)
            assert (chat.messages, chat.screen.prompt.text) == (["abc", answer], "")
            assert "No text was generated, so the earlier answer stays." in chat.notes

    drive(steps())


def test_a_look_at_the_messages_does_not_end_an_edit() -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            await chat.ask("abc")
            await edited(chat)
            await chat.pilot.press("tab", "escape", "d", "enter")
            await chat.until(lambda: chat.messages[:1] == ["abcd"] and not chat.screen.busy)
            assert len(chat.messages) == 2

    drive(steps())


def test_ctrl_c_leaves_when_nothing_is_typed_between_the_two() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            await chat.pilot.press("ctrl+c", "a")
            await chat.until(lambda: not chat.screen.leaving)
            await chat.pilot.press("ctrl+c")
            assert (chat.screen.prompt.text, chat.app.return_code) == ("", None), "it clears the prompt first"
            await chat.pilot.press("up")
            assert chat.screen.prompt.text == "a"
            await chat.pilot.press("ctrl+c", "ctrl+c")
            assert chat.app.return_code is None
            await chat.pilot.press("ctrl+c")
            await chat.until(lambda: chat.app.return_value == 130)

    drive(steps())


def test_ctrl_d_leaves_no_draft_from_the_messages_either() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            await chat.ask("abc")
            await chat.pilot.press("a", "tab", "ctrl+d")
            assert chat.screen.transcript.has_focus
            (told,) = chat.app._notifications
            assert "The prompt is not empty" in told.message
            assert (chat.screen.prompt.text, chat.app.return_code) == ("a", None)
            await chat.pilot.press("escape", "backspace", "tab", "ctrl+d")
            await chat.until(lambda: chat.app.return_code == 0)

    drive(steps())


def test_ctrl_c_copies_what_is_selected_in_the_prompt() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            await chat.pilot.press(*"abc", "left", "shift+home", "ctrl+c")
            assert (chat.app.clipboard, chat.screen.leaving) == ("ab", False)
            chat.screen.prompt.query_one(PromptArea).take_paste("line\n" * 40)
            await chat.pilot.press("shift+home", "ctrl+c")
            assert chat.app.clipboard == "line\n" * 40
            await chat.pilot.press("ctrl+c")
            assert chat.screen.prompt.text == "", "what is copied is selected no longer"

    drive(steps())


def test_escape_does_not_stop_the_first_load(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = gated(monkeypatch)

    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.pilot.press(*"abc", "escape", "escape", "d")
            gate.set()
            await chat.ready()
            assert (chat.screen.prompt.text, chat.app.return_code) == ("abcd", None)

    drive(steps())


def test_the_rules_that_a_setting_can_have_are_completed() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            await chat.pilot.press(*"/set acc", "tab", "space", *"re", "tab", "enter")
            await chat.until(lambda: "accept is residual" in chat.notes)
            await chat.type("/set accept")
            await chat.until(lambda: "accept can't be ''." in chat.notes)

    drive(steps())


def test_the_argument_of_a_command_can_begin_on_the_next_line() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            await chat.type("/system\nBe brief.\n\nBe kind.")
            assert chat.screen.dialogue.system == "Be brief.\n\nBe kind."

    drive(steps())


def test_an_unknown_command_is_in_the_prompt_again() -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            await chat.type("/nothing of this\nis lost")
            assert "Unknown command /nothing." in chat.notes
            assert (chat.screen.prompt.text, chat.messages) == ("/nothing of this\nis lost", [])

    drive(steps())


@pytest.mark.parametrize("text", ["// a comment\nint x;", "/* a comment */", "/usr/bin/ls says no"])
def test_code_and_paths_are_said_to_the_model(text: str) -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            await chat.ask(text)
            assert chat.messages[0] == text

    drive(steps())
