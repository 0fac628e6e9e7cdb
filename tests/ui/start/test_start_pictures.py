"""The start screen and its download as pictures that are compared, at four sizes.

`pytest tests/ui/start/test_start_pictures.py --snapshot-update` makes what differs the new picture; look at it before.
"""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pictures import LOOKS, SIZES, Picture, theme_of
from recorded_link import picture, stand_still
from syrupy.assertion import SnapshotAssertion
from ui_chat import drive, own_folders

from app.catalog.recommended.offers import Offers, read_offers
from app.ui.start.app import StartApp
from app.ui.start.fetch_screen import FetchScreen
from app.ui.start.rows import Row, Section, model_row, offer_section
from app.ui.start.start_screen import StartScreen

_FREE = 6 << 30
_LONG = "/models/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
OFFERS = Offers(date(2026, 11, 27), read_offers().models)
SECTIONS = [
    Section(
        "Continue",
        (
            Row("c1", "How do I rotate a list in Python?", ("2026-11-26 18:02 · 6 messages · qwen2.5-coder-1.5b",)),
            Row("c2", "日本語の質問をしてもいいですか 🙂", ("2026-11-25 09:14 · 2 messages · starter",)),
        ),
    ),
    Section(
        "On this machine",
        (
            model_row(
                _LONG,
                (
                    "1.78B · Q4_K_M · 1.04 GiB · infill · fits in memory",
                    "drafter 630M Q4_0: 1.02 to 1.88 times as fast (predicted)",
                ),
                ("run", _LONG),
            ),
            model_row("starter", ("135M · Q4_1 · 94 MiB · fits in memory", "copies drafts from the text"), ("run",)),
        ),
    ),
    offer_section(OFFERS, OFFERS.by_memory(_FREE), _FREE, ""),
]


def test_the_picture_of_the_manual_is_one_that_is_compared() -> None:
    shown = Path(__file__).parents[3] / ".github" / "pictures" / "start.svg"
    compared = Path(__file__).parent / "__snapshots__" / Path(__file__).stem / "test_picture[offered-dark][80x24].svg"
    same = shown.is_file() and shown.read_bytes() == compared.read_bytes()
    assert same, f"the manual shows another picture than the tests; to mend it: cp '{compared}' '{shown}'"


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own_folders(monkeypatch, tmp_path)
    stand_still(monkeypatch)
    for name in ("NO_COLOR", "LOCALSPEC_OFFLINE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("app.ui.start.start_screen.search", lambda show, _: show(SECTIONS, True))


async def offered(_: Any) -> None:
    """Show all of it."""


async def narrowed(pilot: Any) -> None:
    await pilot.press(*"coder")


async def asked(pilot: Any) -> None:
    pilot.app.push_screen(FetchScreen(next(one for one in OFFERS.models if one.draft)))
    await pilot.pause()


async def fetched(pilot: Any) -> None:
    await asked(pilot)
    screen = pilot.app.screen
    for line in (
        "model   user/repo:Q4_K_M (the usual choice, and it fits)",
        "size    1.04 GiB",
        "disk    40 GiB are free",
    ):
        screen.post_message(FetchScreen.Told(line))
    screen.post_message(FetchScreen.Told(" 37 %  0.4 GiB of 1.0 GiB  12.1 MiB/s  0:54 left  m.gguf", is_progress=True))
    await pilot.pause()


SCENES: dict[str, Callable[[Any], Any]] = {scene.__name__: scene for scene in (offered, narrowed, asked, fetched)}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("scene", SCENES)
def test_picture(
    scene: str, look: str, snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pictures = snapshot.use_extension(Picture)
    if look == "no colour":
        monkeypatch.setenv("NO_COLOR", "1")
    drawn: dict[str, str] = {}

    async def steps() -> None:
        app = StartApp(theme_of(look))
        app.animation_level = "none"
        async with app.run_test(size=(100, 30)) as pilot:
            while not isinstance(app.screen, StartScreen) or not app.screen._sections:
                await pilot.pause(0.02)
            await SCENES[scene](pilot)
            for width, height in SIZES:
                await pilot.resize_terminal(width, height)
                await pilot.pause()
                drawn[f"{width}x{height}"] = picture(app)

    drive(steps())
    other = [size for size, svg in drawn.items() if pictures(name=size) != svg]
    for size in other:
        (tmp_path / f"{size}.svg").write_text(drawn[size], encoding="utf-8")
    assert not other, f"{scene}, {look}, looks different at {', '.join(other)}; see {tmp_path}"
