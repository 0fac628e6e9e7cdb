"""The constants of drafting: each is documented and used, and the tool that judges them can tell good from bad."""

import ast
from pathlib import Path

import constants
import pytest
from constants import Score, halves, judged, numbers, others, played
from decision_log import traces

import app.engine.constants

ROOT = Path(__file__).parents[3]
FILES = ROOT / "app/engine/constants.py", ROOT / "drafters/chances.py"


def named(path: Path) -> list[tuple[tuple[str, ...], ast.stmt]]:
    """Return the names that each statement of a file assigns, and the statement behind it."""
    body = ast.parse(path.read_text()).body
    found = []
    for statement, behind in zip(body, [*body[1:], ast.Pass()], strict=True):
        if isinstance(statement, ast.Assign):
            names = ast.walk(statement.targets[0])
            found.append((tuple(each.id for each in names if isinstance(each, ast.Name)), behind))
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_constant_is_documented_and_used(path: Path) -> None:
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    users = [file.read_text() for room in ("app", "drafters") for file in (ROOT / room).rglob("*.py") if file != path]
    users = [text for text in users if module in text]
    lists = {"MATCH_LENGTHS", "EVIDENCE"}  # the places of the shares below them
    for names, behind in named(path):
        assert lists.issuperset(names) or isinstance(behind, ast.Expr), f"{names} has no docstring"
        for name in names:
            assert any(name in text for text in users), f"{name} is used nowhere"


def test_every_number_is_varied_on_both_sides() -> None:
    every = numbers()
    assert {"MARGIN", "PRIOR", "MEMORY", "HORIZON"} <= set(every)
    for name, value in every.items():
        below, above = others(value)
        assert below < value < above, name
        if 0.5 < value < 1:
            assert above < 1, name


def test_the_halves_share_no_prompt_and_each_has_every_class() -> None:
    first, second = halves(traces())
    assert not {trace.prompt for trace in first} & {trace.prompt for trace in second}
    assert {trace.kind for trace in first} == {trace.kind for trace in second} == {each.kind for each in traces()}
    assert len(first) + len(second) == len(traces())


def test_a_bad_constant_costs_speed_in_playback(monkeypatch: pytest.MonkeyPatch) -> None:
    few = [trace for trace in traces() if trace.kind == "code"][:4]
    monkeypatch.setattr("decision_log.traces", lambda: tuple(few))
    good = played({}, None, ["suffix index alone"])
    # Modules have read the constants by now, so a changed one is set where it is used.
    monkeypatch.setattr("app.engine.control.expected_gain.MARGIN", 20.0)
    monkeypatch.setattr("app.engine.control.adaptive_controller.MARGIN", 20.0, raising=False)
    bad = played({}, None, ["suffix index alone"])
    assert good[0][0] > 1.05 * bad[0][0]


@pytest.mark.parametrize(
    ("tried", "verdict"),
    [
        (Score(1.01, 0.0), "is better on the first half, and too on the second"),
        (Score(1.01, 0.02), "kept"),
        (Score(1.0005, 0.0), "kept"),
    ],
)
def test_a_value_is_better_if_it_gains_and_slows_no_answer_down(tried: Score, verdict: str) -> None:
    plain = Score(1.0, 0.01)
    assert judged("MARGIN", 0.03, {0.06: (tried, tried)}, (plain, plain)).endswith(verdict)


def test_what_the_second_half_does_not_confirm_is_said() -> None:
    plain, better, worse = Score(1.0, 0.0), Score(1.02, 0.0), Score(0.99, 0.0)
    assert "and not on the second" in judged("PRIOR", 4.0, {8.0: (better, worse)}, (plain, plain))


def test_the_tool_reads_the_constants_that_the_controller_uses() -> None:
    assert constants.all_constants is app.engine.constants
