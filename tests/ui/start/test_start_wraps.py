"""No line of the start screen, of its dialogs or of the opening screen ends inside a word that fits on the next."""

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from cut_words import LONG, TEXT, cut, missing
from pictures import SIZES
from rich.cells import cell_len
from ui_chat import drive, own_folders

from app.catalog.recommended.offers import Offers, read_offers
from app.ui.chat.help import ManualScreen
from app.ui.chat.opening import OpeningApp, OpeningScreen
from app.ui.start.app import StartApp
from app.ui.start.fetch_screen import FetchScreen
from app.ui.start.rows import Row, Section, model_row, offer_section
from app.ui.start.start_screen import StartScreen

WHOLE = (600, 300)
"""A size at which nothing is wrapped."""
_FREE = 6 << 30
_ONE = next(one for one in read_offers().models if one.draft)
assert _ONE.draft is not None
OFFER = replace(_ONE, title=f"A model of {LONG}", licence="a licence with the number 1,234,567.89 and a long name")
DRAFTED = replace(OFFER, repo=f"user/{LONG}-GGUF", draft=replace(_ONE.draft, title=f"日本語 の 模型 {LONG}"))
TITLES = (
    "日本語の質問をしてもいいですか 🙂 and 1,234,567.89 tokens of a title that is wrapped on most of the screens",
    "Größenordnungsmäßig übereinstimmende Überschriften 👩‍👩‍👧 und identifiers_like_this_one in einem langen Titel",
    LONG,
)
SECTIONS = [
    Section(
        "Continue",
        tuple(Row(title, title, (f"2026-11-26 18:02 · 1,234 messages · {LONG}",)) for title in TITLES),
    ),
    Section(
        "On this machine",
        (
            model_row(
                f"/models/{LONG}.gguf",
                (
                    "1.78B · Q4_K_M · 1.04 GiB · infill · thinks · needs 12.1 GiB of memory, 5.9 GiB are free",
                    "drafter 模型 630M Q4_0: 1.02 to 1.88 times as fast (predicted 👍 for this machine)",
                ),
                ("run", LONG),
            ),
            model_row("starter", ("135M · Q4_1 · 94 MiB · fits in memory", "copies drafts from the text"), ("run",)),
        ),
    ),
    offer_section(
        Offers(date(2026, 11, 27), (OFFER, DRAFTED)), (OFFER, DRAFTED), _FREE, "no network: LOCALSPEC_OFFLINE=1"
    ),
]
Scene = Callable[[Any], Awaitable[str]]
"""Does something on a start screen, and returns the text that is to be seen whole at each size; "" for none."""


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own_folders(monkeypatch, tmp_path)
    for name in ("LOCALSPEC_OFFLINE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("app.ui.start.start_screen.search", lambda show, _: show(SECTIONS, True))


def shown(app: Any) -> str:
    return "\n".join(line.text.rstrip() for line in app.screen._compositor.render_strips())


async def until(pilot: Any, condition: Callable[[], object]) -> None:
    for _ in range(1500):
        await pilot.pause(0.02)
        if condition():
            return
    raise AssertionError(f"waited in vain: {shown(pilot.app)}")


async def offered(_: Any) -> str:
    return ""


async def narrowed(pilot: Any) -> str:
    await pilot.press(*"model")
    return ""


async def asked(pilot: Any) -> str:
    pilot.app.push_screen(FetchScreen(DRAFTED))
    await until(pilot, lambda: "Enter fetches" in shown(pilot.app))
    return f"{DRAFTED.title} {DRAFTED.licence}"


async def offline(pilot: Any) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCALSPEC_OFFLINE", "1")
        pilot.app.push_screen(FetchScreen(OFFER))
        await until(pilot, lambda: "Nothing can be fetched" in shown(pilot.app))
    return "Nothing can be fetched now"


async def fetched(pilot: Any) -> str:
    await asked(pilot)
    screen = pilot.app.screen
    screen.post_message(FetchScreen.Told(f"model   user/{LONG}:Q4_K_M (the usual choice of those that fit, 👍 日本語)"))
    screen.post_message(FetchScreen.Told(f" 37 %  0.4 GiB of 1.0 GiB  12.1 MiB/s  0:54 left  {LONG}", is_progress=True))
    await pilot.pause()
    return ""


async def failed(pilot: Any) -> str:
    await asked(pilot)
    problem = (
        f"The file {LONG} could not be fetched: 1,234,567.89 bytes came.\n日本語 の 文章 🙂\nFree some of the disk."
    )
    pilot.app.screen.post_message(FetchScreen.Over(problem=problem))
    await pilot.pause()
    return "Free some of the disk. Enter tries again"


async def manual(pilot: Any) -> str:
    await pilot.press("f1")
    await until(pilot, lambda: isinstance(pilot.app.screen, ManualScreen))
    return ""


SCENES: Mapping[str, Scene] = {
    scene.__name__: scene for scene in (offered, narrowed, asked, offline, fetched, failed, manual)
}


async def at_each_size(pilot: Any, scene: Scene) -> None:
    """Check the screen of a scene at each size against what it is where nothing is wrapped."""
    needed = await scene(pilot)
    await pilot.pause()
    whole = {*shown(pilot.app).split()} | {*TEXT.split()}
    for size in SIZES:
        await pilot.resize_terminal(*size)
        await pilot.pause(0.1)
        lines = shown(pilot.app).splitlines()
        assert [*cut(lines, whole)] == [], (scene.__name__, size)
        assert max(map(cell_len, lines)) <= size[0]
        assert missing(lines, needed) == [], (scene.__name__, size)


@pytest.mark.parametrize("name", SCENES)
def test_no_line_ends_inside_a_word(name: str) -> None:
    async def steps() -> None:
        app = StartApp("dark")
        app.animation_level = "none"
        async with app.run_test(size=WHOLE) as pilot:
            await until(pilot, lambda: isinstance(app.screen, StartScreen) and app.screen._sections)
            await at_each_size(pilot, SCENES[name])

    drive(steps())


@asynccontextmanager
async def opening(model: str) -> AsyncIterator[Any]:
    """Show the opening screen of a chat with a model, and no more."""
    gate = threading.Event()

    def read() -> Any:
        gate.wait(120)
        raise RuntimeError("the test is over")

    app = OpeningApp(model, "dark", read)
    async with app.run_test(size=WHOLE) as pilot:
        await until(pilot, lambda: isinstance(app.screen, OpeningScreen))
        try:
            yield pilot
        finally:
            gate.set()
            await until(pilot, lambda: not app.is_running)


@pytest.mark.parametrize(
    "model", ["starter", f"/models/{LONG}.gguf", "/models/日本語 の 模型 with 👩‍👩‍👧 and a long name.gguf"]
)
def test_no_line_of_the_opening_screen_ends_inside_a_word(model: str) -> None:
    async def said(_: Any) -> str:
        return "You can type already: a message is sent when the model is ready."

    async def steps() -> None:
        async with opening(model) as pilot:
            await at_each_size(pilot, said)

    drive(steps())
