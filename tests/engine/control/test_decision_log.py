"""The decision log: what the controller decides on recorded answers is what the file in tests/data says."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from decision_log import GOLDEN, SITUATIONS, LoggedAnswer, differences, golden, logged_answers, read, save

KINDS = ("code", "qa")
"""Classes of answers that are played here; the command plays all."""
HINT = (
    "The controller decides otherwise than the recorded log says. If that is intended, look at the difference with "
    "tests/support/tools/decision_log.py --compare and rewrite tests/data/decisions.json with --golden."
)


@pytest.fixture(scope="module")
def answers() -> Sequence[LoggedAnswer]:
    return list(logged_answers(kinds=KINDS))


def test_every_decision_is_the_recorded_one(answers: Sequence[LoggedAnswer]) -> None:
    recorded = json.loads(GOLDEN.read_text())
    assert len(answers) == len(SITUATIONS) * len(KINDS) * 4
    assert [key for key, hashes in golden(answers).items() if recorded[key] != hashes] == [], HINT


def test_the_recorded_log_has_all_answers_of_all_classes() -> None:
    recorded = json.loads(GOLDEN.read_text())
    assert len(recorded) == len(SITUATIONS) * 36
    assert len({key.rpartition(", ")[2].split()[0] for key in recorded}) == 9


def test_every_kind_of_decision_is_in_the_log(answers: Sequence[LoggedAnswer]) -> None:
    seen = {str(tuple(decision[place] for place in FEATURES[decision[0]])) for a in answers for decision in a.decisions}
    assert {"('request', 'draft')", "('request', 'check')", "('request', 'nothing')"} <= seen
    assert {"('step', True)", "('step', False)", "('learn',)", "('next try',)"} <= seen
    selected = [decision for answer in answers for decision in answer.decisions if decision[0] == "select"]
    assert any(siblings for *_, siblings, _, _ in selected)
    assert any(shared for *_, shared, _ in selected)
    assert any(decision == ["limit", 0] for answer in answers for decision in answer.decisions)


FEATURES = {"limit": (0,), "select": (0,), "next try": (0,), "learn": (0,), "request": (0, 3), "step": (0, 3)}


def test_a_changed_rule_is_seen_and_said(
    answers: Sequence[LoggedAnswer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(answers, tmp_path / "before.json.gz")
    before = read(tmp_path / "before.json.gz")
    assert list(differences(before, answers)) == []
    monkeypatch.setattr("app.engine.control.expected_gain.MARGIN", 0.5)
    lines = list(differences(before, list(logged_answers(SITUATIONS[:2], ("code",)))))
    assert len(lines) >= 4
    assert "decisions differ; first at" in lines[0]
