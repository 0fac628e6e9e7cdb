"""What a certificate shows: lines that fit, a verdict in plain words, a record that JSON takes."""

import json
from dataclasses import replace

import pytest
from verify_fakes import compared, findings, fork

from app.bench.measuring.arms import Skipped
from app.engine.decoding.stats import Stats
from app.verify.tokens.findings import CertificateFindings
from app.verify.tokens.fork import ForkKind
from app.verify.tokens.record import record
from app.verify.tokens.report import report
from models.errors import DivergedError

BUG = fork(ForkKind.BUG, arm="auto", place=2, gap=1.5, floor=0.0, seen_at=None, reason="nothing explains it")
ENDED = fork(ForkKind.BUG, arm="suffix:5", tokens=(3, None), texts=("the", ""), gap=None, floor=None, seen_at=None)


def words(text: str) -> str:
    return " ".join(text.split())


def test_the_certificate_fits_a_hundred_columns_and_says_what_it_holds_for() -> None:
    found = findings(compared(fork(), BUG, ENDED), temp=("0,0.8",), repeat_penalty=1.1)
    found.skipped = [Skipped(f"fim/{i}", "fim", "no markers") for i in (1, 2, 1)]
    text = report(found)
    assert max(map(len, text.splitlines())) <= 100
    for part in (
        "big-1.5b (qwen2 1.5B Q4_K - Medium)", "ab" * 32, "draft model tiny", "cd" * 32, "llama-cpp-python 0.3.36",
        "A processor with a name, x86_64, 2 physical cores", "context 4,096, threads 2 (wide passes 2)",
        "flash attention on, cache q8_0 keys, q8_0 values", "exact on this machine up to 8 tokens; at most 8",
        "passes padded to 4 tokens", "judged by the coupled rule",
        "temperature 0, 0.8; top-k 40, top-p 0.95, min-p 0.05; seed 1",
        "repeat 1.1", "1, answers of at most 40 tokens: chat/1", "fim: 2, no markers",
        "near-tie: lookup:2, chat/1, turn 1, temperature 0, seed 1",
        "token 7: plain 'the' (3), drafted '\\n' (4), in passes over 1-3,7",
        "gap 0.0123, noise floor 0.5: a pass over 3",
        "bug: auto", "drafted has ended", "largest explained gap: 0.0123, where the noise floor is 0.5",
    ):  # fmt: skip
        assert part in words(text), part


def test_the_table_counts_tokens_up_to_a_fork() -> None:
    lines = [line.split() for line in report(findings(compared(fork(), BUG))).splitlines()]
    rows = {line[1]: line for line in lines if len(line) == 9 and line[0] == "0"}
    assert rows["auto"] == ["0", "auto", "1", "2", "12", "8", "3", "0", "1"]
    assert rows["lookup:2"] == ["0", "lookup:2", "1", "7", "12", "8", "3", "1", "0"]
    assert rows["suffix:5"] == ["0", "suffix:5", "1", "12", "12", "8", "3", "0", "0"]


@pytest.mark.parametrize(
    ("found", "said", "outcome"),
    [
        (
            findings(compared()),
            "Exact: all 36 tokens of 3 answers are those of plain decoding. 3 of them drafted 36",
            "exact",
        ),
        (findings(compared(drafted=False)), "Nothing was checked, as no token was drafted", "nothing"),
        (findings(compared(fork())), "No bug: 1 of 3 answers diverge from plain decoding.", "rounding"),
        (findings(compared(fork(), BUG)), "BUG: 1 of 3 answers diverge from plain decoding where", "bug"),
    ],
)
def test_the_last_line_is_a_verdict_in_plain_words(found: CertificateFindings, said: str, outcome: str) -> None:
    last = report(found).split("\n\n")[-1]
    assert words(last).startswith(said)
    assert (record(found)["outcome"], record(found)["verdict"]) == (outcome, found.verdict())


def test_an_arm_that_drafted_nothing_is_not_said_to_be_exact() -> None:
    found = findings(compared())
    turn = tuple(replace(one, stats=Stats().snapshot()) if one.arm == "auto" else one for one in found.compared[0].turn)
    found.compared = [replace(found.compared[0], turn=turn)]
    assert "2 of them drafted 24 tokens" in found.verdict()
    assert found.verdict().endswith("Nothing was drafted by auto at temperature 0, so these are not checked.")
    assert "nothing is shown" not in findings(compared()).verdict()


def test_long_lists_of_widths_are_cut_and_a_machine_that_is_never_exact_is_said() -> None:
    found = findings(compared())
    turn = tuple(
        replace(answer, widths=(1, 3, 5, 7, 9, 11, 13, 15, 16), rounds=((1.0, 1),) * 9)
        for answer in found.compared[0].turn
    )
    found.compared = [replace(found.compared[0], turn=turn)]
    assert found.conditions is not None
    found.conditions = replace(found.conditions, exact_draft=0)
    text = report(found)
    assert " 1..16 " in text
    assert "no pass over several tokens is exact" in words(text)


def test_a_near_tie_within_what_was_measured_as_exact_points_to_strict() -> None:
    assert "--strict checks the widths" in findings(compared(fork())).verdict()
    assert "--strict" not in findings(compared(fork()), allow_rounding=True).verdict()
    inexact = findings(compared(fork()))
    assert inexact.conditions is not None
    inexact.conditions = replace(inexact.conditions, exact_draft=0)
    assert "--strict" not in inexact.verdict()


def test_a_bug_is_raised_with_its_place_and_a_near_tie_is_not() -> None:
    findings(compared(fork())).check()
    with pytest.raises(DivergedError, match="1 drafted answers differ") as raised:
        findings(compared(fork(), BUG)).check()
    assert raised.value.cause.startswith("auto, chat/1, turn 1, temperature 0: token 2 is the first")
    assert raised.value.cause.endswith("nothing explains it.")


def test_the_record_is_json_and_carries_every_figure() -> None:
    found = findings(compared(fork(), BUG, ENDED))
    told = json.loads(json.dumps(record(found), allow_nan=False))
    assert (told["type"], told["schema"], told["interrupted"], told["strict"]) == ("certificate", 1, False, False)
    assert told["model"] == {"name": "big-1.5b", "description": "qwen2 1.5B Q4_K - Medium", "sha256": "ab" * 32}
    assert (told["settings"]["cache_type_k"], told["cores"], told["accept"]) == ("q8_0", 2, "coupled")
    assert (told["tokens_compared"], told["answers_compared"]) == (2 + 7 + 7, 3)
    assert [result["bugs"] for result in told["results"]] == [1, 0, 1]
    assert [(one["kind"], one["place"], one["gap"]) for one in told["forks"]] == [
        ("near-tie", 7, 0.0123), ("bug", 2, 1.5), ("bug", 7, None),
    ]  # fmt: skip
    assert told["largest_explained_gap"] == 0.0123
    assert record(findings(compared()))["largest_explained_gap"] is None


def test_a_broken_off_comparison_says_so() -> None:
    found = findings(compared())
    found.interrupted = True
    assert "only the prompts that every arm had answered" in words(report(found))
    assert record(found)["interrupted"] is True
