"""Files of published benchmarks: what they become, and what is wrong with a bad line."""

import json
from pathlib import Path
from typing import Any

import pytest
from run_here import localspec_here

from app.bench.measuring.arms import BenchPrompt
from app.bench.suites import read_suite
from models.errors import UsageError

SPEC = {"question_id": 81, "category": "writing", "turns": ["Compose a blog post.", "Rewrite it."], "reference": ["x"]}
SPEED = {
    "question_id": "a1", "category": "coding", "sub_category": "python", "source": "s", "src_id": "7",
    "difficulty": "easy", "multiturn": False, "messages": [{"role": "user", "content": "Sort a list."}],
}  # fmt: skip


def file_of(folder: Path, *lines: object) -> str:
    path = folder / "question.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return str(path)


def test_a_line_of_spec_bench_is_a_conversation_of_its_class(tmp_path: Path) -> None:
    rag = {"question_id": 400, "category": "rag", "turns": ["Answer by the documents\u2028below."]}
    suite = read_suite("spec-bench", file_of(tmp_path, SPEC, "", rag))
    assert suite.prompts == (
        BenchPrompt("81", "mt_bench", ("Compose a blog post.", "Rewrite it.")),
        BenchPrompt("400", "rag", ("Answer by the documents\u2028below.",)),
    )
    assert (suite.repeated, suite.note) == (0, "")


def test_the_classes_of_spec_bench_are_those_of_its_tables(tmp_path: Path) -> None:
    categories = (
        "writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities", "translation",
        "summarization", "qa", "math_reasoning", "rag",
    )  # fmt: skip
    lines = [{"question_id": n, "category": name, "turns": [f"{n}"]} for n, name in enumerate(categories)]
    classes = [prompt.class_name for prompt in read_suite("spec-bench", file_of(tmp_path, *lines)).prompts]
    assert classes == ["mt_bench"] * 8 + ["translation", "summarization", "qa", "math_reasoning", "rag"]


def test_a_line_of_speed_bench_has_messages_or_turns_and_keeps_its_category(tmp_path: Path) -> None:
    row = {"question_id": "b2", "category": "math", "turns": ["One?", "Two?"]}
    suite = read_suite("speed-bench", file_of(tmp_path, SPEED, row))
    assert suite.prompts == (
        BenchPrompt("a1", "coding", ("Sort a list.",)),
        BenchPrompt("b2", "math", ("One?", "Two?")),
    )


def test_a_first_turn_that_came_before_is_left_out_with_a_note(tmp_path: Path) -> None:
    path = file_of(tmp_path, SPEC, {**SPEC, "question_id": 82}, {"question_id": 3, "category": "qa", "turns": ["Why?"]})
    suite = read_suite("spec-bench", path)
    assert [prompt.id for prompt in suite.prompts] == ["81", "3"]
    assert suite.note == f"{path}: 1 prompt left out, with the first turn of an earlier prompt."


PLACEHOLDER = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE USING SPECDEC_BENCH"
BAD: dict[str, tuple[str, Any, str]] = {
    "not JSON": ("spec-bench", "{", "line 2: not JSON"),
    "no object": ("speed-bench", "[1]", "line 2: not an object"),
    "no id": ("spec-bench", {"category": "qa", "turns": ["x"]}, 'line 2: no "question_id"'),
    "an id that is a truth": (
        "spec-bench", {"question_id": True, "category": "qa", "turns": ["x"]}, 'line 2: "question_id" is true',
    ),
    "no category": ("spec-bench", {"question_id": 1, "turns": ["x"]}, 'line 2: no "category"'),
    "no turns": ("spec-bench", {"question_id": 1, "category": "qa"}, 'line 2: no "turns"'),
    "messages in the other suite": ("spec-bench", {**SPEED, "question_id": 1}, 'line 2: no "turns"'),
    "turns that are a text": ("spec-bench", {"question_id": 1, "category": "qa", "turns": "x"}, '"turns" is "x"'),
    "an empty turn": ("spec-bench", {"question_id": 1, "category": "qa", "turns": ["x", ""]}, "no text, or empty"),
    "no message": ("speed-bench", {**SPEED, "question_id": "z", "messages": []}, 'line 2: "messages" is []'),
    "a system message": (
        "speed-bench", {**SPEED, "question_id": "z", "messages": [{"role": "system", "content": "x"}]}, 'role "user"',
    ),
    "a message without a text": (
        "speed-bench", {**SPEED, "question_id": "z", "messages": [{"role": "user"}]}, "no text, or empty",
    ),
    "a placeholder": ("speed-bench", {"question_id": "z", "category": "qa", "turns": [PLACEHOLDER]}, "a placeholder"),
}  # fmt: skip
FIRST = {"spec-bench": {"question_id": "first", "category": "qa", "turns": ["Which?"]}, "speed-bench": SPEED}


@pytest.mark.parametrize(("suite", "line", "words"), BAD.values(), ids=list(BAD))
def test_a_bad_line_is_refused_with_file_line_and_what_was_expected(
    suite: str, line: object, words: str, tmp_path: Path
) -> None:
    path = file_of(tmp_path, FIRST[suite], line)
    with pytest.raises(UsageError) as refused:
        read_suite(suite, path)
    assert refused.value.title.startswith(f"{path}, line 2")
    assert words in refused.value.title
    assert "prepare.py" in refused.value.hint if words == "a placeholder" else "question_id" in refused.value.hint


def test_an_id_that_comes_again_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="line 2: repeats the id of line 1"):
        read_suite("spec-bench", file_of(tmp_path, SPEC, {**SPEC, "turns": ["other"]}))


def test_a_file_without_prompts_and_one_that_is_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no prompts"):
        read_suite("spec-bench", file_of(tmp_path, ""))
    with pytest.raises(UsageError, match="can't be read"):
        read_suite("spec-bench", str(tmp_path / "none.jsonl"))


def test_bench_runs_a_suite_and_records_its_name(tmp_path: Path) -> None:
    lines = [{"question_id": n, "category": "qa", "turns": [f"the sea {n}"]} for n in range(5)]
    path = file_of(tmp_path, *lines, {"question_id": 9, "category": "rag", "turns": ["the cat"]})
    common = ("bench", "toy", "--suite", "spec-bench", path, "-n", "9", "--vs", "suffix", "--limit", "2")
    done = localspec_here(*common, "--json", home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["suite"] == "spec-bench"
    assert {one["prompt"] for one in told["answers"]} == {"0", "1", "9"}
    shown = localspec_here(*common, "--class", "rag", home=tmp_path)
    assert "prompts of spec-bench: 1\n" in shown.stdout


def test_what_was_left_out_is_said(tmp_path: Path) -> None:
    path = file_of(tmp_path, SPEC, {**SPEC, "question_id": 82})
    done = localspec_here("bench", "toy", "--suite", "spec-bench", path, "-n", "9", "--vs", "off", home=tmp_path)
    assert done.returncode == 0
    assert "1 prompt left out" in done.stderr


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--suite", "mt-bench", "x.jsonl"), "'mt-bench' is not one of 'spec-bench', 'speed-bench'"),
        (("--suite", "spec-bench"), "requires 2 arguments"),
        (("--suite", "spec-bench", "x.jsonl", "--prompts", "y.jsonl"), "name two files of prompts"),
    ],
)
def test_a_wrong_use_is_refused(flags: tuple[str, ...], words: str, tmp_path: Path) -> None:
    done = localspec_here("bench", "toy", *flags, home=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
