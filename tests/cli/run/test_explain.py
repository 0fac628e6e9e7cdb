"""Walking through a round: --explain for one answer, /explain in a chat; and what --no-adapt says of itself."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from run_here import localspec_here as localspec

from app.engine.decoding.request import Question
from app.engine.runtime.blocking_engine import LineEngine
from app.engine.runtime.load import LoadPlan
from app.line_chat.chat import Chat
from app.line_chat.commands import run_command
from app.shell.terminal import Terminal
from drafters.registry import parse_drafter
from models.errors import UsageError
from models.llama.load import LlamaOptions
from models.sampling.accept import Accept
from models.sampling.sampler import SamplingParams

ASKED = ("run", "toy", "the sea the sea the sea", "--seed", "5", "--temp", "0.7", "-n", "30", "--no-memory")
DRAFTING = ("--draft", "lookup", "--no-adapt", "--draft-max", "4")


def test_explain_ends_with_a_walk_on_stderr_and_changes_no_text(tmp_path: Path) -> None:
    bare = localspec(*ASKED, *DRAFTING, home=tmp_path)
    explained = localspec(*ASKED, *DRAFTING, "--explain", home=tmp_path)
    assert explained.stdout == bare.stdout
    costs, _, walk = explained.stderr.partition("\nRound ")
    assert "pass cost" in costs
    assert "Replacement of draft token" in walk
    assert "Round" not in bare.stderr


def test_a_chat_says_that_explain_is_for_one_answer(tmp_path: Path) -> None:
    done = localspec("run", "toy", "--plain", "--explain", home=tmp_path, typed="/quit\n")
    assert (done.returncode, "in a chat, use /explain" in done.stderr) == (0, True)


@pytest.mark.parametrize("rule", [Accept.RESIDUAL, Accept.TYPICAL])
def test_a_walk_says_by_which_rule_and_what_it_promises(tmp_path: Path, rule: Accept) -> None:
    said = localspec(*ASKED, *DRAFTING, "--accept", str(rule), "--explain", home=tmp_path).stderr
    assert f"temperature 0.7, accept rule {rule} ({rule.claim})" in said
    assert ("Approximate" in said) == (rule is Accept.TYPICAL)


def records(home: Path, *flags: str) -> list[dict[str, Any]]:
    done = localspec(*ASKED, *flags, "--json", home=home)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_walk_in_the_last_json_line_is_of_a_round_that_was_told(tmp_path: Path) -> None:
    lines = records(tmp_path, *DRAFTING, "--explain")
    walk, told = lines[-1]["walk"], [line for line in lines if line["type"] == "round"]
    round_ = told[walk["round"] - 1]
    assert [step["token"] for step in walk["steps"]] == round_["draft"]
    assert [one["token"] for one in walk["emitted"]] == round_["tokens"]
    assert [step["fate"] for step in walk["steps"]].count("kept") == round_["accepted"] < len(round_["draft"])
    later = [line for line in told[walk["round"] :] if line["draft"]]
    assert all(line["accepted"] == len(line["draft"]) for line in later), "it is the last with a rejection"


def test_the_last_json_line_without_a_walk(tmp_path: Path) -> None:
    assert records(tmp_path, *DRAFTING)[-1]["walk"] is None
    assert records(tmp_path, "--draft", "off", "--explain")[-1]["walk"] == {
        "reason": "No round of the last answer drafted, so there is none to explain."
    }


def test_explain_does_not_say_that_a_draft_model_was_not_asked_that_drafted_all_the_time(tmp_path: Path) -> None:
    flags = ("--draft", "model:toy", "--no-adapt", "--explain")
    said = localspec(*ASKED, *flags, home=tmp_path).stderr
    assert "no draft yet" not in said
    assert "next try" not in said
    assert "--no-adapt: every draft is verified, whether it pays off or not. model:toy-0 drafts wherever" in said
    end = records(tmp_path, *flags)[-1]
    assert end["speculation"]["draft_n"] > 0
    assert (end["explanation"]["adapts"], end["explanation"]["next_try_in_rounds"]) == (False, None)


# --- the chat ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def chat(tmp_path: Path) -> Iterator[Chat]:
    terminal = Terminal(quiet=True)
    plan = LoadPlan("toy", parse_drafter("lookup"), LlamaOptions(), tmp_path / "memory")
    settings = Question((), SamplingParams(seed=5, temperature=0.7), max_tokens=30, draft_length=4, adapt=False)
    engine = LineEngine(plan, terminal)
    try:
        yield Chat(engine, terminal, settings, None, engine.load().drafter)
    finally:
        engine.close()


def told(chat: Chat, capsys: pytest.CaptureFixture[str], command: str) -> str:
    capsys.readouterr()
    run_command(chat, command)
    return capsys.readouterr().err


def number_in(text: str) -> int:
    return int(text.removeprefix("Round ").partition(",")[0])


def test_the_chat_walks_through_the_last_rounds_and_goes_on_as_if_it_had_not(
    chat: Chat, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(chat, capsys, "/explain").startswith("No round of the last answer drafted")
    chat.ask("the sea the sea the sea")
    last, before = told(chat, capsys, "/explain"), told(chat, capsys, "/explain 2")
    assert last.startswith("Round ")
    assert number_in(last) > number_in(before)
    assert told(chat, capsys, "/explain 1") == last
    assert "rounds to explain" in told(chat, capsys, "/explain 9999")
    chat.ask("and then the sea")
    walked = [turn.text for turn in chat.turns]
    chat.turns.clear()
    for text in (walked[0], walked[2]):
        chat.ask(text)
    assert [turn.text for turn in chat.turns] == walked


@pytest.mark.parametrize("argument", ["0", "-1", "x", "1 2", "1.5", "99999", "\N{SUPERSCRIPT TWO}"])
def test_what_is_no_number_of_a_round_is_refused(chat: Chat, argument: str) -> None:
    with pytest.raises(UsageError, match=f"/explain can't take '{argument}'"):
        run_command(chat, f"/explain {argument}")


def test_the_chat_says_of_no_adapt_what_it_does(chat: Chat, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--no-adapt: every draft is verified" in told(chat, capsys, "/spec")
    assert "/explain [N]" in told(chat, capsys, "/help")


def test_what_drafting_costs_is_told_for_the_settings_of_the_next_answer(
    chat: Chat, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "draft limit     4 tokens" in told(chat, capsys, "/spec"), "before there is an answer"
    chat.ask("the sea the sea the sea")
    told(chat, capsys, "/set draft-max 2")
    assert "draft limit     2 tokens" in told(chat, capsys, "/spec"), "the last one had another"
    told(chat, capsys, "/draft suffix")
    assert "draft limit     2 tokens" in told(chat, capsys, "/spec"), "another drafter has the same"
