"""What changes on a screen is seen through all screens that are open over it."""

from typing import Any

import pytest
from textual.screen import ModalScreen
from textual.widgets import Static
from ui_chat import chatting, drive, within_run

from app.ui.dialogs.settings import SettingScreen, SettingsScreen
from app.ui.drawing.key_footer import KeyFooter

pytestmark = pytest.mark.usefixtures("folders")
LEVELS = (1, 2, 3)


def seen(app: Any) -> list[str]:
    """Return the lines of the terminal: of the uppermost screen, with those below where they are seen."""
    update = app.screen._compositor.render_update(full=True, screen_stack=app._background_screens)
    return ["".join(part.text for strip in line for part in strip) for line in update.strips]


class Small(ModalScreen[None]):
    """A screen that hides one line of those below."""

    DEFAULT_CSS = "Small { align: center middle; } Small Static { width: 20; height: 1; }"

    def compose(self) -> Any:
        yield Static("a small screen")


@pytest.mark.parametrize("levels", LEVELS)
def test_a_note_that_comes_is_seen_under_screens(levels: int) -> None:
    async def steps() -> None:
        async with chatting(size=(80, 24)) as chat:
            await chat.ready()
            for _ in range(levels):
                await chat.app.push_screen(Small())
            await chat.until(lambda: any("a small screen" in line for line in seen(chat.app)))
            chat.screen.note("A note that came meanwhile.")
            await chat.until(lambda: any("came meanwhile" in line for line in seen(chat.app)), seconds=10)

    drive(steps())


def test_the_footer_is_seen_under_the_screen_of_one_setting_after_each_resize() -> None:
    async def steps() -> None:
        async with chatting(size=(100, 30)) as chat:
            await chat.ready()
            await chat.type("/settings")
            await chat.until(lambda: isinstance(chat.app.screen, SettingsScreen))
            await chat.pilot.press(*"top-k", "enter")
            await chat.until(lambda: isinstance(chat.app.screen, SettingScreen))
            footer = chat.screen.query_one(KeyFooter)
            for width, height in ((60, 20), (80, 24), (62, 22), (120, 36)):
                await chat.pilot.resize_terminal(width, height)
                await chat.until(lambda wanted=width: footer._composed_width == wanted)
                await chat.pilot.pause(0.3)
                words = [key.description for key in footer.query("FooterKey") if key.description]  # type: ignore[attr-defined]
                assert words
                assert all(word in seen(chat.app)[-1] for word in words), (width, seen(chat.app)[-1])

    with within_run():
        drive(steps())
