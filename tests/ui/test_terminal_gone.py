"""A terminal that is closed without a signal: nothing stays behind."""

from contextlib import closing
from pathlib import Path

from pseudo_terminal import PseudoTerminal


def test_an_editor_leaves_with_its_terminal(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("def one():\n    return 1\n")
    edits = ("-m", "app", "run", "-m", "toy-fim", "-c", "4000", "--edit", str(tmp_path / "code.py"))
    with closing(PseudoTerminal(edits, tmp_path, controls=False)) as editor:
        editor.wait_for("return 1")
        editor.type("x")
        editor.hang_up()
        assert editor.process.wait(60) == 129
