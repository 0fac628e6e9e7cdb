"""`bench --vs all`: which methods run, why the others do not, and the tables, record and drawing of the league."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from bench_fakes import answer
from run_here import localspec_here

from app.bench import plot
from app.bench.findings import BenchFindings
from app.bench.league_report import league_lines, verdict
from app.bench.measuring.arm_names import FILES, MODEL, ONLINE, TEXT, with_every_method
from app.bench.measuring.arms import ArmAnswer
from app.bench.measuring.benchmark import BenchConditions
from app.bench.measuring.league import NO_DRAFT, ClassLeague, leagues
from app.bench.measuring.methods import Unavailable
from app.bench.measuring.results import Oracle, overall, results
from app.bench.record import record
from app.bench.report import report
from app.bench.request import read_bench
from app.engine.costs.pass_cost import VerifyCurve
from app.engine.decoding.stats import Stats
from drafters.registry import FREE_DRAFTERS, HEAD
from models.toy import ToyModel

SHORT = ("bench", "toy", "-c", "2048", "-n", "16", "--class", "chat", "--limit", "1", "--vs", "all")
FLAGS = {
    "model_option": None, "draft": None, "vs": ("all",), "prompts": None, "classes": (), "limit": 1,
    "predict": 40, "draft_max": 3, "allow_rounding": False, "temp": ("0,0.7",), "seed": 1, "as_json": False,
    "plot": None, "quiet": False, "ctx_size": 0, "threads": 0, "threads_batch": 0, "gpu_layers": -1,
    "flash_attn": "auto", "cache_type_k": "auto", "cache_type_v": "auto", "top_k": 40, "top_p": 0.95, "min_p": 0.05,
    "repeat_penalty": 1.0, "repeat_last_n": 64, "presence_penalty": 0.0, "frequency_penalty": 0.0,
}  # fmt: skip


def drafted(rounds: int, drafts: int, at: Sequence[int], accepted_at: Sequence[int]) -> Any:
    stats = Stats(
        drafts=drafts, rounds=rounds, drafted=sum(at), accepted=sum(accepted_at),
        drafted_at=list(at), accepted_at=list(accepted_at),
    )  # fmt: skip
    return stats.snapshot()


def class_answers(name: str, heat: float = 0.0, *, fork: int | None = None) -> list[ArmAnswer]:
    """Return two prompts of twelve tokens: "suffix:3", "model:3" and "auto" need six rounds, the others twelve.

    A round of "model:3" has 0.1 s of drafting before a pass of 0.1 s, one of "suffix:3" a pass of 0.11 s.
    """
    made = []
    for prompt in ("p0", "p1"):
        common = {"class_name": name, "temperature": heat}
        six = drafted(6, 6, [6, 6, 6], [4, 2, 0])
        made += [
            answer("off", prompt, [(0.1, 1)] * 12, sources=("",) * 12, **common),
            answer("suffix:3", prompt, [(0.11, 2)] * 6, stats=six, sources=("suffix",) * 6, **common),
            answer(
                "model:3", prompt, [(0.2, 2)] * 6, stats=six, drafting=(0.1,) * 6, sources=("model:tiny",) * 6,
                fork=fork, **common,
            ),
            answer("lookup:3", prompt, [(0.12, 1)] * 12, sources=("",) * 12, **common),
            answer(
                "auto", prompt, [(0.11, 2)] * 6, stats=six,
                sources=("suffix", "suffix", "model:tiny+suffix", "model:tiny", "memory", ""), **common,
            ),
        ]  # fmt: skip
    return made


def league_of(answers: Sequence[ArmAnswer]) -> list[ClassLeague]:
    return leagues(results(answers, None), answers)


def found(unavailable: Sequence[Unavailable] = (), **flags: object) -> BenchFindings:
    names = ["chat", "a class with a long name"]
    oracle = Oracle(VerifyCurve({1: 1.0, 2: 1.1, 4: 1.2, 16: 4.0}), 9)
    return BenchFindings(
        read_bench("toy", {**FLAGS, **flags}),
        BenchConditions("toy-0", "toy", None, 512, 8, 8, oracle, unavailable=tuple(unavailable)),
        answers=[one for heat in (0.0, 0.7) for name in names for one in class_answers(name, heat)],
    )


def test_all_stands_for_every_method() -> None:
    assert with_every_method(["all"]) == ["auto", *FREE_DRAFTERS, MODEL, ONLINE, TEXT, HEAD, *FILES]
    assert with_every_method(["off", "all", "lookup:7"])[-1] == "lookup:7"
    assert with_every_method(["auto", "lookup"]) == ["auto", "lookup"]


def test_without_all_there_is_no_league() -> None:
    assert found().request.league
    asked = read_bench("toy", {**FLAGS, "vs": ("auto",)})
    assert not asked.league
    plain = found(vs=("auto",))
    assert record(plain)["league"] is None
    assert "League" not in report(plain)


def test_the_fastest_comes_first_and_costs_are_in_one_token_passes() -> None:
    (league,) = league_of(class_answers("chat"))
    assert [row.method for row in league.methods] == ["suffix:3", "auto", "off", "model:3", "lookup:3"]
    rows = {row.method: row for row in league.methods}
    assert rows["suffix:3"].speed_up == pytest.approx(1.2 / 0.66)
    assert rows["suffix:3"].acceptance == pytest.approx((4 / 6, 2 / 6, 0.0))
    assert rows["suffix:3"].acceptance_rate == pytest.approx(6 / 18)
    assert rows["suffix:3"].tokens_a_round == 2
    assert (rows["suffix:3"].cost_a_token, rows["suffix:3"].cost_a_round) == (0, 0)
    assert rows["suffix:3"].pass_cost == pytest.approx(1.1)
    assert rows["model:3"].cost_a_token == pytest.approx(1 / 3), "0.1 s for three tokens, a token takes 0.1 s"
    assert rows["model:3"].cost_a_round == pytest.approx(1)
    assert rows["lookup:3"].cost_a_token is None, "it drafted nothing"
    assert rows["off"].cost_a_round is None


def test_what_auto_drafted_with_is_named_as_the_arms_are() -> None:
    (league,) = league_of(class_answers("chat"))
    assert dict(league.auto_rounds) == pytest.approx(
        {"suffix": 2 / 6, "model+suffix": 1 / 6, "model": 1 / 6, "memory": 1 / 6, NO_DRAFT: 1 / 6}
    )
    assert league.auto_rounds[0][0] == "suffix"
    assert league.auto_share == pytest.approx(1)
    (alone,) = league_of([one for one in class_answers("chat") if one.arm != "auto"])
    assert (alone.auto_rounds, alone.auto_share) == ((), None)


def test_a_source_that_two_kinds_of_arm_share_keeps_its_own_name() -> None:
    both = [
        answer("off", "p0", [(0.1, 1)] * 12, sources=("",) * 12),
        answer("model:3", "p0", [(0.1, 2)] * 6, sources=("eagle3",) * 6),
        answer("mtp:3", "p0", [(0.1, 2)] * 6, sources=("eagle3",) * 6),
        answer("auto", "p0", [(0.1, 2)] * 6, sources=("eagle3",) * 6),
    ]
    assert league_of(both)[0].auto_rounds == (("eagle3", 1.0),)


def test_the_verdict_names_the_fastest_what_auto_reaches_and_what_does_not_pay() -> None:
    answers = [*class_answers("chat"), *class_answers("code")]
    words = verdict(league_of(answers), overall(answers, None))
    assert words.startswith("fastest single method: suffix:3 (1.82")
    assert "auto: 1.82, as fast as the fastest single method in 2 of 2 classes, at least 1.82 of plain" in words
    assert "does not pay here: model:3 (1.00" in words
    assert "lookup:3 (0.83" in words
    assert "differ" not in words
    slow = [one for one in answers if one.arm in ("off", "lookup:3")]
    assert verdict(league_of(slow), overall(slow, None)).startswith("no single method is faster than plain decoding")
    forked = class_answers("chat", fork=4)
    assert "answers differ from plain decoding's: model:3 2" in verdict(league_of(forked), overall(forked, None))


def test_the_tables_fit_a_hundred_columns() -> None:
    text = report(found([Unavailable("mtp", "toy-0 has no draft head"), Unavailable("text", "so " * 60)]))
    assert max(map(len, text.splitlines())) <= 100
    for words in (
        "not available: mtp, toy-0 has no draft head\n", "Temperature 0\n", "Temperature 0.7\n", "League: chat\n",
        "League: a class with a long name\n", "auto drafted with, of its rounds: suffix 33%,", "67 33 0", "0.333",
    ):  # fmt: skip
        assert words in text, words
    head, *rows = text.split("League: chat\n")[1].splitlines()[:6]
    assert head.split()[:4] == ["method", "speed-up", "95", "%"]
    assert {len(row) for row in rows} == {len(head)}, "columns stay in place"


def test_a_league_without_auto_has_no_line_about_it() -> None:
    answers = [one for one in class_answers("chat") if one.arm != "auto"]
    text = "\n".join(league_lines(league_of(answers), overall(answers, None)))
    assert "auto" not in text.partition("League: speed-up")[0]


def test_the_record_has_the_league(tmp_path: Path) -> None:
    del tmp_path
    league = json.loads(json.dumps(record(found([Unavailable("mtp", "none")]))))["league"]
    assert league["unavailable"] == [{"method": "mtp", "reason": "none"}]
    assert [(each["class_name"], each["temperature"]) for each in league["classes"][:2]] == [
        ("chat", 0), ("a class with a long name", 0),
    ]  # fmt: skip
    assert league["classes"][0]["methods"][0]["method"] == "suffix:3"
    assert dict(league["classes"][0]["auto_rounds"])["suffix"] == pytest.approx(1 / 3)
    assert [each["temperature"] for each in league["verdicts"]] == [0, 0.7]


def test_the_drawing_has_a_part_for_autos_rounds_at_each_temperature(tmp_path: Path) -> None:
    path = tmp_path / "league.svg"
    plot.draw(found(), path)
    drawn = path.read_bytes()
    assert drawn.count(b'<g id="axes_') == 2 + 2 + 1
    assert b"what auto drafted with" in drawn or b"<!-- what auto drafted with" in drawn
    plot.draw(found(), path)
    assert path.read_bytes() == drawn


def test_on_the_toy_each_method_runs_or_says_why_not(tmp_path: Path) -> None:
    done = localspec_here(*SHORT, "--json", home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["arms"] == ["off", "auto", *(f"{name}:3" for name in FREE_DRAFTERS)]
    reasons = {each["method"]: each["reason"] for each in told["league"]["unavailable"]}
    assert list(reasons) == ["model", "online", "text", "mtp", *FILES]
    assert "--draft FILE" in reasons["model"]
    assert "models in files" in reasons["text"]
    assert reasons["mtp"].endswith("has no draft head")
    assert reasons["medusa"].endswith("has no such head (localspec forge MODEL --method medusa makes one)")
    assert reasons["prune"].startswith("none was made for toy-0 (localspec forge MODEL --method prune makes one)")
    assert {row["method"] for row in told["league"]["classes"][0]["methods"]} == set(told["arms"])
    assert all(result["forks"] == [] for result in told["results"])


def test_a_named_draft_model_is_a_method_and_auto_uses_it(tmp_path: Path) -> None:
    done = localspec_here(*SHORT, "--draft", "toy", "--json", home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["arms"][-2:] == ["model:3", "online:3"]
    assert [each["method"] for each in told["league"]["unavailable"]] == ["text", "mtp", *FILES]
    assert told["draft_model"] is not None
    rows = {row["method"]: row for row in told["league"]["classes"][0]["methods"]}
    assert rows["model:3"]["acceptance_rate"] > 0.9, "the target drafts for itself"
    assert rows["model:3"]["cost_a_token"] > 0
    assert all(result["forks"] == [] for result in told["results"])


def test_the_table_is_printed_with_the_reasons(tmp_path: Path) -> None:
    done = localspec_here(*SHORT, "--plot", str(tmp_path / "league.svg"), home=tmp_path)
    assert done.returncode == 0
    assert "not available: mtp, toy" in done.stdout
    assert "League: chat" in done.stdout
    assert "Verdict\n" in done.stdout
    assert (tmp_path / "league.svg").read_text().startswith("<?xml")


def test_a_memory_that_can_not_go_back_leaves_out_each_drafter_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = ToyModel.__init__

    def forgetful(self: ToyModel, *arguments: Any, **named: Any) -> None:
        make(self, *arguments, **{**named, "rewind_limit": 0})

    monkeypatch.setattr(ToyModel, "__init__", forgetful)
    done = localspec_here(*SHORT, "--json", home=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["arms"] == ["off", "auto"]
    reasons = {each["method"]: each["reason"] for each in told["league"]["unavailable"]}
    assert set(reasons) == {*FREE_DRAFTERS, "model", "online", "text", "mtp", *FILES}
    assert "can't take back rejected tokens" in reasons["lookup"]


def test_verify_compares_the_tokens_of_every_method(tmp_path: Path) -> None:
    short = ("verify", "toy", "-c", "2048", "--vs", "all", "--class", "chat", "--limit", "1", "-n", "12")
    done = localspec_here(*short, home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for name in FREE_DRAFTERS:
        assert f" {name}:3 " in done.stdout
    assert "left out" in done.stdout
    assert "mtp: toy-0 has no draft head" in done.stdout
    told = json.loads(localspec_here(*short, "--json", home=tmp_path).stdout)
    assert told["arms"] == ["off", "auto", *(f"{name}:3" for name in FREE_DRAFTERS)]
