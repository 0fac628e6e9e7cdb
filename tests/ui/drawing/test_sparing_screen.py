"""What a sparing screen writes to the terminal: the same as Textual's own, with less work."""

from collections.abc import Iterator

import pytest
from textual._compositor import ChopsUpdate, Compositor
from textual.widget import Widget
from ui_chat import WIDE, chatting, drive

from app.ui.drawing import sparing_screen

pytestmark = pytest.mark.usefixtures("folders")


class Compared:
    """Every partial update of a screen, made both ways."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.updates = 0
        self.differing: list[tuple[str, str]] = []
        self.asked = {"plain": 0, "sparing": 0, "else": 0}
        sparingly, render_lines = sparing_screen._Compositor.render_partial_update, Widget.render_lines
        way = "else"

        def counted(widget: Widget, crop: object) -> object:
            self.asked[way] += 1
            return render_lines(widget, crop)  # type: ignore[arg-type]

        def both(compositor: sparing_screen._Compositor) -> ChopsUpdate | None:
            nonlocal way
            regions = compositor._dirty_regions.copy()
            way = "sparing"
            sparing = sparingly(compositor)
            compositor._dirty_regions |= regions
            way = "plain"
            plain = Compositor.render_partial_update(compositor)
            way = "else"
            self.updates += 1
            written = tuple("".join(written_by(update)) for update in (plain, sparing))
            if written[0] != written[1]:
                self.differing.append((written[0], written[1]))
            return sparing

        monkeypatch.setattr(Widget, "render_lines", counted)
        monkeypatch.setattr(sparing_screen._Compositor, "render_partial_update", both)


def written_by(update: ChopsUpdate | None) -> Iterator[str]:
    if update is not None:
        for segment in update.__rich_console__(None, None):  # type: ignore[arg-type]
            yield f"{segment!r}\n"


@pytest.mark.parametrize("size", [WIDE, (80, 24), (30, 8)])
def test_what_is_written_is_what_textual_would_write(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    compared = Compared(monkeypatch)

    async def steps() -> None:
        async with chatting(size=size) as chat:
            await chat.ready()
            await chat.type("the cat sat on the mat. the cat")
            await chat.until(lambda: not chat.screen.busy and len(chat.messages) == 2)
            for keys in (["/", "s"], ["escape"], ["ctrl+u"], ["pageup"], ["f1"], ["escape"], ["h", "i"]):
                await chat.pilot.press(*keys)
                await chat.pilot.pause()

    drive(steps())
    assert compared.updates > 10
    assert not compared.differing
    assert compared.asked["sparing"] < 0.9 * compared.asked["plain"]
