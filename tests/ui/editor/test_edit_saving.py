"""The editor: saving, leaving, and files that changed, went away or can not be written."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ui_edit import CODE, drive, filled, told

from app.ui.editor import app as edit_app
from app.ui.editor.dialogs import QuestionScreen

pytestmark = pytest.mark.usefixtures("folders")


def test_saving_leaving_and_being_asked(path: Path) -> None:
    async def steps() -> None:
        async with told(path) as editor:
            await editor.press("x", "ctrl+s")
            assert path.read_text() == filled("x")
            assert "Saved" in editor.shown
            await editor.press("y", "ctrl+q")
            assert isinstance(editor.app.screen, QuestionScreen)
            await editor.press("escape", "ctrl+q", "enter")
            await editor.until(lambda: editor.app.return_value is not None)
        assert path.read_text() == filled("xy")
        assert (editor.app.return_value, editor.app.unsaved) == (0, None)

    drive(steps())


def test_leaving_without_saving_loses_what_may_be_lost(path: Path) -> None:
    async def steps() -> None:
        async with told(path) as editor:
            await editor.press("x", "ctrl+c", "ctrl+c", "down", "enter")
            await editor.until(lambda: editor.app.return_value is not None)
        assert path.read_text() == CODE
        assert (editor.app.return_value, editor.app.unsaved) == (130, None)

    drive(steps())


def test_what_another_program_wrote_is_not_written_over_unasked(path: Path) -> None:
    async def steps() -> None:
        async with told(path) as editor:
            path.write_text("theirs\n")
            await editor.press("x", "ctrl+s")
            assert isinstance(editor.app.screen, QuestionScreen)
            await editor.press("escape", "ctrl+s", "enter")
            assert (path.read_text(), editor.area.text) == ("theirs\n", filled("x"))
            await editor.press("ctrl+s", "down", "down", "enter")
            assert editor.area.text == "theirs\n"
            await editor.press("o", "ctrl+s")
            path.write_text("theirs again\n")
            await editor.press("k", "ctrl+s", "down", "enter")
            assert path.read_text() == editor.area.text

    drive(steps())


def test_a_file_that_is_read_only_says_so_and_is_written_to_only_when_told_so(path: Path) -> None:
    path.write_text("")
    path.chmod(0o444)

    async def steps() -> None:
        async with told(path) as editor:
            assert "read-only" in editor.shown
            await editor.press("x", "ctrl+s")
            assert isinstance(editor.app.screen, QuestionScreen)
            await editor.press("escape", "ctrl+s", "enter")
            assert path.read_text() == CODE
            path.write_text("theirs\n")
            await editor.press("ctrl+s", "down", "enter")
            assert path.read_text() == "theirs\n"
            await editor.press("down", "enter")
            assert path.read_text() == editor.area.text != "theirs\n"
            assert not editor.screen.is_changed

    drive(steps())


def test_a_save_that_fails_is_told_and_the_text_stays(path: Path) -> None:
    async def steps() -> None:
        async with told(path) as editor:
            path.unlink()
            path.parent.joinpath("shapes.py").mkdir()
            await editor.press("x", "ctrl+s")
            await editor.until(lambda: "shapes.py can't be edited here: it is a folder." in editor.shown)
            assert editor.screen.is_changed

    drive(steps())


def test_a_file_that_is_gone_is_written_anew_only_when_told_so_and_nothing_is_lost(path: Path) -> None:
    async def steps() -> None:
        async with told(path) as editor:
            path.unlink()
            await editor.press("x", "ctrl+s")
            assert "shapes.py is gone" in editor.shown
            # There is nothing to read: only two answers.
            await editor.press("down", "enter")
            assert editor.area.text == filled("x")
            assert not path.exists()
            await editor.press("ctrl+s", "enter")
            assert path.read_text() == filled("x")
            assert not editor.screen.is_changed

    drive(steps())


def test_what_was_not_saved_is_kept_before_the_models_are_freed(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[bytes] = []
    async_engine = SimpleNamespace(close=lambda: kept.extend(one.read_bytes() for one in tmp_path.glob("unsaved/*")))
    screen = SimpleNamespace(async_engine=async_engine, failure=None)
    app = SimpleNamespace(editor=screen, unsaved=b"new", run=lambda: 129)
    monkeypatch.setattr(edit_app, "EditApp", lambda *_: app)
    monkeypatch.setattr(edit_app, "unsaved_folder", lambda: tmp_path / "unsaved")
    for name, instead in (("terminal_to_itself", nullcontext), ("keep_turns_short", int), ("warm_up", int)):
        monkeypatch.setattr(edit_app, name, instead)
    settings = SimpleNamespace(max_tokens=None)
    request: Any = SimpleNamespace(plan=SimpleNamespace(model="toy-fim"), settings=settings, screen=None)
    assert edit_app.run_editor(request, str(path)) == 129
    assert kept == [b"new"]
