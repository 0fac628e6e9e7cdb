"""The footer shows the keys that are active, and is composed anew for other keys alone."""

import pytest
from ui_chat import WIDE, chatting, drive

from app.ui.drawing.key_footer import KeyFooter

pytestmark = pytest.mark.usefixtures("folders")


@pytest.fixture
def composed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count of keys at each composition."""
    counts: list[int] = []
    recompose = KeyFooter.recompose

    async def counted(footer: KeyFooter) -> None:
        await recompose(footer)
        counts.append(len(footer.children))

    monkeypatch.setattr(KeyFooter, "recompose", counted)
    return counts


def test_equal_keys_are_composed_once_and_other_keys_anew(composed: list[int]) -> None:
    async def steps() -> None:
        async with chatting(size=WIDE) as chat:
            await chat.ready()
            await chat.ask("Hello")
            first = chat.shown.splitlines()[-1]
            before = len(composed)
            for _ in range(3):
                chat.screen.refresh_bindings()
                await chat.pilot.pause()
            assert len(composed) == before
            await chat.pilot.press("escape", "shift+tab")
            await chat.pilot.pause()
            assert chat.shown.splitlines()[-1] != first
            assert len(composed) > before
            chat.screen.prompt.focus()
            await chat.until(lambda: chat.shown.splitlines()[-1] == first)
            # Textual's own footer composes at every change of focus and of a binding, some twenty times in a chat.
            assert len(composed) < 8

    drive(steps())


def test_all_keys_of_the_screen_are_in_the_footer(composed: list[int]) -> None:
    async def steps() -> None:
        async with chatting(size=WIDE) as chat:
            await chat.ready()
            shown = {
                one.binding.action: one.binding.description
                for one in chat.app.screen.active_bindings.values()
                if one.binding.show
            }
            assert composed[-1] == len(shown)
            assert all(description in chat.shown.splitlines()[-1] for description in shown.values())

    drive(steps())
