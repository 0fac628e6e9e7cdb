"""`--strict` as a user meets it: what it tells on stderr, what it refuses, and that the text is the plain one."""

import json
from pathlib import Path

import pytest
from run_here import localspec_here
from run_localspec import localspec, shared_folder


def test_strict_tells_what_was_checked_and_stdout_is_the_text_alone(tmp_path: Path) -> None:
    asked = ("run", "toy", "the sea the sea", "-s", "5", "--temp", "0.7", "-n", "40")
    bare, strict = localspec_here(*asked, home=tmp_path), localspec_here(*asked, "--strict", home=tmp_path)
    assert strict.returncode == 0, strict.stderr
    assert strict.stdout == bare.stdout
    assert "strict: exact up to 17 tokens per pass (checked after 8, 255 and 495 tokens)" in strict.stderr
    assert "strict:" not in bare.stderr


def test_strict_is_in_the_notes_of_the_first_json_line(tmp_path: Path) -> None:
    done = localspec_here("run", "toy", "hello", "--strict", "-n", "5", "--json", home=tmp_path)
    start = json.loads(done.stdout.splitlines()[0])
    assert start["exact_draft"] == 16
    assert any(note.startswith("strict: exact up to 17 tokens") for note in start["notes"])


def test_strict_and_rounding_contradict_each_other(tmp_path: Path) -> None:
    done = localspec_here("run", "toy", "hello", "--strict", "--allow-rounding", home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--strict and --allow-rounding contradict each other" in done.stderr
    assert "localspec config show" in done.stderr


@pytest.mark.starter
def test_the_starter_is_checked_and_its_price_told(tmp_path: Path) -> None:
    asked = ("run", "starter", "List the months.", "-n", "8", "-t", "1", "-c", "512", "--strict", "--draft", "suffix")
    done = localspec(*asked, home=tmp_path, extra={"XDG_CACHE_HOME": shared_folder("measured")})
    assert done.returncode == 0, done.stderr
    assert "localspec: note: strict: exact up to " in done.stderr
    assert " tokens/s plain" in done.stderr
    assert "strict" not in done.stdout
