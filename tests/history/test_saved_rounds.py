"""An answer's rounds are saved with it, so that it can be stepped through when the conversation goes on."""

import json
from pathlib import Path

import pytest
from run_localspec import localspec
from toy_answers import rounds_of, toy_answer

from app.history.rounds import AnswerRounds, pack, unpack

ROUNDS = rounds_of(list(toy_answer()))


def test_rounds_come_back_from_their_packed_form() -> None:
    assert len(ROUNDS) > 5
    assert unpack(pack(ROUNDS)) == AnswerRounds.of(ROUNDS)


def test_no_rounds_are_nothing() -> None:
    assert pack([]) == b""
    assert unpack(b"") is None


@pytest.mark.parametrize("change", [lambda p: p[:-4], lambda p: b"x" + p, lambda p: p[:30] + b"\0" * 9 + p[39:]])
def test_damaged_rounds_are_none(change: object) -> None:
    assert unpack(change(pack(ROUNDS))) is None  # type: ignore[operator]


def test_marks_tell_for_each_token_its_characters_and_where_it_came_from() -> None:
    lengths, origins = AnswerRounds.of(ROUNDS).marks()
    assert lengths == [length for one in ROUNDS for length in one.lengths]
    assert len(origins) == len(lengths)


def test_an_exported_conversation_has_the_rounds_of_its_answers(tmp_path: Path) -> None:
    asked = localspec("run", "toy", "abcabcabc", "-n", "20", "--seed", "1", "--draft", "lookup", home=tmp_path)
    assert asked.returncode == 0, asked.stderr
    exported = localspec("history", "export", "--json", home=tmp_path)
    answer = json.loads(exported.stdout)["messages"][1]
    assert sum(len(round_[0]) for round_ in answer["rounds"]["rounds"]) == len(answer["tokens"]) == 20
