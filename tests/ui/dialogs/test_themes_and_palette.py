"""Themes with a preview, and a palette that offers commands, settings, themes and models."""

import pytest
from textual.command import CommandPalette
from textual.widgets import OptionList
from ui_chat import chatting, drive

from app.chat_input.keys import KEYS
from app.chat_input.settings import setting_values
from app.chat_input.themes import THEMES
from app.ui.chat.commands import COMMANDS
from app.ui.dialogs.choices import model_choices
from app.ui.dialogs.themes import ThemeScreen
from models.library.catalog import STARTER

pytestmark = pytest.mark.usefixtures("folders")


def test_the_highlighted_theme_is_shown_and_escape_goes_back_to_the_one_of_before() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            before = chat.app.theme
            await chat.type("/theme")
            await chat.until(lambda: isinstance(chat.app.screen, ThemeScreen))
            names = [*THEMES]
            assert chat.app.screen.query_one(OptionList).highlighted == names.index("dark")
            await chat.pilot.press("down", "down")
            await chat.until(lambda: chat.app.theme == THEMES[names[names.index("dark") + 2]])
            await chat.pilot.press("escape")
            assert (chat.app.theme, chat.app.screen) == (before, chat.screen)
            await chat.type("/theme")
            await chat.until(lambda: isinstance(chat.app.screen, ThemeScreen))
            await chat.pilot.press("end", "enter")
            await chat.until(lambda: chat.app.screen is chat.screen)
            assert chat.app.theme == THEMES[names[-1]]

    drive(steps())


def test_the_palette_offers_keys_commands_settings_themes_and_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.ui.chat.palette.local_names", lambda: ["starter", "user/repo:Q4_K_M"])

    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            await chat.pilot.press("ctrl+p")
            await chat.until(lambda: isinstance(chat.app.screen, CommandPalette))
            offers = {offer.title for offer in chat.app.get_system_commands(chat.screen)}
            assert {key.help for key in KEYS.values()} <= offers
            assert {f"/{name} {command.argument}".rstrip() for name, command in COMMANDS.items()} <= offers
            assert {f"Set {name}" for name in setting_values(chat.screen.dialogue.settings)} <= offers
            assert {f"Theme {name}" for name in THEMES} | {"Model user/repo:Q4_K_M"} <= offers
            await chat.pilot.press(*"theme nord")
            await chat.until(lambda: "Theme nord" in chat.shown)
            await chat.pilot.press("down", "enter")
            await chat.until(lambda: chat.app.theme == THEMES["nord"])

    drive(steps())


def test_what_needs_an_argument_is_put_into_the_prompt_and_keeps_what_was_typed() -> None:
    async def steps() -> None:
        async with chatting() as chat:
            await chat.ready()
            chat.screen.prompt.set_text("typed before")
            offers = {offer.title: offer for offer in chat.app.get_system_commands(chat.screen)}
            offers["Set temp"].callback()
            assert chat.screen.prompt.text == "/set temp "
            offers["/save FILE"].callback()
            assert chat.screen.prompt.text == "/save "
            await chat.pilot.press("up", "up")
            assert chat.screen.prompt.text == "typed before"

    drive(steps())


@pytest.mark.starter
def test_the_running_model_is_marked_also_when_it_was_given_by_its_path() -> None:
    from models.library.catalog import find_model

    for running in (STARTER, str(find_model(STARTER))):
        first, *others = model_choices(running)
        assert (first.name, first.reason) == (STARTER, "running now")
        assert all(choice.reason != "running now" for choice in others)
    (elsewhere, *_) = model_choices("/somewhere/else.gguf")
    assert (elsewhere.name, elsewhere.reason) == ("/somewhere/else.gguf", "running now")
