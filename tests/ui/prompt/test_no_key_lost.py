"""No typed character is lost, whatever the chat does meanwhile: it is in the prompt, in a message, or in a command."""

import asyncio
import random
import string
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual import events
from ui_chat import Chat, chatting, drive, own_folders, slowly

from app.ui.chat.conversation_screen import MESSAGE_SELECTED

PAUSES = [0, 0.02, 0.2]
"""Seconds behind a word."""


@pytest.fixture(autouse=True)
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own_folders(monkeypatch, tmp_path)


def key(chat: Chat, name: str) -> None:
    chat.app.post_message(events.Key(name, name if len(name) == 1 else None))


def letters(text: str) -> Counter[str]:
    return Counter(letter for letter in text if not letter.isspace())


def found(chat: Chat) -> Counter[str]:
    """Return the letters in the prompt, and in what was sent."""
    entries = chat.screen.dialogue.record.entries.values()
    waiting = chat.screen.waiting.message.typed if chat.screen.waiting else ""
    sent = [entry.as_typed for entry in entries if entry.role == "user"]
    return letters(chat.screen.prompt.full_text + waiting + "".join(sent))


def moments(pick: random.Random, count: int) -> Iterator[tuple[str, float]]:
    """Yield keys and pauses: words, line ends, Escapes, and looks at the messages."""
    alphabet = string.ascii_letters + string.digits + "äß日"
    for _ in range(count):
        for letter in pick.choices(alphabet, k=pick.randrange(1, 6)):
            yield letter, pick.choice([0, 0, 0, 0.01])
        yield (
            pick.choice(["enter", "enter", "escape", "escape", "ctrl+j", "tab", "shift+tab"]),
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
        typed = await press_at_random(chat, seed, count)
        await chat.ready()
        await chat.pilot.pause()
        assert not typed - found(chat), f"lost with seed {seed}"


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
            await chat.pilot.press("escape")
            monkeypatch.setattr("app.ui.chat.app.meet_typing", lambda *_: None)
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
            await chat.pilot.press("escape", "up")
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
            await chat.pilot.press("escape", "up")
            chat.app.post_message(events.Paste("two\nlines"))
            await chat.until(lambda: chat.screen.prompt.text == "two\nlines")

    drive(steps())
