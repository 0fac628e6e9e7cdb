"""What a benchmark shows: tables that fit, a record that JSON takes, a drawing."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from bench_fakes import answer
from matplotlib.figure import Figure

from app.bench import plot, request
from app.bench.findings import BenchFindings
from app.bench.measuring.arms import ArmAnswer, Skipped
from app.bench.measuring.benchmark import BenchConditions
from app.bench.measuring.results import Oracle, milliseconds, results
from app.bench.record import record
from app.bench.report import report
from app.bench.request import read_bench
from app.engine.costs.pass_cost import VerifyCurve
from app.engine.decoding.stats import Stats
from models.errors import DivergedError, UsageError

DEFAULTS = {
    "model_option": None, "draft": None, "vs": ("lookup:3", "auto"), "prompts": None, "classes": (), "limit": 1,
    "predict": 40, "draft_max": 3, "allow_rounding": False, "temp": ("0,0.7",), "seed": 1, "as_json": False,
    "plot": None, "quiet": False, "ctx_size": 0, "threads": 0, "threads_batch": 0, "gpu_layers": -1,
    "flash_attn": "auto", "cache_type_k": "auto", "cache_type_v": "auto", "top_k": 40, "top_p": 0.95, "min_p": 0.05,
    "repeat_penalty": 1.0, "repeat_last_n": 64, "presence_penalty": 0.0, "frequency_penalty": 0.0,
}  # fmt: skip
DRAFTED = Stats(drafts=9, rounds=10, drafted=90, accepted=50, drafted_at=[9] * 10, accepted_at=[5] * 10).snapshot()


def answers(class_name: str, temperature: float) -> list[ArmAnswer]:
    made = []
    for number in range(3):
        pace = 0.2 + 0.1 * number
        common = {"class_name": class_name, "temperature": temperature, "turn": 0}
        made += [
            answer("off", f"p{number}", [(pace, 1)] * 12, **common),
            answer("lookup:3", f"p{number}", [(pace, 2)] * 6, stats=DRAFTED, **common),
            answer("auto", f"p{number}", [(1.5 * pace, 1)] * 12, **common),
        ]
    return made


def findings(**flags: object) -> BenchFindings:
    names = ["chat", "a class with a long name"]
    return BenchFindings(
        read_bench("toy", {**DEFAULTS, **flags}),
        BenchConditions("toy-0", "toy", None, 512, 8, 8, Oracle(VerifyCurve({1: 1.0, 2: 1.2, 4: 1.6, 16: 4.0}), 9)),
        answers=[one for temperature in (0.0, 0.7) for name in names for one in answers(name, temperature)],
        skipped=[Skipped(f"fim/{i}", "fim", "no markers") for i in (1, 2, 1)],
    )


def test_the_tables_fit_a_hundred_columns_and_say_everything() -> None:
    text = report(findings())
    assert max(map(len, text.splitlines())) <= 100
    for words in (
        "Temperature 0\n", "Temperature 0.7\n", "left out of fim: 2, no markers", "drafts of at most 8 tokens",
        "6: 56%", "...", "lookup:3   promote: speed 2.00 of plain", "auto       keep off: speed 0.67",
    ):  # fmt: skip
        assert words in text, words
    rows = [line.split() for line in text.split("Temperature 0.7")[0].splitlines() if line.startswith("all ")]
    measured, *usual = rows
    assert measured == usual[0] == ["all", "lookup:3", "2.00", "2.00-2.00"]
    assert usual[1] == ["all", "auto", "0.67", "0.67-0.67"]
    assert "Speed-up with every pass at its usual cost, and the worst prompt\nchat       lookup:3" in text


def test_joules_are_shown_where_the_machine_tells() -> None:
    assert "Joules" not in report(findings())
    found = findings()
    found.answers = [replace(one, joules=3.0) for one in found.answers]
    assert "chat       off 0.25, lookup:3 0.25, auto 0.25" in report(found)


def test_a_pace_of_seconds_keeps_its_column() -> None:
    assert [milliseconds(seconds) for seconds in (None, 0.0123, 0.0986, 0.118, 0.9999, 1.05, 12.3)] == [
        "-", "12.3", "98.6", "118", "1000", "1050", "12300",
    ]  # fmt: skip


def test_a_model_that_takes_no_millisecond_keeps_its_columns_and_is_not_told_to_take_none() -> None:
    found = findings()
    pace = [(0.000117, 1)] * 12
    found.answers = [answer(arm, "p0", pace, reading_seconds=0.0004) for arm in ("off", "lookup:3")]
    head, *rows = report(found).split("Temperature 0\n\n")[1].splitlines()[:3]
    assert all("  0.12/0.12 ms 0.52 ms " in row for row in rows), rows
    assert {len(row) for row in rows} == {len(head)}
    assert [milliseconds(seconds) for seconds in (0.000994, 0.00099501, 0.001)] == ["0.99", "0.995", "1"]


def test_an_interval_of_two_prompts_and_a_long_wait_keep_their_columns() -> None:
    found, common = findings(), {"reading_seconds": 123.0}
    plain = [answer("off", name, [(0.2, 1)] * 12, **common) for name in ("p0", "p1")]
    drafted = [answer("lookup:3", "p0", [(0.8, 4)] * 3, **common), answer("lookup:3", "p1", [(0.2, 4)] * 3, **common)]
    found.answers = [*plain, *drafted]
    head, *rows = report(found).split("Temperature 0\n\n")[1].splitlines()[:3]
    assert "123 s" in rows[0]
    assert "2.00 0.00-1150   1.00" in rows[1]
    assert {len(row) for row in rows} == {len(head)}


def test_without_a_curve_there_are_no_usual_prices() -> None:
    found = findings()
    assert found.conditions is not None
    found.conditions = replace(found.conditions, oracle=None)
    assert "at its usual cost" not in report(found)


def test_what_limits_drafts_is_said() -> None:
    found = findings()
    assert found.conditions is not None
    found.conditions = replace(found.conditions, exact_draft=0, longest=64)
    assert "no draft is exact on this machine" in report(found)
    loose = findings(allow_rounding=True)
    assert "exact on this machine up to 8" in report(loose)


def test_a_broken_off_benchmark_says_so() -> None:
    found = findings()
    found.interrupted = True
    assert "Stopped: only the prompts" in report(found)
    assert record(found)["interrupted"] is True


def test_the_record_is_json_with_every_answer() -> None:
    found = json.loads(json.dumps(record(findings())))
    assert found["schema"] == 1
    assert len(found["answers"]) == 36
    assert found["curve"] == {"1": 1.0, "2": 1.2, "4": 1.6, "16": 4.0}
    assert {result["arm"] for result in found["results"]} == {"off", "lookup:3", "auto"}
    first = found["results"][1]
    assert (first["verdict"]["promote"], first["speed_up"], first["forks"]) == (True, pytest.approx(2), [])
    assert found["answers"][0]["seconds"] == pytest.approx(2.4)
    assert [sampling["temperature"] for sampling in found["sampling"]] == [0, 0.7]


def test_a_text_that_differs_is_a_failure_with_the_first_place() -> None:
    found = findings()
    found.check_texts()
    found.answers[4] = replace(found.answers[4], fork=7)
    with pytest.raises(DivergedError) as failure:
        found.check_texts()
    assert failure.value.exit_code == 6
    assert "lookup:3, p1, turn 1: token 7" in failure.value.cause


@pytest.mark.parametrize(("name", "start"), [("figures.svg", b"<?xml"), ("figures.PNG", b"\x89PNG")])
def test_it_is_drawn_as_the_ending_says_and_twice_the_same(tmp_path: Path, name: str, start: bytes) -> None:
    path = tmp_path / name
    plot.draw(findings(), path)
    drawn = path.read_bytes()
    assert drawn.startswith(start)
    plot.draw(findings(), path)
    assert path.read_bytes() == drawn
    if name.endswith("svg"):
        assert drawn.count(b'<g id="axes_') == 3, "a part for each temperature, and one for the curve"


@pytest.mark.parametrize(("paces", "top"), [((4.0, 1.0), (3.9, 4.1)), ((2.1, 2.0), (2.1, 3.9))])
def test_an_interval_that_reaches_far_hides_no_bars(paces: tuple[float, float], top: tuple[float, float]) -> None:
    plain = [answer("off", name, [(0.2, 1)] * 12) for name in ("p0", "p1")]
    drafted = [answer("auto", name, [(0.2 * pace, 4)] * 3) for name, pace in zip(("p0", "p1"), paces, strict=True)]
    part = Figure().subplots()
    plot._draw_speed_ups(part, results([*plain, *drafted], None))
    assert part.get_ylim()[0] == 0
    assert top[0] < part.get_ylim()[1] < top[1]


def test_what_can_not_be_drawn_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(UsageError, match=r"folder\.svg can't be written"):
        findings(plot=str(tmp_path / "folder.svg"))
    (tmp_path / "old.svg").write_text("an earlier drawing")
    (tmp_path / "link.svg").symlink_to(tmp_path / "target.svg")
    before = sorted(tmp_path.iterdir())
    for name in ("old.svg", "new.svg", "link.svg"):
        findings(plot=str(tmp_path / name))
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "old.svg").read_text() == "an earlier drawing"


def test_without_matplotlib_the_plot_is_refused_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(request, "find_spec", lambda _: None)
    with pytest.raises(UsageError) as failure:
        findings(plot=str(tmp_path / "x.svg"))
    assert 'pip install "matplotlib>=' in failure.value.hint


def test_one_request_asks_for_passes_as_wide_as_its_longest_draft() -> None:
    assert findings().request.plan.options.max_rows == 32
    assert findings(vs=("lookup:40",)).request.plan.options.max_rows == 41


@pytest.mark.parametrize(("exact", "allowed"), [(0, False), (8, True)])
def test_where_passes_are_known_to_round_a_text_that_differs_is_no_failure(exact: int, allowed: bool) -> None:
    found = findings(allow_rounding=allowed)
    assert found.conditions is not None
    found.conditions = replace(found.conditions, exact_draft=exact)
    found.answers[4] = replace(found.answers[4], fork=7)
    found.check_texts()
    assert "answers differ" in report(found)
