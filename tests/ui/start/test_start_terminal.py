"""`localspec` alone: a start screen on a terminal, from which a chat opens, and the help in a pipe."""

from pathlib import Path

import pytest
from pseudo_terminal import PseudoTerminal
from run_localspec import localspec


def test_in_a_pipe_it_prints_the_help(tmp_path: Path) -> None:
    done = localspec(home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == localspec("--help", home=tmp_path).stdout


@pytest.mark.starter
def test_on_a_terminal_a_model_is_chosen_and_its_chat_says_how_to_come_back(tmp_path: Path) -> None:
    terminal = PseudoTerminal(["-m", "app"], tmp_path, (100, 40))
    try:
        terminal.wait_for("Get a model")
        terminal.type("first look\r")
        terminal.wait_for("is ready")
        terminal.type("Hi\r")
        terminal.wait_for("tokens/s")
        terminal.type("\x1b")
        terminal.wait_until(lambda: "Esc stops" not in terminal.text)
        terminal.type("/quit\r")
        terminal.wait_for("localspec run --resume ")
        assert terminal.exit_code() == 0
    finally:
        terminal.close()


def test_ctrl_q_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    terminal = PseudoTerminal(["-m", "app"], tmp_path)
    try:
        terminal.wait_for("Type to find")
        terminal.type("\x11")
        assert terminal.exit_code() == 0
        assert terminal.modes_now() == terminal.modes
    finally:
        terminal.close()


def test_a_settings_file_that_is_broken_is_said(tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text("theme = ")
    terminal = PseudoTerminal(["-m", "app"], tmp_path, extra={"LOCALSPEC_CONFIG": str(tmp_path / "broken.toml")})
    try:
        terminal.wait_for("broken.toml")
        assert terminal.exit_code() == 2
    finally:
        terminal.close()
