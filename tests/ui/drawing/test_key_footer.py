"""The footer shows the keys that are active, and is composed anew for other keys alone."""

from typing import Any, ClassVar

import pytest
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.pilot import Pilot
from ui_chat import WIDE, chatting, drive

from app.ui.drawing.key_footer import KeyFooter

pytestmark = pytest.mark.usefixtures("folders")


class Host(App[None]):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("f1", "first", "First"), Binding("f2", "second", "Second")]
    second: bool | None = True

    def compose(self) -> ComposeResult:
        yield KeyFooter(compact=True, show_command_palette=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        return self.second if action == "second" else True


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


async def refresh(pilot: Pilot[Any], composed: list[int], count: int) -> None:
    """Let the footer hear of its keys until it was composed `count` times, but for three turns at least."""
    for turn in range(500):
        pilot.app.screen.refresh_bindings()
        await pilot.pause(0.02)
        if turn >= 2 and len(composed) >= count:
            return


def test_equal_keys_are_composed_once_and_other_keys_anew(composed: list[int]) -> None:
    async def steps() -> None:
        host = Host()
        async with host.run_test() as pilot:
            await refresh(pilot, composed, 1)
            assert composed == [2]
            host.second = False
            await refresh(pilot, composed, 2)
            assert composed == [2, 1]
            host.second = None
            await refresh(pilot, composed, 3)
            assert composed == [2, 1, 2], "a key that is shown as disabled"
            assert host.query_one(KeyFooter).children[1].has_class("-disabled")

    drive(steps())


def test_a_chat_composes_its_footer_a_few_times_with_all_keys(composed: list[int]) -> None:
    async def steps() -> None:
        async with chatting(size=WIDE) as chat:
            await chat.ready()
            await chat.ask("Hello")
            shown = {
                one.binding.action: one.binding.description
                for one in chat.app.screen.active_bindings.values()
                if one.binding.show
            }
            assert composed[-1] == len(shown)
            assert all(description in chat.shown.splitlines()[-1] for description in shown.values())
            # Textual's own footer composes at every change of focus and of a binding, some ten times in this chat.
            assert len(composed) < 5

    drive(steps())
