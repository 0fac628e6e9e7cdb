"""The tool that trains on shares of stored answers: the same answers held back, and words for what is missing."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from forge_data import SomeAnswers, main, parts_in

from app.forge.answering.parts import HELD, Stored


def some(count: int, share: float) -> SomeAnswers:
    answers = [Stored(0, 10 * number, 10, 3) for number in range(count)]
    return SomeAnswers(SimpleNamespace(answers=answers, read=None), share)  # type: ignore[arg-type]


@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
def test_a_share_of_the_answers_is_learnt_from_and_none_that_is_held_back(share: float) -> None:
    found, whole = some(20 * HELD, share), some(20 * HELD, 1.0)
    assert len(found.learnt) == round(share * 20 * (HELD - 1))
    assert found.tokens == 10 * len(found.learnt)
    assert set(found.learnt) <= set(whole.learnt)
    assert not {each.start // 10 for each in found.learnt} & set(range(0, 20 * HELD, HELD))


@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
def test_held_back_answers_are_where_training_looks_for_them(share: float) -> None:
    found = some(20 * HELD, share)
    assert all(each.start // 10 % HELD == 0 for each in found.answers[::HELD])
    assert [each for number, each in enumerate(found.answers) if number % HELD] == found.learnt


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "tests/support/run.py", "forge_data", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_a_folder_without_answers_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("forge_data.find_spec", lambda _: object())
    monkeypatch.setattr(sys, "argv", ["forge_data", "tiny.gguf", str(tmp_path)])
    with pytest.raises(SystemExit, match="2"):
        main()
    said = capsys.readouterr().err
    assert f"{tmp_path} has no answers with a computed start" in said
    assert "localspec forge tiny.gguf" in said
    assert list(tmp_path.iterdir()) == []
    assert parts_in(tmp_path) is None


def test_without_torch_it_says_what_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("forge_data.find_spec", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["forge_data", "tiny.gguf", str(tmp_path)])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "localspec[forge] brings it" in capsys.readouterr().err


def test_it_tells_how_it_is_used() -> None:
    done = run("--help")
    assert done.returncode == 0, done.stderr
    assert "FOLDER is what `localspec forge TARGET` has left" in done.stdout
