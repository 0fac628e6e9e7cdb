"""What the user can ask of speculation: why it does what it does, an expected answer, and fixed draft lengths."""

import json
from pathlib import Path
from typing import Any

import pytest
from run_here import localspec_here as localspec

ASKED = ("run", "toy", "the sea the sea", "--seed", "5", "--temp", "0.7")


def answered(home: Path, *flags: str) -> list[dict[str, Any]]:
    done = localspec(*ASKED, *flags, "--json", home=home)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def drafts(records: list[dict[str, Any]]) -> list[int]:
    return [len(record["draft"]) for record in records if record["type"] == "round"]


def test_explain_tells_on_stderr_what_guessing_cost(tmp_path: Path) -> None:
    bare = localspec(*ASKED, "-n", "30", home=tmp_path)
    explained = localspec(*ASKED, "-n", "30", "--explain", home=tmp_path)
    assert explained.stdout == bare.stdout
    for words in ("pass cost       in one-token passes", "times plain decoding)", "  draft limit     "):
        assert words in explained.stderr
        assert words not in bare.stderr


def test_explain_where_nobody_guesses(tmp_path: Path) -> None:
    assert (
        "No drafter: plain decoding."
        in localspec(*ASKED, "-n", "5", "--explain", "--draft", "off", home=tmp_path).stderr
    )


@pytest.mark.parametrize(("drafter", "model"), [("auto", False), ("toy", True)])
def test_explain_is_part_of_the_last_json_line(tmp_path: Path, drafter: str, model: bool) -> None:
    explanation = answered(tmp_path, "-n", "60", "--draft", drafter, "--explain")[-1]["explanation"]
    assert explanation["plain_tokens_per_second"] > 0
    assert {"1", "2", "4", "16"} <= explanation["pass_seconds"].keys()
    assert (explanation["model_step_ratio"] is not None) == model
    suffix = next(source for source in explanation["sources"] if source["name"] == "suffix")
    assert suffix["guessed_at"][0] >= suffix["right_at"][0] >= 0
    assert answered(tmp_path, "-n", "5")[-1]["explanation"] is None


def test_without_adapting_every_round_drafts_as_much_as_was_asked_for(tmp_path: Path) -> None:
    for flags, length in ((("--no-adapt",), 3), (("--no-adapt", "--draft-max", "5"), 5)):
        lengths = drafts(answered(tmp_path, "-n", "40", "--draft", "model:toy", *flags))
        # Near the end no more is drafted than is left to say.
        assert set(lengths[:-2]) == {length}
    assert drafts(answered(tmp_path, "-n", "10", "--no-adapt", "--draft-max", "0")) == [0] * 10


def test_an_expected_answer_is_copied_from(tmp_path: Path) -> None:
    plain = answered(tmp_path, "-n", "80", "--draft", "off")[-1]
    expected = tmp_path / "expected.txt"
    expected.write_text(plain["answer"])
    flags = ("-n", "80", "--no-adapt", "--draft-max", "8", "--draft", "suffix")
    without = answered(tmp_path, *flags)[-1]
    copied = answered(tmp_path, *flags, "--predict", str(expected))[-1]
    assert copied["answer"] == without["answer"] == plain["answer"]
    accepted = [end["speculation"]["draft_n_accepted"] for end in (copied, without)]
    assert accepted[0] > 1.3 * accepted[1]
    assert copied["speculation"]["acceptance_rate"] > 0.7


@pytest.mark.parametrize("spelling", [("--predict", "7"), ("--predict=7",), ("--n-predict", "7"), ("-n", "7")])
def test_a_number_is_how_much_to_answer_whatever_the_spelling(tmp_path: Path, spelling: tuple[str, ...]) -> None:
    assert answered(tmp_path, *spelling)[-1]["usage"]["completion_tokens"] == 7


def test_an_expected_answer_that_can_not_be_read_is_refused(tmp_path: Path) -> None:
    done = localspec(*ASKED, "--predict", "nowhere.txt", home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--predict nowhere.txt can't be read" in done.stderr
