"""What the editor looks like, as pictures that are compared: answers that are told, on a clock that stands still.

A picture that differs is written beside the test's other files, and the message says where. When it is as it should
be, `pytest tests/ui/editor/test_edit_snapshots.py --snapshot-update` makes it the new one; look at it before.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pytest_textual_snapshot import SVGImageExtension
from recorded_link import picture, stand_still
from syrupy.assertion import SnapshotAssertion
from ui_chat import own_folders
from ui_edit import Editor, drive, told

from app.ui.panel.flow import Flow

_FONTS = re.compile(r"\s*@font-face {[^}]*}")
_EDGES = re.compile(r'\s*<clipPath id="[^"]*-line-\d+">.*?</clipPath>', re.DOTALL)
_EDGE_USED = re.compile(r' clip-path="url\(#[^"]*-line-\d+\)"')
SIZES = ((60, 20), (140, 40))
_OTHER_SIZE = (100, 30)
"""Of none of the pictures: so each is drawn after a resize, whole and at once."""
_ONE = "return 2 * (width + height)"
_SEVERAL = """edges = (width, height)
    longest = max(edges)  # so that nobody has to turn it
    return longest, 2 * sum("""


class Picture(SVGImageExtension):
    """An SVG file for each picture, without fonts from elsewhere and without edges at which nothing is cut."""

    file_extension = "svg"

    def serialize(self, data: str, **options: Any) -> str:
        for part in (_FONTS, _EDGES, _EDGE_USED):
            data = part.sub("", data)
        return super().serialize(data, **options)


@pytest.fixture
def pictures(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(Picture)


@pytest.fixture(autouse=True)
def everywhere_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own_folders(monkeypatch, tmp_path)
    stand_still(monkeypatch)
    monkeypatch.setattr("app.ui.editor.file_screen.Flow", partial(Flow, lambda: 1_912_602_624))
    monkeypatch.delenv("NO_COLOR", raising=False)


async def loading(editor: Editor) -> None:
    await editor.until(lambda: "42%" in editor.shown)


async def one_line(editor: Editor) -> None:
    await _proposed(editor, _ONE)


async def several_lines(editor: Editor) -> None:
    await editor.press("f12", *"edges)", "left")
    await _proposed(editor, _SEVERAL.removeprefix("edges"))


async def panel(editor: Editor) -> None:
    await _proposed(editor, _SEVERAL)
    await editor.press("f2")


async def taken_in_part(editor: Editor) -> None:
    await _proposed(editor, _SEVERAL)
    await editor.press("ctrl+down", "ctrl+right")


async def unsaved(editor: Editor) -> None:
    await editor.press("f12", *"return", "ctrl+q")
    await editor.until(lambda: "unsaved changes" in editor.shown)


async def finding(editor: Editor) -> None:
    await editor.press("f12", "ctrl+f", *"width", "enter")
    await editor.until(lambda: editor.area.selected_text)


async def keys(editor: Editor) -> None:
    await editor.press("f1")
    await editor.until(lambda: "Accept the whole completion" in editor.shown)


SCENES: Mapping[str, Callable[[Editor], Awaitable[None]]] = {
    scene.__name__: scene for scene in (loading, one_line, several_lines, panel, taken_in_part, unsaved, finding, keys)
}
"""Each at both sizes; without colour those in which something is proposed."""
_LOOKS = [
    *((scene, "dark") for scene in SCENES),
    ("panel", "light"),
    *((scene, "no colour") for scene in ("several_lines", "finding")),
]


@pytest.mark.parametrize(("scene", "look"), _LOOKS)
def test_picture(
    scene: str, look: str, pictures: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if look == "no colour":
        monkeypatch.setenv("NO_COLOR", "1")
    drawn: dict[str, str] = {}

    async def steps() -> None:
        path, theme = Path("shapes.py"), "light" if look == "light" else "dark"
        async with told(path, loaded=scene != "loading", theme=theme, size=_OTHER_SIZE) as editor:
            await SCENES[scene](editor)
            for width, height in SIZES:
                await editor.pilot.resize_terminal(width, height)
                await editor.pilot.pause(0.15)
                drawn[f"{width}x{height}"] = picture(editor.app)

    drive(steps())
    other = [size for size, svg in drawn.items() if pictures(name=size) != svg]
    for size in other:
        (tmp_path / f"{size}.svg").write_text(drawn[size], encoding="utf-8")
    assert not other, f"{scene}, {look}, looks different at {', '.join(other)}; see {tmp_path}"


async def _proposed(editor: Editor, text: str) -> None:
    editor.async_engine.texts = [text]
    await editor.press("f5")
    await editor.proposed()
    await editor.until(lambda: not editor.screen.flow.running)
