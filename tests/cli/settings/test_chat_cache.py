"""Caches of saved conversations as a user meets them: a chat that is reopened is not read again."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from run_here import localspec_here as localspec
from tiny_gguf import CHATML_TEMPLATE, write_llama

from models.kernels.compiling import state

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a data folder is given by HOME alone")

LONG = "abc odf urk " * 46
"""A message of 552 tokens: none of them has two letters."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    return write_llama(folder / "tiny.gguf", n_ctx=1024, chat_template=CHATML_TEMPLATE)


@pytest.fixture(scope="module")
def begun(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home folder with a conversation of two answers."""
    home = tmp_path_factory.mktemp("home")
    for arguments in ((str(model), LONG), ("-C", "and then")):
        done = localspec("run", *arguments, *FLAGS, "-n", "8", home=home)
        assert done.returncode == 0, done.stderr
    return home


FLAGS = ("-c", "1024", "-t", "1", "--temp", "0.8", "--seed", "4", "--draft", "off")


@pytest.fixture
def home(begun: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(begun, tmp_path / "home"))


def chats(home: Path) -> Path:
    return home / ".cache" / "localspec" / "chats"


def go_on(home: Path, *more: str) -> dict[str, Any]:
    """Continue the conversation; return the last line of the answer's record."""
    done = localspec("run", "-C", "more", *FLAGS, "-n", "12", "--json", *more, home=home)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def reused(end: dict[str, Any]) -> int:
    return int(end["usage"]["prompt_tokens_details"]["cached_tokens"])


def listed(home: Path) -> dict[str, Any]:
    found = json.loads(localspec("history", "ls", "--json", home=home).stdout)["conversations"]
    assert len(found) == 1
    return dict(found[0])


def test_a_conversation_that_goes_on_is_not_read_again(home: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(home, tmp_path / "other"))
    shutil.rmtree(chats(other))
    kept, read = go_on(home), go_on(other)
    assert reused(kept) >= 552
    assert reused(read) == 0
    assert kept["text"] == read["text"]
    assert reused(go_on(home)) >= 512, "an answer of broken characters is read again, all before it is not"


def test_one_answer_alone_keeps_nothing(model: Path, tmp_path: Path) -> None:
    localspec("run", str(model), LONG, *FLAGS, "-n", "4", home=tmp_path)
    assert not chats(tmp_path).exists()


def test_history_shows_and_removes_it(home: Path) -> None:
    conversation = listed(home)
    assert conversation["cache_bytes"] > 100_000
    assert "cache 1 MiB)" in localspec("history", "ls", home=home).stdout
    assert [path.name for path in chats(home).iterdir()] == [conversation["id"]]
    localspec("history", "rm", conversation["id"], home=home)
    assert [*chats(home).iterdir()] == []


def test_removing_everything_takes_caches_of_unknown_conversations_along(home: Path) -> None:
    shutil.copytree(next(chats(home).iterdir()), chats(home) / "ffffffffff")
    localspec("history", "rm", "--all", "-y", home=home)
    assert [*chats(home).iterdir()] == []


def test_doctor_removes_caches_and_keeps_the_conversation(home: Path) -> None:
    kernels = state()
    done = localspec("doctor", "--clean", "-y", home=home)
    assert "caches of chats (" in done.stdout
    assert not chats(home).exists()
    assert listed(home)["cache_bytes"] == 0
    assert state() == kernels, "other tests use the kernels of this installation"
    assert reused(go_on(home)) == 0


@pytest.mark.parametrize("off", ["--no-history", "--chat-cache=0"])
def test_who_wants_none_has_none(home: Path, off: str) -> None:
    before = sorted(path.name for path in chats(home).rglob("*.state"))
    assert reused(go_on(home, off)) == 0
    assert sorted(path.name for path in chats(home).rglob("*.state")) == before


def test_a_settings_file_sets_the_limits(home: Path) -> None:
    settings = home / ".config" / "localspec" / "config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text("[run]\nchat-cache = 0\n")
    assert reused(go_on(home)) == 0


def test_a_conversation_that_is_unused_for_too_long_loses_its_cache(home: Path) -> None:
    stale = chats(home) / "ffffffffff"
    shutil.copytree(next(chats(home).iterdir()), stale)
    os.utime(stale, (0, 0))
    assert reused(go_on(home, "--chat-cache-days", "2")) >= 552
    assert not stale.exists()
