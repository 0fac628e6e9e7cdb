"""The dialog of settings: what it lists, how it is narrowed, and what a change does."""

import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.widgets import Input, OptionList
from ui_chat import Chat, chatting, drive, within_run

from app.ui.dialogs.settings import SettingScreen, SettingsScreen

pytestmark = pytest.mark.usefixtures("folders")


@asynccontextmanager
async def settings(*flags: str, size: tuple[int, int] = (100, 40)) -> AsyncIterator[Chat]:
    """Open the dialog in a chat that was started with some flags."""
    with within_run(*flags):
        async with chatting(size=size) as chat:
            await chat.ready()
            await chat.type("/settings")
            await chat.until(lambda: isinstance(chat.app.screen, SettingsScreen))
            await chat.pilot.pause()
            yield chat


def config(folder: Path) -> dict[str, object]:
    file = folder / "config" / "localspec" / "config.toml"
    return tomllib.loads(file.read_text()) if file.exists() else {}


async def change(chat: Chat, name: str, value: str) -> None:
    """Find a setting by its name, and type a value for it."""
    chat.app.screen.query_one(Input).value = name
    await chat.pilot.pause()
    await chat.pilot.press("enter")
    await chat.until(lambda: isinstance(chat.app.screen, SettingScreen))
    chat.app.screen.query_one("#value", Input).value = value
    await chat.pilot.press("enter")
    await chat.pilot.pause()


def test_every_setting_has_an_explanation_a_value_and_an_origin() -> None:
    async def steps() -> None:
        async with settings("--temp", "0.3") as chat:
            await chat.pilot.press(*"temperature")
            await chat.pilot.pause()
            shown = " ".join(chat.shown.replace("│", " ").split())
            for words in ("Sampling", "temp 0.3 · command line", "Temperature; 0: always the most likely token."):
                assert words in shown, shown
            assert "theme" not in shown

    drive(steps())


def test_a_change_is_written_and_used_at_once(tmp_path: Path) -> None:
    async def steps() -> None:
        async with settings() as chat:
            await change(chat, "top-k", "7")
            await chat.until(lambda: isinstance(chat.app.screen, SettingsScreen))
            assert config(tmp_path) == {"run": {"top-k": 7}}
            assert chat.screen.dialogue.settings.sampling.top_k == 7
            shown = " ".join(chat.shown.split())
            assert "7 · your file" in shown
            assert "used from now on" in shown

    drive(steps())


def test_a_flag_of_this_run_wins_again_and_that_is_said(tmp_path: Path) -> None:
    async def steps() -> None:
        async with settings("--threads", "1") as chat:
            await change(chat, "threads ", "2")
            await chat.until(lambda: isinstance(chat.app.screen, SettingsScreen))
            assert config(tmp_path) == {"run": {"threads": 2}}
            shown = " ".join(chat.shown.replace("│", " ").split())
            assert "for the next start. There, the command line wins again." in shown

    drive(steps())


def test_a_refused_value_stays_to_be_mended(tmp_path: Path) -> None:
    async def steps() -> None:
        async with settings() as chat:
            await change(chat, "temperature", "warm")
            assert isinstance(chat.app.screen, SettingScreen)
            assert "temp can't be 'warm'." in chat.shown
            await chat.pilot.press("end", *["backspace"] * 4, *"0.5", "enter")
            await chat.until(lambda: isinstance(chat.app.screen, SettingsScreen))
            assert config(tmp_path) == {"run": {"temp": 0.5}}

    drive(steps())


def test_a_choice_is_chosen_and_the_default_removes_it(tmp_path: Path) -> None:
    async def steps() -> None:
        async with settings() as chat:
            await chat.pilot.press(*"colour theme", "enter")
            await chat.until(lambda: isinstance(chat.app.screen, SettingScreen))
            await chat.pilot.press("down", "down", "enter")
            await chat.until(lambda: isinstance(chat.app.screen, SettingsScreen))
            assert config(tmp_path) == {"run": {"theme": "light"}}
            assert chat.app.theme == "textual-light"
            await chat.pilot.press("enter")
            await chat.until(lambda: isinstance(chat.app.screen, SettingScreen))
            await chat.pilot.press("end", "enter")
            await chat.until(lambda: isinstance(chat.app.screen, SettingsScreen))
            assert config(tmp_path) == {"run": {}}

    drive(steps())


def test_escape_closes_one_screen_after_the_other_and_changes_nothing(tmp_path: Path) -> None:
    async def steps() -> None:
        async with settings() as chat:
            await chat.pilot.press(*"top-k", "enter")
            await chat.until(lambda: isinstance(chat.app.screen, SettingScreen))
            await chat.pilot.press("escape")
            await chat.until(lambda: isinstance(chat.app.screen, SettingsScreen))
            assert chat.app.screen.query_one(OptionList).highlighted is not None
            await chat.pilot.press("escape")
            await chat.until(lambda: chat.app.screen is chat.screen)
            assert config(tmp_path) == {}

    drive(steps())


def test_keys_are_a_table_of_their_own_and_that_is_said() -> None:
    async def steps() -> None:
        async with settings() as chat:
            await chat.pilot.press(*"rebind", "enter")
            await chat.pilot.pause()
            assert "[keys]" in " ".join(chat.shown.split())
            assert isinstance(chat.app.screen, SettingsScreen)

    drive(steps())
