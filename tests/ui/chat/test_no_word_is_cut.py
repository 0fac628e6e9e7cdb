"""No line of a screen ends inside a word or a number that fits on the next: every screen, at every size.

Each scene is drawn on a very wide screen first: the words there are whole. At each size two pieces at the end of a line
and the beginning of the next may not be one of them.
"""

from collections.abc import Awaitable, Callable, Mapping

import pytest
from cut_words import LONG, TEXT, cut
from pictures import SIZES
from rich.cells import cell_len
from ui_chat import Chat, chatting, drive, within_run

from app.ui.dialogs.choices import Choice
from app.ui.dialogs.sessions import SessionScreen
from app.ui.dialogs.settings import SettingScreen, SettingsScreen
from app.ui.dialogs.sheet import SheetScreen
from app.ui.panel.replay import ReplayScreen

pytestmark = pytest.mark.usefixtures("folders")
WHOLE = (600, 300)
"""A size at which nothing is wrapped."""


async def _command(chat: Chat, command: str) -> None:
    await chat.type(command)
    await chat.until(lambda: isinstance(chat.app.screen, SheetScreen))
    await chat.pilot.pause()


async def messages(chat: Chat) -> None:
    record = chat.screen.dialogue.record
    key = record.branch()[-1].id
    chat.screen.transcript.append(key, "\n\n" + TEXT)
    chat.screen.transcript.finish(key, f"12 tokens · 44.7 tokens/s · {LONG} 5/10 accepted")
    chat.screen.note("A note of the program with a number of 1,234,567 tokens that is wrapped somewhere on its way.")


async def settings(chat: Chat) -> None:
    await chat.type("/set")
    await chat.type("/strict")


async def keys_and_commands(chat: Chat) -> None:
    await chat.pilot.press("f1")


async def page(chat: Chat) -> None:
    await chat.type("/help drafting")


async def figures(chat: Chat) -> None:
    await _command(chat, "/stats")


async def costs(chat: Chat) -> None:
    await _command(chat, "/spec")


async def verified(chat: Chat) -> None:
    await _command(chat, "/explain")


async def models(chat: Chat) -> None:
    await chat.pilot.press("f8")
    await chat.until(lambda: "mistral" in chat.shown)


async def drafters(chat: Chat) -> None:
    await chat.pilot.press("f9")
    await chat.until(lambda: "lookup" in chat.shown)


async def conversations(chat: Chat) -> None:
    await chat.pilot.press("f7")
    await chat.until(lambda: isinstance(chat.app.screen, SessionScreen))


async def replayed(chat: Chat) -> None:
    await chat.pilot.press("f4")
    await chat.until(lambda: isinstance(chat.app.screen, ReplayScreen))


async def confidence(chat: Chat) -> None:
    await chat.pilot.press("f3", "f3")


async def all_settings(chat: Chat) -> None:
    await chat.type("/settings")
    await chat.until(lambda: isinstance(chat.app.screen, SettingsScreen))


async def one_setting(chat: Chat) -> None:
    await all_settings(chat)
    await chat.pilot.press(*"near-ties", "enter")
    await chat.until(lambda: isinstance(chat.app.screen, SettingScreen))


async def panel(chat: Chat) -> None:
    await chat.pilot.press("f2", "f2")


SCENES: Mapping[str, Callable[[Chat], Awaitable[None]]] = {
    scene.__name__: scene
    for scene in (
        messages, settings, keys_and_commands, page, figures, costs, verified, models, drafters, conversations,
        replayed, confidence, all_settings, one_setting,
    )
}  # fmt: skip


@pytest.fixture(autouse=True)
def choices(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        Choice(f"/models/{LONG}.gguf", "qwen2, 1.5B, Q4_K_M, 1.1 GB", "may not fit in the memory that is free now"),
        Choice("mistral", "", "mistral.gguf is cut short: the file has 1,214,365,696 bytes.", usable=False),
    ]
    monkeypatch.setattr("app.ui.dialogs.pickers.model_choices", lambda *_: found)


@pytest.mark.parametrize("scene", SCENES)
def test_no_line_ends_inside_a_word(scene: str) -> None:
    async def steps() -> None:
        # Whether an adaptive controller drafts depends on the time that passes take.
        async with chatting(size=WHOLE, predict=40, no_adapt=True, draft_max=3) as chat:
            await chat.ready()
            await chat.ask("one two three one two three one two")
            await SCENES[scene](chat)
            await chat.pilot.pause()
            whole = {*chat.shown.split()} | {*TEXT.split()}
            for size in SIZES:
                await chat.pilot.resize_terminal(*size)
                await chat.pilot.pause(0.1)
                lines = chat.shown.splitlines()
                assert [*cut(lines, whole)] == [], (scene, size)
                assert max(map(cell_len, lines)) <= size[0]

    with within_run():
        drive(steps())


@pytest.mark.parametrize(("size", "left"), [((60, 20), 0), ((120, 36), 8), ((200, 50), 48)])
def test_text_is_at_most_100_columns_wide_and_in_the_middle(size: tuple[int, int], left: int) -> None:
    async def steps() -> None:
        async with chatting(size=size, predict=4) as chat:
            await chat.ready()
            await chat.ask("word " * 60)
            lines = [line for line in chat.shown.splitlines() if "┃" in line]
            assert {line.index("┃") for line in lines} == {left + 1}
            assert max(len(line.strip()) for line in lines) <= 102
            assert len(lines) == -(-60 * 5 // min(100, size[0] - 4 - 1))

    drive(steps())


def test_a_word_that_is_cut_is_found() -> None:
    assert [*cut(["a line that ends in tok", "ens and goes on", "x" * 60], {"tokens", "in"})] == ["tokens"]
