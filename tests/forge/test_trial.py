"""A trial that is stopped goes on after the prompts that were answered, and a new drafter gets a new trial."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from bench_fakes import answer
from tiny_gguf import CHATML_TEMPLATE, write_llama

from app.bench.measuring.arms import ArmAnswer
from app.engine.decoding.ending import Finish
from app.forge.options import make
from app.forge.request import ForgeRequest
from app.forge.request_from_flags import read_forge
from app.forge.trial import Trial, forget_trial, try_out
from app.forge.trial_answers import TrialAnswers
from models.abort import AbortFlag
from models.errors import Cancelled

ARMS, TURNS, TEMPERATURES = 3, (2, 1, 1, 1), 2
"""What a trial of these tests has: arms, turns of its prompts, temperatures."""
WHOLE = ARMS * sum(TURNS) * TEMPERATURES
TWO_PROMPTS = ARMS * sum(TURNS[:2])


@pytest.fixture
def request_(tmp_path: Path) -> ForgeRequest:
    target = write_llama(tmp_path / "tiny.gguf", n_layer=7, n_ctx=2048, chat_template=CHATML_TEMPLATE)
    context = make.make_context("make", [str(target), "--method", "prune", "--yes", "-t", "1"])
    read = read_forge(str(target), {name: value for name, value in context.params.items() if name != "target"}, [])
    work = tmp_path / "work"
    work.mkdir()
    return replace(read, work=work)


@pytest.fixture
def drafter(tmp_path: Path) -> Path:
    return write_llama(tmp_path / "drafter.gguf", n_layer=2, noise=0.05, n_ctx=2048)


def tried(request: ForgeRequest, drafter: Path, stop_at: int = -1) -> tuple[list[str], Trial | None]:
    """Try a drafter, and stop before an answer; return what was begun, and the outcome, None after a stop."""
    begun, abort = list[str](), AbortFlag()

    def tell(what: str, *_: float) -> None:
        if len(begun) == stop_at:
            abort.set()
        else:
            begun.append(what)

    try:
        return begun, try_out(request, drafter, abort, tell)
    except Cancelled:
        return begun, None


def test_a_trial_that_is_stopped_goes_on_after_the_last_prompt_that_was_answered(
    request_: ForgeRequest, drafter: Path
) -> None:
    whole, _ = tried(request_, drafter)
    assert len(whole) == WHOLE
    forget_trial(request_.work)
    assert list(request_.work.iterdir()) == []
    # Two prompts are whole, and one answer of the third.
    stopped, nothing = tried(request_, drafter, stop_at=TWO_PROMPTS + 1)
    assert nothing is None
    assert stopped == whole[: TWO_PROMPTS + 1]
    rest, outcome = tried(request_, drafter)
    assert sorted(rest) == sorted(whole[TWO_PROMPTS:])
    assert outcome is not None
    assert {(each.temperature, each.length) for each in outcome.figures} == {(0, 1), (0, 3), (0.7, 1), (0.7, 3)}


def test_a_prompt_of_which_one_turn_was_answered_is_asked_again(request_: ForgeRequest, drafter: Path) -> None:
    tried(request_, drafter, stop_at=ARMS + 1)
    rest, _ = tried(request_, drafter)
    assert len(rest) == WHOLE


def test_the_tokens_and_the_accepted_drafts_are_those_of_a_trial_that_was_not_stopped(
    request_: ForgeRequest, drafter: Path
) -> None:
    _, whole = tried(request_, drafter)
    forget_trial(request_.work)
    for stop_at in (TWO_PROMPTS, WHOLE // 2 + ARMS):
        tried(request_, drafter, stop_at)
    _, outcome = tried(request_, drafter)
    assert whole is not None
    assert outcome is not None
    assert outcome.tokens == whole.tokens
    assert [(each.rounds, each.accepted) for each in outcome.figures] == [
        (each.rounds, each.accepted) for each in whole.figures
    ]


def test_the_draft_model_that_it_began_with_goes_on_too(request_: ForgeRequest, drafter: Path, tmp_path: Path) -> None:
    before = write_llama(tmp_path / "before.gguf", n_layer=3, noise=0.05, n_ctx=2048)
    request = replace(request_, draft=before)
    tried(request, drafter, stop_at=WHOLE + TWO_PROMPTS)
    rest, outcome = tried(request, drafter)
    assert len(rest) == WHOLE - TWO_PROMPTS
    assert all(what.startswith("trial without it") for what in rest)
    assert outcome is not None
    assert outcome.rival is not None
    forget_trial(request.work)
    assert list(request.work.iterdir()) == []


def test_with_keep_a_trial_that_has_ended_is_not_repeated(request_: ForgeRequest, drafter: Path) -> None:
    _, first = tried(request_, drafter)
    assert first is not None
    again, outcome = tried(replace(request_, keep=True), drafter)
    assert again == []
    assert outcome is not None
    assert (outcome.tokens, outcome.plain_tokens_per_second) == (first.tokens, first.plain_tokens_per_second)
    # Without it, the user wants to know whether it pays now.
    assert len(tried(request_, drafter)[0]) == WHOLE


def test_another_drafter_or_another_number_of_threads_is_tried_from_the_start(
    request_: ForgeRequest, drafter: Path
) -> None:
    tried(request_, drafter, stop_at=TWO_PROMPTS)
    other = write_llama(drafter.with_name("other.gguf"), n_layer=2, noise=0.06, n_ctx=2048)
    for request, file in ((request_, other), (replace(request_, threads=2), drafter)):
        assert len(tried(request, file)[0]) == WHOLE


def given() -> list[ArmAnswer]:
    plain = answer("off", "chat/1", [(0.5, 1), (0.25, 1)], finish=Finish.END, temperature=0.7)
    return [plain, answer("model:1", "chat/1", [(0.5, 2)], sources=("model",), fork=1, temperature=0.7)]


def test_answers_are_read_as_they_were_written(tmp_path: Path) -> None:
    stored = TrialAnswers(tmp_path / "trial.json", {"threads": 1})
    stored.add(given())
    again = TrialAnswers(tmp_path / "trial.json", {"threads": 1})
    assert again.answers == given()
    assert again.has("chat/1", 0.7)
    assert not again.has("chat/1", 0.0)
    assert TrialAnswers(tmp_path / "trial.json", {"threads": 2}).answers == []
    assert not again.finished
    again.finish()
    assert TrialAnswers(tmp_path / "trial.json", {"threads": 1}).finished


@pytest.mark.parametrize("damage", ["", "[]", '{"conditions": {"threads": 1}, "answers": [{}]}', "cut", "a field"])
def test_a_damaged_file_counts_as_empty(damage: str, tmp_path: Path) -> None:
    file = tmp_path / "trial.json"
    TrialAnswers(file, {"threads": 1}).add(given())
    text = file.read_text()
    known = json.loads(text)
    known["answers"][0]["finish"] = "nothing that is known"
    file.write_text({"cut": text[:-9], "a field": json.dumps(known)}.get(damage, damage))
    assert TrialAnswers(file, {"threads": 1}).answers == []
