"""The start screen: what it offers, how it is narrowed, and what opens."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hub_server import HubState
from pulling import REPO, hub_with_models
from raw_gguf import write_raw
from run_localspec import ROOT
from saved import talk
from textual.pilot import Pilot
from textual.widgets import Input, OptionList
from ui_chat import drive, own_folders

from app.catalog.recommended.offers import DraftOffer, Offer, read_offers
from app.history.store import Store
from app.shell.paths import conversations_file
from app.ui.start import fetch_screen
from app.ui.start.app import StartApp
from app.ui.start.fetch_screen import FetchScreen
from app.ui.start.inventory import search
from app.ui.start.rows import Section, offer_section
from app.ui.start.start_screen import StartScreen


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a model in a folder, a saved conversation, and the starter."""
    own_folders(monkeypatch, tmp_path)
    for name in ("HF_HOME", "HF_HUB_CACHE", "OLLAMA_MODELS", "LLAMA_CACHE", "LOCALSPEC_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    models = tmp_path / "models"
    models.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOCALSPEC_MODELS", str(models))
    write_raw(models / "big.gguf", {"general.architecture": "llama"})
    with closing(Store(conversations_file())) as store:
        head, *entries = talk(1, "A name for a sailing boat", "Second Guess")
        store.write([replace(head, title="A name for a sailing boat"), *entries])


@asynccontextmanager
async def starting(size: tuple[int, int] = (100, 40)) -> AsyncIterator[Pilot[Any]]:
    app = StartApp("dark")
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: isinstance(app.screen, StartScreen) and "Reading" not in note(app))
        yield pilot


async def until(pilot: Pilot[Any], condition: Any) -> None:
    for _ in range(1500):
        await pilot.pause(0.02)
        if condition():
            return
    raise AssertionError(f"waited in vain: {shown(pilot.app)}")


def note(app: Any) -> str:
    return str(app.screen.query_one("#note").render()) if app.screen.query("#note") else "Reading"


def shown(app: Any) -> str:
    return "\n".join(line.text.rstrip() for line in app.screen._compositor.render_strips())


def highlighted(app: Any) -> str:
    listed = app.screen.query_one(OptionList)
    return str(listed.get_option_at_index(listed.highlighted).id)


def test_conversations_models_and_offers_are_listed_with_what_they_are() -> None:
    async def steps() -> None:
        async with starting((120, 80)) as pilot:
            text = " ".join(shown(pilot.app).split())
            for words in (
                "Continue A name for a sailing boat", "2 messages", "On this machine", "big", "fits in memory",
                "starter", "for a first look", f"Get a model (list of {read_offers().made})", "Apache-2.0",
                "drafter Qwen3 0.6B",
            ):  # fmt: skip
                assert words in text, words

    drive(steps())


def test_what_is_typed_narrows_the_list_and_enter_opens_what_is_highlighted() -> None:
    async def steps() -> None:
        async with starting() as pilot:
            await pilot.press(*"big fits")
            assert highlighted(pilot.app) == next(key for key in rows(pilot.app) if key.endswith("big.gguf"))
            await pilot.press("enter")
            await pilot.pause()
        arguments = pilot.app.return_value
        assert arguments is not None
        assert (arguments[0], Path(arguments[1]).name) == ("run", "big.gguf")

    drive(steps())


def rows(app: Any) -> list[str]:
    return [str(option.id) for option in app.screen.query_one(OptionList).options if option.id]


def test_a_conversation_is_continued_by_its_id() -> None:
    async def steps() -> None:
        async with starting() as pilot:
            await pilot.press(*"sailing", "enter")
            await pilot.pause()
        with closing(Store(conversations_file())) as store:
            assert pilot.app.return_value == ("run", "--resume", store.find().id)

    drive(steps())


def test_letters_arrows_and_escape_keep_to_one_rule() -> None:
    async def steps() -> None:
        async with starting((80, 24)) as pilot:
            first = highlighted(pilot.app)
            await pilot.press("pagedown", "down", *"x", "pageup", "up")
            assert pilot.app.screen.query_one(Input).value == "x"
            await pilot.press("escape")
            assert pilot.app.screen.query_one(Input).value == ""
            assert highlighted(pilot.app) == first
            await pilot.press("escape", "ctrl+c")
        assert (pilot.app.return_value, pilot.app.return_code) == (None, 0)

    drive(steps())


def test_nothing_that_matches_opens_nothing() -> None:
    async def steps() -> None:
        async with starting() as pilot:
            await pilot.press(*"no such thing", "enter", "down", "pageup")
            await pilot.pause()
            assert isinstance(pilot.app.screen, StartScreen)
            assert rows(pilot.app) == []

    drive(steps())


def test_the_search_ends_when_the_screen_is_left() -> None:
    calls: list[Sequence[Section]] = []
    stopped = threading.Event()
    stopped.set()
    search(lambda sections, _: calls.append(sections), stopped)
    assert [section.title.partition(" (")[0] for section in calls[-1]] == ["Continue", "On this machine", "Get a model"]


# --- fetching ---------------------------------------------------------------------------------------------------------


def an_offer(draft: DraftOffer | None = None) -> Offer:
    return Offer("A small model", REPO, "chat", 2_000_000, "MIT", draft)


async def fetching(pilot: Pilot[Any]) -> FetchScreen:
    screen = FetchScreen(an_offer())
    pilot.app.push_screen(screen, pilot.app._fetched)
    await pilot.pause()
    return screen


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Any:
    with hub_with_models(monkeypatch) as state:
        yield state


@pytest.mark.usefixtures("hub")
def test_a_model_is_fetched_in_the_screen_and_opened(tmp_path: Path) -> None:
    async def steps() -> None:
        async with starting() as pilot:
            await fetching(pilot)
            assert "Enter fetches 2 MiB" in shown(pilot.app)
            await pilot.press("enter")
            await until(pilot, lambda: "Ready." in shown(pilot.app))
            assert "size    2 MiB" in shown(pilot.app)
            await pilot.press("enter")
            await pilot.pause()
        assert pilot.app.return_value == ("run", f"{REPO}:Q4_K_M")

    drive(steps())
    assert [path.name for path in tmp_path.rglob("snapshots/*/*.gguf")] == ["m-Q4_K_M.gguf"]


@pytest.mark.usefixtures("hub")
def test_a_repository_that_is_not_there_is_an_error_that_says_what_to_do() -> None:
    async def steps() -> None:
        async with starting() as pilot:
            screen = FetchScreen(Offer("A small model", "user/none", "chat", 1, "MIT", None))
            pilot.app.push_screen(screen, pilot.app._fetched)
            await pilot.press("enter")
            await until(pilot, lambda: "tries again" in shown(pilot.app))
            assert "user/none" in shown(pilot.app)
            await pilot.press("escape")
            await pilot.pause()
            assert isinstance(pilot.app.screen, StartScreen)

    drive(steps())


@pytest.mark.usefixtures("hub")
def test_escape_stops_a_download_and_enter_resumes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = threading.Event()
    pause = fetch_screen._pause

    def held(stop: threading.Event, seconds: float) -> None:
        if not waits.is_set():
            assert stop.wait(60)
        pause(stop, seconds)

    monkeypatch.setattr(fetch_screen, "_pause", held)

    async def steps() -> None:
        async with starting() as pilot:
            await fetching(pilot)
            await pilot.press("enter")
            await pilot.pause()
            assert "Escape stops" in shown(pilot.app)
            await pilot.press("escape")
            await until(pilot, lambda: "Stopped" in shown(pilot.app))
            waits.set()
            await pilot.press("enter")
            await until(pilot, lambda: "Ready." in shown(pilot.app))

    drive(steps())


@pytest.mark.parametrize("name", ["LOCALSPEC_OFFLINE", "HF_HUB_OFFLINE"])
def test_offline_it_says_so_and_asks_nothing(hub: HubState, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "1")

    async def steps() -> None:
        async with starting((120, 60)) as pilot:
            assert f"Get a model (offline: {name} is set)" in shown(pilot.app)
            await fetching(pilot)
            await pilot.press("enter")
            await pilot.pause()
            assert f"offline: {name} is set" in shown(pilot.app)
            await pilot.press("escape")

    drive(steps())
    assert hub.requests == []


def test_an_offer_that_does_not_fit_says_what_it_needs() -> None:
    offers = read_offers()
    section = offer_section(offers, offers.by_memory(0), 0, "")
    assert all("needs" in row.details[0] and "0 MiB are free" in row.details[0] for row in section.rows)


def test_the_first_picture_waits_for_nothing_heavy() -> None:
    code = (
        "import sys, app.command_line.cli, app.command_line.start, app.ui.start.app; "
        "print(*{'numpy', 'llama_cpp', 'huggingface_hub', 'jinja2', 'sqlite3', 'pygments'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_escape_and_leaving_end_a_running_program() -> None:
    async def steps() -> None:
        async with starting() as pilot:
            await pilot.press("ctrl+q")
        assert pilot.app.return_value is None

    asyncio.run(steps())
