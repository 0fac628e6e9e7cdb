"""`run --online` as a user meets it: the same text, corrections in a private file, shown, forgotten, or never kept."""

import json
import os
import stat
from pathlib import Path

import pytest
from run_here import Done, localspec_here
from tiny_gguf import write_llama

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a state folder is given by HOME alone")


class Pair:
    """A home, a target and a draft model that differs from it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.target, self.draft = write_llama(home / "big.gguf"), write_llama(home / "small.gguf", noise=0.05)

    def ask(self, *arguments: str, question: str = "hello") -> str:
        """Return the answer."""
        settings = ("-n", "60", "-t", "1", "--temp", "0", "--no-adapt", "--draft-max", "4", "--allow-rounding", "-q")
        draft = ("--draft", f"model:{self.draft}", "--no-draft-copy")
        done = self("run", str(self.target), "-p", question, *settings, *draft, *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def __call__(self, *arguments: str) -> Done:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.home)
            return localspec_here(*arguments, home=self.home)

    def files(self) -> list[Path]:
        return list(self.home.rglob("*.online"))


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def test_the_text_stays_and_what_was_learned_is_kept_shown_and_forgotten(pair: Pair) -> None:
    usual = pair.ask()
    assert pair.files() == []
    assert [pair.ask("--online") for _ in range(3)] == [usual] * 3
    (path,) = pair.files()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "corrections of 1 draft model (" in pair("drafter", "show").stdout
    (kept,) = [one for one in json.loads(pair("drafter", "show", "--json").stdout)["memories"] if "corr" in one["kind"]]
    assert (kept["file"], kept["model"]) == (str(path), "big with small")
    assert "corrections of 1 draft model (" in pair("drafter", "forget", "-y").stdout
    assert pair.files() == []


@pytest.mark.parametrize("flag", ["--no-memory", "--no-history"])
def test_nothing_is_kept_where_nothing_is_to_be_kept(pair: Pair, flag: str) -> None:
    assert pair.ask("--online", flag) == pair.ask(flag)
    assert pair.files() == []


def test_without_a_draft_model_of_the_targets_tokens_a_note_says_so(pair: Pair) -> None:
    done = pair("run", str(pair.target), "-p", "hello", "-n", "8", "-t", "1", "--draft", "suffix", "--online")
    assert done.returncode == 0
    assert "--online has no effect" in done.stderr
