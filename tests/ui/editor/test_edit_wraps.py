"""No line of the editor's screens ends inside a word that fits on the next, and none of a question is left out."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest
from cut_words import LONG, TEXT, cut, missing
from pictures import SIZES
from rich.cells import cell_len
from ui_edit import CODE, Editor, drive, told

from app.ui.editor.dialogs import EditHelpScreen, QuestionScreen
from models.errors import LocalspecError

pytestmark = pytest.mark.usefixtures("folders")
WHOLE = (600, 200)
"""A size at which nothing is wrapped."""
NAME = f"日本語 の 文章 with 👩‍👩‍👧 and {LONG}.py"
Scene = Callable[[Editor], Awaitable[str]]
"""Does something in an editor, and returns the text that is to be seen whole at each size; "" for none."""


async def typed(editor: Editor) -> str:
    await editor.press(*"return")
    return ""


async def unsaved(editor: Editor) -> str:
    await editor.press("f12", *"return", "ctrl+q")
    await editor.until(lambda: isinstance(editor.app.screen, QuestionScreen))
    return f"{NAME} has unsaved changes. Save and leave Leave without saving Keep editing"


async def changed(editor: Editor) -> str:
    await editor.press("f12", *"return")
    editor.path.write_text("another program wrote this")
    await editor.press("ctrl+s")
    await editor.until(lambda: isinstance(editor.app.screen, QuestionScreen))
    return "Reload it and discard the changes made here"


async def keys(editor: Editor) -> str:
    await editor.press("f1")
    await editor.until(lambda: isinstance(editor.app.screen, EditHelpScreen))
    return ""


async def keys_with_limits(editor: Editor) -> str:
    limits = (f"Completions see 1,234,567 characters before the cursor of {LONG}.", TEXT.splitlines()[0])
    editor.app.push_screen(EditHelpScreen(editor.screen.bound, limits))
    await editor.until(lambda: isinstance(editor.app.screen, EditHelpScreen))
    return ""


async def panel(editor: Editor) -> str:
    editor.async_engine.texts = ["return 2 * (width + height)"]
    await editor.press("f5")
    await editor.proposed()
    if not editor.screen.panel_shown:
        await editor.press("f2")
    return ""


async def failed(editor: Editor) -> str:
    editor.screen.fail(LocalspecError(f"The model {LONG} failed after 1,234,567.89 s.", cause=TEXT.splitlines()[0]))
    await editor.until(lambda: "failed after" in editor.shown)
    return ""


SCENES: Mapping[str, Scene] = {
    scene.__name__: scene for scene in (typed, unsaved, changed, keys, keys_with_limits, panel, failed)
}


@pytest.mark.parametrize("name", SCENES)
def test_no_line_ends_inside_a_word(name: str, tmp_path: Path) -> None:
    async def steps() -> None:
        async with told(tmp_path / NAME, size=WHOLE, notices=True) as editor:
            needed = await SCENES[name](editor)
            await editor.pilot.pause(0.2)
            whole = {*editor.shown.split()} | {*TEXT.split(), *CODE.split()}
            for size in SIZES:
                await editor.pilot.resize_terminal(*size)
                await editor.pilot.pause(0.15)
                lines = editor.shown.splitlines()
                assert [*cut(lines, whole)] == [], (name, size)
                assert max(map(cell_len, lines)) <= size[0]
                assert missing(lines, needed) == [], (name, size)

    drive(steps())
