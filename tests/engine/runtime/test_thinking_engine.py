"""A model that thinks, through the whole engine: what a prompt began of an answer is part of it, and counted once."""

from pathlib import Path
from typing import cast

import pytest
from thinking_toy import ThinkingToy
from toy_answers import rounds_of, toy_messages

from app.engine.conversation.messages import Ended
from app.engine.runtime import load
from models.text.thoughts import Effort, divided


@pytest.fixture(autouse=True)
def _thinks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "ToyModel", ThinkingToy)


@pytest.mark.parametrize("drafter", ["off", "suffix", "model:toy"])
def test_the_opening_is_the_text_of_the_first_token(tmp_path: Path, drafter: str) -> None:
    messages = toy_messages(tmp_path, drafter)
    rounds, ended = rounds_of(messages), cast(Ended, messages[-1])
    assert ended.answer.startswith("<think>\n")
    assert "".join(said.text for said in rounds) + ended.text == ended.answer
    assert b"".join(piece for said in rounds for piece in said.pieces).decode() == ended.answer
    assert sum(length for said in rounds for length in said.lengths) == len(ended.answer)
    assert divided(ended.answer).answer


def test_drafting_changes_nothing_of_thoughts_and_answer(tmp_path: Path) -> None:
    plain, drafted = (cast(Ended, toy_messages(tmp_path, drafter, adapt=False)[-1]) for drafter in ("off", "model:toy"))
    assert drafted.stats.accepted > 0
    assert drafted.answer == plain.answer


@pytest.mark.parametrize("asked", [{"effort": Effort.OFF}, {"raw": True}, {"tokens": (1, 2, 3)}])
def test_nothing_is_begun_where_the_prompt_begins_no_thoughts(tmp_path: Path, asked: dict[str, object]) -> None:
    ended = cast(Ended, toy_messages(tmp_path, "off", **asked)[-1])
    assert not ended.answer.startswith("<think>")
    assert ended.answer


def test_an_answer_without_a_token_has_no_opening_either(tmp_path: Path) -> None:
    assert cast(Ended, toy_messages(tmp_path, "off", max_tokens=0)[-1]).answer == ""


@pytest.mark.parametrize("drafter", ["off", "suffix", "model:toy"])
def test_a_stop_string_does_not_end_thoughts(tmp_path: Path, drafter: str) -> None:
    """An answer that ends within its thoughts would be empty, for a reason that no client can see."""
    whole = divided(cast(Ended, toy_messages(tmp_path, "off")[-1]).answer)
    stop = next(piece for piece in sorted({*whole.thoughts.split()}) if piece not in whole.answer)
    kept = divided(cast(Ended, toy_messages(tmp_path, drafter, stops=(stop,))[-1]).answer)
    assert kept == whole
    word = whole.answer.split()[-1]
    ended = cast(Ended, toy_messages(tmp_path, drafter, stops=(word,))[-1])
    assert divided(ended.answer).thoughts == whole.thoughts
    assert divided(ended.answer).answer == whole.answer[: whole.answer.index(word)]


def test_a_stop_string_of_the_thoughts_ends_an_answer_to_a_bare_prompt(tmp_path: Path) -> None:
    ended = cast(Ended, toy_messages(tmp_path, "off", raw=True)[-1])
    word = ended.answer.split()[-1]
    stopped = cast(Ended, toy_messages(tmp_path, "off", raw=True, stops=(word,))[-1])
    assert stopped.answer == ended.answer[: ended.answer.index(word)]
