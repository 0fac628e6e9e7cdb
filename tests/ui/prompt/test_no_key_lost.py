"""No typed character is lost, whatever the chat does meanwhile: it is in the prompt, in a message, or in a command."""

import asyncio
import random
import string
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual import events
from textual.widgets import Static
from ui_chat import Chat, chatting, drive, gated, own_folders, slowly

from app.ui.chat.app import ChatApp
from app.ui.chat.chat_screen import ChatScreen
from app.ui.chat.conversation_screen import EDITING, MESSAGE_SELECTED
from app.ui.chat.help import HelpScreen
from app.ui.dialogs.sheet import SheetScreen
from app.ui.prompt.prompt_area import PromptArea

PAUSES = [0, 0.02, 0.2]
"""Seconds behind a word."""
KEYS = [
    "enter", "enter", "enter", "escape", "escape", "escape", "ctrl+j", "tab", "shift+tab", "pageup", "end", "home",
    "f1", "f2", "f3", "f5", "f6", "f9", "up", "down", "alt+left", "ctrl+up",
]  # fmt: skip
"""Keys behind a word."""


@pytest.fixture(autouse=True)
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own_folders(monkeypatch, tmp_path)


def key(chat: Chat, name: str) -> None:
    chat.app.post_message(events.Key(name, name if len(name) == 1 else None))


def letters(text: str) -> Counter[str]:
    return Counter(letter for letter in text if not letter.isspace())


def found(chat: Chat) -> Counter[str]:
    """Return the letters in the prompt, in what was sent, and in what Up brings into the prompt."""
    entries = chat.screen.dialogue.record.entries.values()
    waiting = chat.screen.waiting.message.typed if chat.screen.waiting else ""
    sent = [entry.as_typed for entry in entries if entry.role == "user"]
    history = chat.screen.prompt.history
    aside = [*history._aside, *history._edited.values()]
    return letters(chat.screen.prompt.full_text + waiting + "".join([*sent, *aside]))


def watch_taken(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the letters that come while the screen says that it takes keys: a selected message, or another screen."""
    taken: Counter[str] = Counter()
    on_event = ChatApp.on_event

    async def watched(app: ChatApp, event: events.Event) -> None:
        if isinstance(event, events.Key) and event.is_printable and not event.is_forwarded:
            screen = app.screen
            if isinstance(screen, ChatScreen):
                bound = screen.active_bindings.get(event.key)
                takes = screen.message_selected and bound is not None and bound.node is screen.transcript
            else:
                takes = not isinstance(screen, SheetScreen)
                assert any("Escape" in str(label.render()) for label in screen.query(Static)), type(screen)
            taken.update(letters(event.character or "") if takes else [])
        await on_event(app, event)

    monkeypatch.setattr(ChatApp, "on_event", watched)
    return taken


def moments(pick: random.Random, count: int) -> Iterator[tuple[str, float]]:
    """Yield keys and pauses: words, line ends, Escapes, and looks at the messages."""
    alphabet = string.ascii_letters + string.digits + "äß日"
    for _ in range(count):
        for letter in pick.choices(alphabet, k=pick.randrange(1, 6)):
            yield letter, pick.choice([0, 0, 0, 0.01])
        yield (
            pick.choice(KEYS),
            pick.choice([0, 0.02, 0.2]),
        )


async def press_at_random(chat: Chat, seed: int, count: int) -> Counter[str]:
    typed: Counter[str] = Counter()
    for name, pause in moments(random.Random(seed), count):
        key(chat, name)
        typed += letters(name) if len(name) == 1 else Counter()
        if pause:
            await asyncio.sleep(pause)
    return typed


async def check(monkeypatch: pytest.MonkeyPatch, seed: int, count: int) -> None:
    async with chatting(predict=6 + seed % 5 * 10, moment=0.8 * (seed % 2)) as chat:
        slowly(monkeypatch, 0.003)
        if seed % 3:
            await chat.ready()
        taken = watch_taken(monkeypatch)
        typed = await press_at_random(chat, seed, count)
        await chat.pilot.press("escape", "escape", "escape")
        await chat.ready()
        await chat.pilot.pause()
        assert not typed - found(chat) - taken, f"lost with seed {seed}"


@pytest.mark.parametrize("seed", range(4))
def test_random_keys_at_random_moments_are_all_there(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    drive(check(monkeypatch, seed, 25))


@pytest.mark.hostile
def test_random_keys_at_random_moments_are_all_there_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(4, 64):
        drive(check(monkeypatch, seed, 40))
    print("60 chats of 40 words at random moments: no character lost")


def test_a_chat_that_gives_letters_to_the_messages_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            await chat.ask("abc")
            await chat.pilot.press("tab")
            monkeypatch.setattr("app.ui.prompt.typed_text.meet_typing", lambda *_: None)
            await chat.pilot.press(*"quoted")
            assert letters("quoted") - found(chat)

    drive(steps())


def test_escape_right_behind_an_answer_does_nothing() -> None:
    async def steps() -> None:
        async with chatting(predict=4, moment=60) as chat:
            await chat.ready()
            await chat.ask("abc")
            await chat.pilot.press("escape", *"enjoy")
            assert (chat.screen.prompt.text, chat.screen.prompt.has_focus_within) == ("enjoy", True)

    drive(steps())


def test_letters_are_typed_until_a_message_is_selected_and_then_the_screen_says_so() -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            await chat.ask("abc")
            await chat.pilot.press("escape", *"next")
            assert chat.screen.prompt.text == "next"
            await chat.pilot.press("tab")
            await chat.until(lambda: MESSAGE_SELECTED in chat.shown)
            await chat.pilot.press("y")
            assert (chat.screen.prompt.text, chat.app.clipboard) == ("next", chat.messages[-1])
            await chat.pilot.press("w", "y")
            await chat.until(lambda: chat.screen.prompt.text == "nextwy")
            assert MESSAGE_SELECTED not in chat.shown

    drive(steps())


def test_lines_that_come_one_by_one_while_an_answer_runs_stay_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps() -> None:
        async with chatting(predict=1500) as chat:
            await chat.ready()
            slowly(monkeypatch, 0.01)
            for name in [*"one", "enter", *"two", "enter", *"three", "enter"]:
                key(chat, name)
            await chat.until(lambda: len(chat.messages) == 2 and chat.screen.prompt.text == "two\nthree")
            assert chat.messages[0] == "one"
            await chat.pilot.press("escape")
            await chat.until(lambda: not chat.screen.busy)

    drive(steps())


def test_what_is_pasted_over_the_messages_is_in_the_prompt() -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            await chat.ask("abc")
            await chat.pilot.press("tab")
            chat.app.post_message(events.Paste("two\nlines"))
            await chat.until(lambda: chat.screen.prompt.text == "two\nlines")

    drive(steps())


# --- one rule for each key --------------------------------------------------------------------------------------------


def test_escape_stops_then_clears_the_selection_and_then_does_nothing() -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            await chat.ask("abc")
            await chat.pilot.press("tab")
            assert chat.screen.message_selected
            for _ in range(3):
                await chat.pilot.press("escape")
                assert chat.screen.prompt.has_focus_within
                assert chat.screen.transcript.selected is None
            await chat.pilot.press(*"typed")
            assert chat.screen.prompt.text == "typed"

    drive(steps())


@pytest.mark.parametrize("before", ["", "not yet sent"])
def test_escape_cancels_an_edit_and_brings_back_what_was_typed_before(before: str) -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            await chat.ask("abc")
            chat.screen.prompt.set_text(before)
            await chat.pilot.press("f6", *"def")
            await chat.until(lambda: EDITING in chat.shown)
            await chat.pilot.press("escape")
            await chat.until(lambda: EDITING not in chat.shown)
            assert chat.screen.prompt.text == before
            assert not letters("def") - found(chat), "Up leads to the edited text"
            await chat.ask("another")
            assert chat.messages[0] == "abc"

    drive(steps())


def test_ctrl_c_clears_a_typed_text_during_the_first_load_and_up_brings_it_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = gated(monkeypatch)

    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.pilot.press(*"abc", "ctrl+c")
            assert (chat.screen.prompt.text, chat.app.return_code) == ("", None)
            await chat.pilot.press("up")
            assert chat.screen.prompt.text == "abc"
            gate.set()
            await chat.ready()

    drive(steps())


def test_page_keys_scroll_from_the_prompt_and_home_and_end_when_it_is_empty() -> None:
    async def steps() -> None:
        async with chatting(predict=200) as chat:
            await chat.ready()
            await chat.ask("word " * 400)
            view = chat.screen.transcript
            bottom = view.scroll_offset.y
            assert bottom > 10
            await chat.pilot.press("pageup")
            assert view.scroll_offset.y < bottom
            await chat.pilot.press("home")
            assert view.scroll_offset.y == 0
            await chat.until(lambda: "more below" in chat.shown)
            await chat.pilot.press("end")
            assert view.scroll_offset.y == view.max_scroll_y
            await chat.until(lambda: "more below" not in chat.shown)
            await chat.pilot.press(*"ab", "home", *"x")
            assert chat.screen.prompt.text == "xab", "with a text they move the cursor"
            await chat.pilot.press("ctrl+home")
            assert view.scroll_offset.y == 0
            await chat.pilot.press("pagedown", "ctrl+end")
            assert view.scroll_offset.y == view.max_scroll_y
            assert chat.screen.prompt.has_focus_within

    drive(steps())


def test_no_key_of_the_chat_selects_text_that_the_next_letter_would_replace() -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            chat.screen.prompt.set_text("typed before")
            area = chat.screen.query_one(PromptArea)
            for name in ("f6", "f7"):
                area.post_message(events.Key(name, None))
            await chat.pilot.pause()
            area.post_message(events.Key("x", "x"))
            await chat.until(lambda: chat.screen.prompt.text == "typed beforex")

    drive(steps())


def test_no_screen_opens_twice() -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            await chat.ask("abc")
            chat.screen.prompt.set_text("/help")
            chat.app.post_message(events.Key("enter", None))
            chat.app.post_message(events.Key("f1", None))
            await chat.until(lambda: isinstance(chat.app.screen, HelpScreen))
            await chat.pilot.pause()
            await chat.pilot.pause()
            assert sum(isinstance(screen, HelpScreen) for screen in chat.app.screen_stack) <= 1

    drive(steps())


def test_letters_close_a_sheet_and_go_to_the_prompt() -> None:
    async def steps() -> None:
        async with chatting(predict=4) as chat:
            await chat.ready()
            await chat.ask("abc")
            await chat.type("/stats")
            await chat.until(lambda: isinstance(chat.app.screen, SheetScreen))
            await chat.pilot.press(*"and now")
            assert (chat.app.screen, chat.screen.prompt.text) == (chat.screen, "and now")

    drive(steps())
