"""Saved conversations as a user meets them: real processes, killed, stopped, resumed, searched and removed."""

import json
import os
import pty
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from run_here import localspec_here as localspec
from run_localspec import ROOT, environment
from saved import said
from tiny_gguf import write_llama

from app.engine.conversation.messages import Said
from app.engine.conversation.transcript import Transcript
from app.engine.runtime.blocking_engine import LineEngine

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a data folder is given by HOME alone")

TOY = ("toy", "-n", "30", "--seed", "1")
ENDLESS = ("toy", "-p", "hello", "-c", "400000", "--temp", "0.9", "--top-k", "0", "--draft", "off", "-q")


def database(home: Path) -> Path:
    return home / ".local" / "share" / "localspec" / "conversations.db"


def exported(home: Path, *which: str) -> list[dict[str, Any]]:
    """Return conversations as `export --json` tells them."""
    done = localspec("history", "export", "--json", *which, home=home)
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def current(home: Path) -> list[str]:
    """Return what was said on the current branch of the last conversation."""
    return [message["text"] for message in exported(home)[0]["messages"] if message["current"]]


def chat(home: Path, *arguments: str, lines: str, extra: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Chat on a terminal, with all lines typed ahead; return the exit code and what was on the screen."""
    own, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "app", "run", *arguments],
        cwd=ROOT,
        env=environment(home, {"TERM": "dumb", **(extra or {})}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    os.write(own, lines.encode())
    seen = b"".join(_read(own))
    os.close(own)
    return process.wait(60), seen.decode(errors="replace").replace("\r\n", "\n")


def chat_here(home: Path, *arguments: str, lines: str) -> tuple[int, str]:
    """Chat in this process, which is quicker; return the exit code, and what would be on the screen."""
    done = localspec("run", *arguments, home=home, typed=lines)
    return done.returncode, done.stderr + done.stdout


def _read(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            return
        if not piece:
            return
        yield piece


def test_an_answer_is_saved_listed_shown_and_found(tmp_path: Path) -> None:
    answer = localspec("run", *TOY, "hello there", home=tmp_path).stdout.rstrip("\n")
    (conversation,) = exported(tmp_path)
    question, saved = conversation["messages"]
    assert (conversation["title"], question["text"], saved["text"]) == ("hello there", "hello there", answer)
    assert (saved["model"], saved["source"], saved["finish"], saved["drafter"]) == ("toy-0", "toy", "length", "suffix")
    assert (saved["settings"]["sampling"]["seed"], saved["statistics"]["emitted"], len(saved["tokens"])) == (1, 30, 30)
    listed = localspec("history", "ls", home=tmp_path).stdout
    assert listed.startswith(conversation["id"])
    assert "hello there  (2 messages, toy-0)" in listed
    shown = localspec("history", "show", conversation["id"][:4], home=tmp_path).stdout
    assert "> hello there" in shown
    assert "toy-0 · 30 tokens" in shown
    assert "[hello] [there]" in localspec("history", "search", "THERE", "hello", home=tmp_path).stdout
    (hit,) = json.loads(localspec("history", "search", "hello", "--json", home=tmp_path).stdout)["hits"]
    assert (hit["conversation"], hit["text"], hit["marks"], hit["current"]) == (
        conversation["id"], "hello there", [[0, 5]], True,
    )  # fmt: skip
    assert localspec("history", "export", home=tmp_path).stdout.startswith("# hello there\n")


def test_lists_and_searches_are_limited_and_their_json_is_one_object(tmp_path: Path) -> None:
    for word in ("one", "two", "three"):
        localspec("run", *TOY, f"say {word}", home=tmp_path)
    assert [line.split()[4] for line in localspec("history", "ls", "-n", "2", home=tmp_path).stdout.splitlines()] == [
        "three",
        "two",
    ]
    record = json.loads(localspec("history", "ls", "--json", home=tmp_path).stdout)
    assert [found["title"] for found in record["conversations"]] == ["say three", "say two", "say one"]
    assert record["file"] == str(database(tmp_path))
    hits = json.loads(localspec("history", "search", "say", "--limit", "1", "--json", home=tmp_path).stdout)["hits"]
    assert len(hits) == 1
    assert [conversation["title"] for conversation in exported(tmp_path, "--all")] == [
        "say three",
        "say two",
        "say one",
    ]
    assert localspec("history", "export", "--all", home=tmp_path).stdout.count("\n# say") == 2


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [(("--no-history",), {}), ((), {"LOCALSPEC_NO_HISTORY": "1"}), (("--json",), {})],
)
def test_who_wants_no_history_has_none(tmp_path: Path, arguments: tuple[str, ...], extra: dict[str, str]) -> None:
    done = localspec("run", *TOY, *arguments, "hello", home=tmp_path, extra=extra)
    assert done.returncode == 0
    assert not database(tmp_path).parent.exists()


def test_without_history_the_drafter_remembers_nothing_either(tmp_path: Path) -> None:
    model = str(write_llama(tmp_path / "tiny.gguf"))
    done = localspec("run", model, "hello", "-n", "20", "-t", "1", "--no-history", home=tmp_path)
    assert (done.returncode, list(tmp_path.rglob("*.texts"))) == (0, [])


def test_a_private_chat_leaves_no_trace_of_what_was_said(tmp_path: Path) -> None:
    said, kept = "xylophone", "zeppelin"
    code, screen = chat(tmp_path, *TOY, "--no-history", lines=f"{said}\n/title x\n/history\n/quit\n")
    assert code == 0
    assert "Private: nothing of this chat is saved." in screen
    assert "No conversations are saved." in screen
    assert "Private" not in chat(tmp_path, *TOY, lines=f"{kept}\n/quit\n")[1]
    traces = [path for path in tmp_path.rglob("*") if path.is_file() and said.encode() in path.read_bytes()]
    assert traces == []
    assert [path for path in tmp_path.rglob("prompt-history") if kept in path.read_text()]


def test_a_chat_is_saved_with_its_branches_title_and_file(tmp_path: Path) -> None:
    code, screen = chat(
        tmp_path, *TOY, "-sys", "be brief",
        lines=f"one\n/regen\ntwo\n/undo\nthree\n/title My talk\n/save {tmp_path}/talk.md\n/save {tmp_path}/talk.json\n"
        f"/save {tmp_path}/talk.md\n/save {tmp_path}/none/talk.md\n/history\n/history three\n/clear\n/title\n/quit\n",
    )  # fmt: skip
    assert code == 0
    (conversation,) = exported(tmp_path)
    texts = [message["text"] for message in conversation["messages"] if message["role"] == "user"]
    assert (conversation["title"], conversation["system"], texts) == ("My talk", "be brief", ["one", "two", "three"])
    assert [len(current(tmp_path)), current(tmp_path)[0], current(tmp_path)[2]] == [4, "one", "three"]
    seeds = [message["settings"]["sampling"]["seed"] for message in conversation["messages"] if "settings" in message]
    assert seeds == [1, 2, 2, 2]
    assert "2 other branches: --all" in localspec("history", "show", home=tmp_path).stdout
    assert "> two" in localspec("history", "show", "--all", home=tmp_path).stdout
    assert "(show --all)" in localspec("history", "search", "two", home=tmp_path).stdout
    assert (tmp_path / "talk.md").read_text() == localspec("history", "export", home=tmp_path).stdout
    assert json.loads((tmp_path / "talk.json").read_text()) == conversation
    assert (tmp_path / "talk.md").stat().st_mode & 0o777 == 0o600
    assert "talk.md already exists." in screen
    assert "none/talk.md can't be written." in screen
    assert "Errno" not in screen
    assert f"{conversation['id']}  " in screen
    assert "you: [three]" in screen
    assert "The conversation is empty." in screen


def test_a_chat_goes_on_with_its_turns_model_and_system_prompt(tmp_path: Path) -> None:
    chat_here(tmp_path, *TOY, "-sys", "be brief", lines="one\ntwo\n/quit\n")
    before = current(tmp_path)
    code, screen = chat_here(tmp_path, "-C", "-n", "30", "--seed", "1", lines="three\n/quit\n")
    assert code == 0
    assert screen.index("> one\n") < screen.index(before[1]) < screen.index("> two\n") < screen.index("Continuing")
    assert "toy-0: toy" in screen
    after = current(tmp_path)
    assert (after[:4], after[4], len(after)) == (before, "three", 6)
    assert exported(tmp_path)[0]["system"] == "be brief"
    assert len(exported(tmp_path, "--all")) == 1


def test_after_resuming_the_same_seed_gives_the_same_text(tmp_path: Path) -> None:
    whole = chat_here(tmp_path / "a", *TOY, lines="one\ntwo\n/quit\n")
    chat_here(tmp_path / "b", *TOY, lines="one\n/quit\n")
    chat_here(tmp_path / "b", "-C", "-n", "30", "--seed", "1", lines="two\n/quit\n")
    assert current(tmp_path / "b") == current(tmp_path / "a")
    chat_here(tmp_path / "b", "-C", "-n", "30", "--seed", "1", lines="/undo\ntwo\n/quit\n")
    assert current(tmp_path / "b") == current(tmp_path / "a")
    chat_here(tmp_path / "b", "-C", "-n", "30", "--seed", "5", lines="/undo\ntwo\n/quit\n")
    assert current(tmp_path / "b")[:3] == current(tmp_path / "a")[:3]
    assert current(tmp_path / "b")[3] != current(tmp_path / "a")[3]
    assert whole[0] == 0


@pytest.mark.parametrize("how", ["flag", "words", "pipe", "id", "json"])
def test_one_answer_can_go_on_with_a_conversation(tmp_path: Path, how: str) -> None:
    localspec("run", *TOY, "one", home=tmp_path)
    (first,) = exported(tmp_path)
    localspec("run", *TOY, "another", home=tmp_path)
    localspec("run", "--resume", first["id"][:6], "-n", "5", "two", home=tmp_path)
    arguments = {
        "flag": ["-C", "-p", "three"],
        "words": ["-C", "three"],
        "pipe": ["-C"],
        "id": ["--resume", first["id"], "toy", "three"],
        "json": ["-C", "--json", "three"],
    }[how]
    done = localspec("run", *arguments, "-n", "5", home=tmp_path, stdin="three\n" if how == "pipe" else "")
    assert done.returncode == 0
    texts = current(tmp_path)
    assert (texts[0], texts[2], texts[4], len(texts)) == ("one", "two", "three", 6)
    (conversation, *_) = exported(tmp_path)
    assert conversation["id"] == first["id"]
    # Three questions, an answer of 30 tokens and one of 5 went to the model.
    assert conversation["messages"][-1]["statistics"]["prompt_tokens"] > 40


def test_the_conversation_s_model_comes_before_the_environment_s_and_after_a_flag(tmp_path: Path) -> None:
    localspec("run", *TOY, "one", home=tmp_path)
    extra = {"LOCALSPEC_MODEL": "nope.gguf"}
    assert localspec("run", "-C", "-n", "5", "two", home=tmp_path, extra=extra).returncode == 0
    assert localspec("run", "-C", "nope.gguf", "two", home=tmp_path).returncode == 3
    assert localspec("run", "-C", "-m", "nope.gguf", "two", home=tmp_path).returncode == 3
    done = localspec("run", "-m", "toy", "-n", "5", "-p", "hi", home=tmp_path, extra=extra)
    assert (done.returncode, current(tmp_path)[0]) == (0, "hi")


@pytest.mark.parametrize("words", ["x" * 5000, "~nobody at home?", "why\n" * 900])
def test_a_question_that_is_no_name_is_a_question(tmp_path: Path, words: str) -> None:
    localspec("run", *TOY, "one", home=tmp_path)
    assert localspec("run", "-C", "-n", "5", "-c", "20000", words, home=tmp_path).returncode == 0
    assert current(tmp_path)[2] == words.rstrip("\n")


FAILURES = {
    "no conversation to go on with": (["run", "-C", "hi"], 1, "No conversations are saved"),
    "no conversation of this id": (["run", "--resume", "zz", "hi"], 2, "id begins with 'zz'"),
    "none to show": (["history", "show"], 1, "No conversations are saved"),
    "none of this id to show": (["history", "show", "zz"], 2, "id begins with 'zz'"),
    "no word": (["history", "search", "*"], 2, "'*' contains no word"),
    "rm of nothing": (["history", "rm"], 2, "rm needs ids or --all"),
    "rm of both": (["history", "rm", "--all", "zz"], 2, "rm takes ids or --all, not both"),
    "export of both": (["history", "export", "--all", "zz"], 2, "export takes an id or --all, not both"),
    "export of an empty id": (["history", "export", ""], 2, "the id is empty; a shell variable may be unset."),
    "show of an empty id": (["history", "show", ""], 2, "the id is empty; a shell variable may be unset."),
    "rm of none": (["history", "rm", "zz"], 2, "id begins with 'zz'"),
    "rm of an empty id": (["history", "rm", ""], 2, "id is empty"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_bad_input_has_its_exit_code_and_a_sentence(tmp_path: Path, name: str) -> None:
    arguments, code, words = FAILURES[name]
    done = localspec(*arguments, home=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not database(tmp_path).exists()


def test_a_first_message_that_failed_is_listed_and_shown(tmp_path: Path) -> None:
    assert localspec("run", *TOY, "word " * 200, home=tmp_path).returncode == 1
    (conversation,) = exported(tmp_path)
    for command in ("show", "export"):
        done = localspec("history", command, home=tmp_path)
        assert (done.returncode, conversation["id"] in done.stdout) == (0, True), done.stderr
    _, screen = chat_here(tmp_path, "-C", "-m", "toy", lines="/quit\n")
    assert f"Continuing {conversation['id']}" in screen


def test_nothing_saved_and_nothing_found_are_no_failures(tmp_path: Path) -> None:
    done = localspec("history", "ls", home=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert str(database(tmp_path)) in done.stderr
    assert json.loads(localspec("history", "ls", "--json", home=tmp_path).stdout)["conversations"] == []
    done = localspec("history", "search", "word", home=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "Nothing found.\n")


def test_what_is_removed_is_gone_for_good(tmp_path: Path) -> None:
    for word in ("xylophone", "zeppelin"):
        localspec("run", *TOY, word, home=tmp_path)
    gone = exported(tmp_path, "--all")[1]["id"]
    assert f"Removed {gone} (xylophone)." in localspec("history", "rm", gone[:6], home=tmp_path).stdout
    assert [conversation["title"] for conversation in exported(tmp_path, "--all")] == ["zeppelin"]
    left = b"".join(path.read_bytes() for path in database(tmp_path).parent.iterdir())
    assert (b"xylophone" in left, b"zeppelin" in left) == (False, True)
    damaged = database(tmp_path).with_name("conversations.db.damaged-1")
    damaged.write_bytes(b"old words")
    done = localspec("history", "rm", "--all", home=tmp_path)
    assert done.stdout == "Removed all saved conversations (1).\n"
    assert str(damaged) in done.stderr
    assert localspec("history", "rm", "--all", home=tmp_path).stdout == "No conversations are saved.\n"


@pytest.mark.parametrize(("typed", "flags", "left"), [("n\n", [], 1), ("y\n", [], 0), ("\n", [], 1), ("", ["-y"], 0)])
def test_on_a_terminal_rm_asks_first(tmp_path: Path, typed: str, flags: list[str], left: int) -> None:
    localspec("run", *TOY, "hello", home=tmp_path)
    done = localspec("history", "rm", "--all", *flags, home=tmp_path, typed=typed)
    assert ("for good?" in done.stderr) == (not flags)
    assert (done.returncode, len(exported(tmp_path, "--all"))) == (left, left)


SENTENCE_END = re.compile(r"[^\W_][^.\n]*[.\n]")


def kill_in_mid_answer(home: Path, seed: int, after: int) -> tuple[str, str]:
    """Kill -9 a run after so many characters; return what was shown and what was saved of the answer."""
    process = subprocess.Popen(
        [sys.executable, "-m", "app", "run", *ENDLESS, "--seed", str(seed)],
        cwd=ROOT, env=environment(home), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        encoding="utf-8", errors="replace",
    )  # fmt: skip
    assert process.stdout is not None
    shown = process.stdout.read(after)
    process.send_signal(signal.SIGKILL)
    shown += process.stdout.read()
    process.stdout.close()
    assert process.wait() == -signal.SIGKILL
    (conversation,) = exported(home)
    assert conversation["messages"][0]["text"] == "hello"
    answers = [message for message in conversation["messages"] if message["role"] == "assistant"]
    assert all(answer["finish"] is None and answer["current"] for answer in answers)
    return shown, answers[0]["text"] if answers else ""


def loses_a_sentence_at_most(home: Path) -> None:
    kept = 0
    for seed, after in ((1, 40), (3, 700), (4, 1500)):
        shown, saved = kill_in_mid_answer(home / str(seed), seed, after)
        if len(shown) < after:
            continue
        # What was written may have got no time to be shown.
        assert shown.startswith(saved) or saved.startswith(shown)
        lost = shown[len(saved) :]
        assert not SENTENCE_END.search(lost), (shown, saved)
        assert len(lost) <= 200
        kept += len(saved)
    assert kept > 1500


def test_kill_9_in_mid_answer_loses_at_most_the_running_sentence(tmp_path: Path) -> None:
    loses_a_sentence_at_most(tmp_path)


def test_an_answer_that_was_cut_off_by_a_kill_is_told_so_and_gone_on_with(tmp_path: Path) -> None:
    _, saved = kill_in_mid_answer(tmp_path, 3, 700)
    assert "unfinished" in localspec("history", "show", home=tmp_path).stdout
    code, screen = chat_here(tmp_path, "-C", "-n", "9", "-c", "9000", lines="and then\n/quit\n")
    assert (code, "unfinished" in screen) == (0, True)
    assert current(tmp_path)[:3] == ["hello", saved, "and then"]


def test_leaving_in_mid_answer_saves_all_that_was_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken_off(*_: object) -> Iterator[Said]:
        yield said("half a", 1)
        raise KeyboardInterrupt

    monkeypatch.setattr(LineEngine, "answer", broken_off)
    assert chat_here(tmp_path, *TOY, lines="hello\n")[0] == 130
    assert current(tmp_path) == ["hello", "half a"]
    assert exported(tmp_path)[0]["messages"][1]["finish"] == "cancelled"


def test_a_message_without_an_answer_is_told_of_and_not_sent(tmp_path: Path) -> None:
    localspec("run", *TOY, "one", home=tmp_path)
    with closing(sqlite3.connect(database(tmp_path))) as connection, connection:
        ((number, leaf),) = connection.execute("SELECT id, leaf FROM conversation").fetchall()
        values = (5, number, leaf, "user", "lost\nquestion", 9e9)
        connection.execute(
            "INSERT INTO entry (id, conversation, parent, role, text, created) VALUES (?,?,?,?,?,?)", values
        )
        connection.execute("UPDATE conversation SET leaf = 5")
    code, screen = chat_here(tmp_path, "-C", "-n", "9", lines="two\n/quit\n")
    assert (code, "this message got no answer: lost question" in screen) == (0, True)
    assert [current(tmp_path)[0], *current(tmp_path)[2:3]] == ["one", "two"]


def test_two_runs_at_once_are_both_saved(tmp_path: Path) -> None:
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "app", "run", "toy", "-n", "300", "-q", "--seed", str(seed), f"run {seed}"],
            cwd=ROOT, env=environment(tmp_path), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )
        for seed in (1, 2)
    ]  # fmt: skip
    told = [process.communicate(timeout=60) for process in runs]
    assert [errors for _, errors in told] == ["", ""]
    saved = {found["title"]: found["messages"][1]["text"] for found in exported(tmp_path, "--all")}
    assert saved == {f"run {seed}": text.rstrip("\n") for seed, (text, _) in zip((1, 2), told, strict=True)}


def test_a_damaged_file_is_moved_aside_and_said_so(tmp_path: Path) -> None:
    localspec("run", *TOY, "one", home=tmp_path)
    database(tmp_path).write_bytes(b"damaged " * 2000)
    done = localspec("run", *TOY, "two", home=tmp_path)
    assert done.returncode == 0
    assert "damaged" in done.stderr
    (aside,) = database(tmp_path).parent.glob("*damaged*")
    assert str(aside) in done.stderr.replace("\n", "")
    assert current(tmp_path)[0] == "two"
    database(tmp_path).write_bytes(b"damaged " * 2000)
    done = localspec("run", "-C", "three", home=tmp_path)
    assert (done.returncode, done.stderr.count("damaged-")) == (1, 1)


def test_a_newer_file_is_refused_by_the_commands_and_costs_a_run_one_note(tmp_path: Path) -> None:
    localspec("run", *TOY, "one", home=tmp_path)
    with closing(sqlite3.connect(database(tmp_path))) as connection:
        connection.execute("PRAGMA user_version = 99")
    for arguments in (["ls"], ["show"], ["search", "one"], ["export", "--all"], ["rm", "--all"]):
        done = localspec("history", *arguments, home=tmp_path)
        assert (done.returncode, done.stdout) == (1, "")
        assert "Update localspec" in done.stderr
    done = localspec("run", *TOY, "two", home=tmp_path)
    assert (done.returncode, done.stderr.count("newer localspec")) == (0, 1)


def answers_without_a_disk(home: Path, screen: str) -> None:
    assert screen.count("is not saved") == 1
    assert screen.count("30 tokens") == 3
    assert "Traceback" not in screen
    plain = chat_here(home, *TOY, "--no-history", lines="one\n/quit\n")[1].splitlines()[-1]
    assert plain.removeprefix("> ").removesuffix("> ") in screen


@pytest.mark.parametrize("limit", [50_000, 4096])
def test_a_full_disk_costs_one_note_and_no_answer(tmp_path: Path, limit: int) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
    )
    extra = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    code, screen = chat(tmp_path, *TOY, lines="one\ntwo\n/undo\n/title x\nthree\n/quit\n", extra=extra)
    assert code == 0
    answers_without_a_disk(tmp_path, screen)


def test_a_folder_that_can_t_be_made_costs_one_note_and_no_answer(tmp_path: Path) -> None:
    database(tmp_path).parent.parent.mkdir(parents=True)
    database(tmp_path).parent.write_text("a file where the folder belongs")
    code, screen = chat_here(tmp_path, *TOY, lines="one\ntwo\n/undo\n/title x\nthree\n/quit\n")
    assert code == 0
    answers_without_a_disk(tmp_path, screen)
    done = localspec("run", *TOY, "one", home=tmp_path)
    assert (done.returncode, done.stderr.count("is not saved"), len(done.stdout) > 20) == (0, 1, True)


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    localspec("run", *TOY, "one", home=tmp_path)
    folder = database(tmp_path).parent
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_listing_and_searching_load_no_model_code(tmp_path: Path) -> None:
    localspec("run", *TOY, "one", home=tmp_path)
    code = (
        "import sys; from app.command_line.cli import command_line\n"
        "for arguments in (['ls'], ['show'], ['search', 'one'], ['export']):\n"
        "    try: command_line(['history', *arguments])\n"
        "    except SystemExit: pass\n"
        "print([name for name in ('numpy', 'jinja2', 'llama_cpp', 'textual') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("\n[]\n")


def test_the_engine_is_told_in_which_tokens_the_answers_were_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    monkeypatch.setattr(Transcript, "recall", lambda _, *what, **how: told.append((*what, how)))
    chat_here(tmp_path, *TOY, "-sys", "be brief", lines="one\n/regen\n/quit\n")
    chat_here(tmp_path, "-C", "-n", "5", lines="two\n/quit\n")
    localspec("run", "-C", "-n", "5", "three", home=tmp_path)
    messages = exported(tmp_path)[0]["messages"]
    tokens = [tuple(message["tokens"]) for message in messages if message["role"] == "assistant" and message["current"]]
    how = {"raw": False, "special": False}
    assert [told_of[1:] for told_of in told] == [(tokens[:1], how), (tokens[:2], how)]
    assert [len(turns) for turns, _, _ in told] == [3, 5]
    assert [len(ids) for ids in tokens] == [30, 5, 5]
