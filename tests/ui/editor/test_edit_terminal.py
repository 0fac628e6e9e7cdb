"""The editor in a real terminal: what a person types is in the file, and the terminal is as it was afterwards."""

import signal
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from pseudo_terminal import PseudoTerminal
from ui_edit import CODE


@contextmanager
def terminal(
    home: Path, named: str, *arguments: str, extra: Mapping[str, str | None] | None = None
) -> Iterator[PseudoTerminal]:
    editor = PseudoTerminal(
        ("-m", "app", "run", *(arguments or ("-m", "toy-fim")), "-c", "4000", "-t", "1", "--edit", named),
        home,
        extra=extra,
    )
    try:
        yield editor
    finally:
        editor.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "shapes.py"
    path.write_bytes(CODE.replace("\n", "\r\n").encode())
    return path


def slanted(editor: PseudoTerminal) -> str:
    """Return what is drawn slanted, row by row."""
    editor.text  # noqa: B018  (draws what was written)
    rows = (editor.screen.buffer[y] for y in range(editor.screen.lines))
    return "\n".join("".join(row[x].data for x in range(editor.screen.columns) if row[x].italics) for row in rows)


def test_a_word_is_typed_its_end_proposed_and_taken_and_the_file_has_it(path: Path, tmp_path: Path) -> None:
    with terminal(tmp_path, f"{path}:11:5") as editor:
        editor.wait_for("toy-0")
        assert editor.modes_now() != editor.modes
        editor.type("re")
        editor.wait_until(lambda: slanted(editor).strip())
        # It goes on beyond the edge of the screen.
        ghost = slanted(editor).strip().removesuffix("…")
        # There is no colour here, and yet what is proposed is another kind of text than what is there.
        assert b"48;2;" not in editor.bytes
        assert "return" not in ghost
        editor.type("\t\x13")
        editor.wait_for("Saved")
        editor.type("\x11")
        assert editor.exit_code() == 0
        assert editor.modes_now() == editor.modes
    before, after = CODE.split("    \n\n", 1)
    saved = path.read_bytes().decode()
    taken = saved.replace("\r\n", "\n").removeprefix(f"{before}    re").removesuffix(f"\n\n{after}")
    assert taken.startswith(ghost)
    assert "\n" not in taken
    assert saved.count("\n") == saved.count("\r\n")


def test_what_the_person_could_not_be_asked_about_is_kept_aside(path: Path, tmp_path: Path) -> None:
    with terminal(tmp_path, str(path), extra={"NO_COLOR": None}) as editor:
        editor.wait_for("toy-0")
        editor.type("# new\r")
        editor.wait_for("changed")
        editor.process.send_signal(signal.SIGTERM)
        assert editor.exit_code() == 143
        assert editor.modes_now() == editor.modes
        assert "the unsaved changes of" in editor.text
    (kept,) = (tmp_path / ".local/state/localspec/unsaved").iterdir()
    assert kept.read_bytes() == b"# new\r\n" + path.read_bytes()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_a_model_that_fills_nothing_in_is_refused_before_a_screen(path: Path, tmp_path: Path) -> None:
    with terminal(tmp_path, str(path), "-m", "toy") as editor:
        assert editor.exit_code() == 1
        assert b"\x1b[?1049h" not in editor.bytes
        assert "toy can't fill in code" in " ".join(editor.text.split())
