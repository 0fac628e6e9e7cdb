"""`localspec run MODEL PROMPT`, on the toy model: streams, JSON lines, exit codes, flags."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from raw_gguf import Array, Value, write_raw
from run_here import localspec_here
from run_localspec import ROOT, environment, localspec
from tiny_gguf import write_llama, write_recurrent, write_truncated, write_unknown_architecture


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_stdout_carries_the_text_alone(tmp_path: Path) -> None:
    done = localspec("run", "toy", "hello", "--seed", "1", "-n", "20", home=tmp_path)
    lines = records(localspec("run", "toy", "hello", "--seed", "1", "-n", "20", "--json", home=tmp_path).stdout)
    assert done.returncode == 0
    assert done.stdout == lines[-1]["answer"] + "\n"
    assert "tokens/s" in done.stderr


def test_quiet_says_nothing_on_stderr(tmp_path: Path) -> None:
    assert localspec("run", "toy", "hello", "-n", "5", "-q", home=tmp_path).stderr == ""


@pytest.mark.parametrize("drafter", ["lookup", "toy", "auto"])
@pytest.mark.parametrize("temperature", ["0", "0.7", "1"])
def test_a_drafter_changes_nothing_on_stdout(tmp_path: Path, drafter: str, temperature: str) -> None:
    arguments = ("run", "toy", "the sea the sea", "--seed", "7", "-n", "60", "--temp", temperature, "--draft")
    plain = localspec_here(*arguments, "off", home=tmp_path)
    drafted = localspec_here(*arguments, drafter, home=tmp_path)
    assert len(plain.stdout) > 30
    assert drafted.stdout == plain.stdout


def test_the_prompt_comes_from_words_file_and_pipe_in_this_order(tmp_path: Path) -> None:
    file = tmp_path / "question.txt"
    file.write_text("from a file\n")
    joined = localspec_here(
        "run", "toy", "words", "-p", "flag", "-f", str(file), "--seed", "2", "-n", "9", stdin="pipe\n", home=tmp_path
    )
    at_once = localspec_here(
        "run", "toy", "words\n\nflag\n\nfrom a file\n\n\npipe", "--seed", "2", "-n", "9", home=tmp_path
    )
    assert joined.returncode == at_once.returncode == 0
    assert joined.stdout == at_once.stdout


def test_a_pipe_alone_is_the_prompt(tmp_path: Path) -> None:
    piped = localspec_here("run", "toy", "--seed", "2", "-n", "9", stdin="hello\n", home=tmp_path)
    assert piped.stdout == localspec_here("run", "toy", "hello", "--seed", "2", "-n", "9", home=tmp_path).stdout


@pytest.mark.parametrize("before", [(), ("-p",), ("-sys",)])
def test_an_argument_that_is_no_utf_8_is_read_as_a_pipe_is(tmp_path: Path, before: tuple[str, ...]) -> None:
    arguments = ("run", "-m", "toy", "--seed", "2", "-n", "9", "x", *before)
    latin, replaced = (localspec_here(*arguments, f"caf{byte} you", home=tmp_path) for byte in ("\udce9", "\ufffd"))
    assert (latin.returncode, latin.stdout, latin.stderr.count("error")) == (0, replaced.stdout, 0)


def test_with_m_every_word_is_prompt(tmp_path: Path) -> None:
    named = localspec_here("run", "-m", "toy", "hello", "you", "--seed", "2", "-n", "9", home=tmp_path)
    assert named.stdout == localspec_here("run", "toy", "hello you", "--seed", "2", "-n", "9", home=tmp_path).stdout


def test_a_model_named_twice_is_no_part_of_the_prompt(tmp_path: Path) -> None:
    named = localspec_here("run", "toy", "-m", "toy", "hello", "--seed", "2", "-n", "9", home=tmp_path)
    assert named.stdout == localspec_here("run", "toy", "hello", "--seed", "2", "-n", "9", home=tmp_path).stdout
    asked = localspec_here("run", "what is in mine.gguf", "-m", "toy", "-n", "9", home=tmp_path)
    assert (asked.returncode, len(asked.stdout) > 1) == (0, True)


@pytest.mark.parametrize("command", ["run", "bench", "verify", "tune", "serve", "lsp"])
def test_two_models_are_refused_where_one_is_needed(tmp_path: Path, command: str) -> None:
    done = localspec_here(command, "a.gguf", "-m", "b.gguf", home=tmp_path)
    assert (done.returncode, "a.gguf and -m b.gguf name two models" in done.stderr) == (2, True)
    if command != "lsp":  # It would take the streams of this very process.
        default = {"LOCALSPEC_MODEL": "a.gguf"}
        by_default = localspec_here(command, "-m", "b.gguf", home=tmp_path, stdin="hi", extra=default)
        assert by_default.returncode not in (0, 2), "a default gives way"


def test_json_lines_add_up(tmp_path: Path) -> None:
    done = localspec_here(
        "run", "toy", "the sea the sea", "--json", "--draft", "model:toy", "--no-adapt", "-n", "40", "--seed", "5",
        home=tmp_path,
    )  # fmt: skip
    start, *rounds, end = records(done.stdout)
    assert (start["type"], end["type"], {line["type"] for line in rounds}) == ("start", "end", {"round"})
    assert start["sampling"]["seed"] == 5
    assert "".join(line["text"] for line in rounds) + end["text"] == end["answer"]
    assert sum(len(line["tokens"]) for line in rounds) == end["usage"]["completion_tokens"] == 40
    assert sum(len(line["draft"]) for line in rounds) == end["speculation"]["draft_n"] > 0
    assert sum(line["accepted"] for line in rounds) == end["speculation"]["draft_n_accepted"] > 0
    details = end["usage"]["completion_tokens_details"]
    assert (
        details["accepted_prediction_tokens"] + details["rejected_prediction_tokens"] == end["speculation"]["draft_n"]
    )
    assert end["finish"] == "length"
    assert done.stderr == ""


def test_minus_one_is_no_limit(tmp_path: Path) -> None:
    arguments = ("run", "toy", "hi", "--seed", "1", "-c", "64")
    unlimited = localspec_here(*arguments, "-n", "-1", home=tmp_path)
    assert unlimited.stdout == localspec_here(*arguments, home=tmp_path).stdout
    old = localspec_here(*arguments, "--predict", "-1", home=tmp_path)
    assert (old.stdout, "--predict with a number is spelled -n here" in old.stderr) == (unlimited.stdout, True)


def test_the_mark_at_the_start_of_a_text_is_no_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "marked.txt").write_text("the sea", encoding="utf-8-sig")
    arguments = ("run", "toy", "--seed", "1", "-n", "9")
    plain = localspec_here(*arguments, "the sea", home=tmp_path).stdout
    assert localspec_here(*arguments, "-f", str(tmp_path / "marked.txt"), home=tmp_path).stdout == plain
    assert localspec_here(*arguments, home=tmp_path, stdin="\ufeffthe sea").stdout == plain


def test_a_file_is_sent_as_it_is_and_as_a_pipe_would_be(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_bytes(b"the\r\nsea\r\n")
    arguments = ("run", "toy", "--seed", "1", "-n", "9", "--raw", "--json")
    piped = localspec_here(*arguments, home=tmp_path, stdin="the\r\nsea\r\n").stdout
    read = localspec_here(*arguments, "-f", str(tmp_path / "lines.txt"), home=tmp_path).stdout
    prompts = [json.loads(said.splitlines()[-1])["usage"]["prompt_tokens"] for said in (piped, read)]
    assert prompts == [len("the\r\nsea\r\n")] * 2


def test_an_expected_answer_has_the_line_ends_of_models(tmp_path: Path) -> None:
    drafting = ("--draft", "suffix", "--no-adapt")
    arguments = ("run", "toy", "the sea", "--seed", "7", "--temp", "1.5", "-n", "60", "--json", *drafting)
    answer = json.loads(localspec_here(*arguments, home=tmp_path).stdout.splitlines()[-1])["answer"]
    assert "\n" in answer[1:-1]
    accepted = []
    for end in ("\n", "\r\n"):
        (tmp_path / "expected.txt").write_bytes(answer.replace("\n", end).encode())
        said = localspec_here(*arguments, "--predict", str(tmp_path / "expected.txt"), home=tmp_path).stdout
        accepted.append(json.loads(said.splitlines()[-1])["speculation"]["draft_n_accepted"])
    assert accepted[0] == accepted[1] > 0


def test_the_line_end_of_a_shell_is_no_part_of_the_prompt_on_any_system(tmp_path: Path) -> None:
    arguments = ("run", "toy", "--seed", "1", "-n", "9")
    said = {localspec_here(*arguments, home=tmp_path, stdin=f"the sea{end}").stdout for end in ("", "\n", "\r\n")}
    assert len(said) == 1


def test_more_threads_than_there_are_cores_are_told(tmp_path: Path) -> None:
    arguments = ("run", "toy", "hi", "-n", "2", "-t")
    assert "1024 threads are more than" in localspec_here(*arguments, "1024", home=tmp_path).stderr
    assert "logical cores" not in localspec_here(*arguments, "1", home=tmp_path).stderr


def test_without_a_seed_each_run_has_its_own_and_says_which(tmp_path: Path) -> None:
    lines = [
        records(localspec_here("run", "toy", "hi", "-n", "3", "--json", home=tmp_path).stdout)[0] for _ in range(2)
    ]
    assert lines[0]["sampling"]["seed"] != lines[1]["sampling"]["seed"]


def test_a_stop_string_ends_the_answer_and_is_not_in_it(tmp_path: Path) -> None:
    arguments = ("run", "toy", "hello", "--seed", "1", "-n", "40")
    whole = localspec_here(*arguments, home=tmp_path).stdout
    stop = whole[8:10]
    cut = localspec_here(*arguments, "--stop", stop, home=tmp_path).stdout
    assert cut == whole[: whole.index(stop)].rstrip("\n") + "\n"


FAILURES = {
    "a bad flag": (["run", "toy", "--bogus"], 2, "--bogus"),
    "a bad value": (["run", "toy", "hi", "--top-p", "0"], 2, "top-p is 0.0"),
    "There is no prompt": (["run", "toy"], 2, "There is no prompt"),
    "a number for a drafter": (["run", "toy", "hi", "--draft", "5"], 2, "--draft-max 5"),
    "a missing file": (["run", "nope.gguf", "hi"], 3, "no file nope.gguf"),
    "a question for a model": (["run", "Why is it blue?"], 2, "no model 'Why is it blue?'"),
    "a model that was not fetched": (["run", "user/repo", "hi"], 3, "`localspec models pull user/repo`"),
    "an empty name": (["run", "", "hi"], 2, "the name is empty"),
    "an empty name of a flag": (["run", "-m", "", "hi"], 2, "the name is empty"),
    "an empty name of a file": (["run", "toy", "hi", "-f", ""], 2, "the name is empty"),
    "an empty name of a file to edit": (["run", "toy", "--edit", ""], 2, "the name is empty"),
    "an empty id": (["run", "toy", "hi", "--resume", ""], 2, "--resume is empty"),
    "no tokens": (["run", "toy", "hi", "-n", "0"], 2, "'0' is not a number of tokens. Give 1 or more; -1"),
    "a number of nines": (["complete", "m.py:" + 5000 * "9"], 2, "is not a position"),
    "fewer layers than none": (
        ["run", "toy", "hi", "-ngl", "-7"],
        2,
        "'-7' is not a number of layers. Give 0 or more; -1 or all",
    ),
    "more lines than there are": (["history", "ls", "-n", 23 * "9"], 2, "not in the range"),
    "no time limit": (["serve", "toy", "--grace", "nan"], 2, "not a finite number"),
    "no size": (["serve", "toy", "--max-body", "nan"], 2, "not a finite number"),
    "too patient": (["verify", "--audit", "http://127.0.0.1:1", "--timeout", "1e10"], 2, "not in the range"),
    "a missing draft": (["run", "toy", "hi", "--draft", "nope.gguf"], 3, "no file nope.gguf"),
    "a prompt file that is not there": (["run", "toy", "-f", "nope.txt"], 2, "nope.txt"),
    "a pipe as a file": (["run", "toy", "-f", "-"], 2, "piped text is always added to the prompt"),
    "a full context": (["run", "toy", "-c", "4", "a long question"], 1, "The context is full"),
    "q8_0 values without flash attention": (["run", "toy", "hi", "-ctv", "q8_0", "-fa", "off"], 2, "flash attention"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_bad_input_has_its_exit_code_and_a_sentence(tmp_path: Path, name: str) -> None:
    arguments, code, words = FAILURES[name]
    done = localspec_here(*arguments, home=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_files_that_are_no_models_are_refused_with_3(tmp_path: Path) -> None:
    good = write_llama(tmp_path / "good.gguf")
    bad = {
        "not a GGUF": tmp_path / "text.gguf",
        "cut short": write_truncated(good, tmp_path / "cut.gguf", good.stat().st_size - 1000),
        "'perpetuum' is not supported": write_unknown_architecture(tmp_path / "unknown.gguf"),
        "is a folder": tmp_path,
        "is empty": tmp_path / "empty.gguf",
    }
    bad["is empty"].touch()
    bad["not a GGUF"].write_text("hello")
    for words, path in bad.items():
        done = localspec_here("run", str(path), "hi", home=tmp_path)
        assert done.returncode == 3, words
        assert words in done.stderr


@pytest.mark.parametrize(
    "values",
    [
        {"general.architecture": "bert"},
        {"general.architecture": "t5"},
        {"general.type": "adapter"},
        {"tokenizer.ggml.model": "no_vocab"},
        {"tokenizer.ggml.tokens": Array(["a", "b", "a", "<end>"])},
    ],
    ids=["embeds", "has an encoder", "adapter", "no vocabulary", "two tokens alike"],
)
def test_what_models_info_refuses_is_refused_in_the_same_words(tmp_path: Path, values: dict[str, Value]) -> None:
    odd = str(write_raw(tmp_path / "odd.gguf", values))
    told = localspec_here("models", "info", odd, home=tmp_path).stderr
    assert "odd.gguf" in told
    for arguments in ([odd], ["toy", "--draft", odd]):
        done = localspec_here("run", *arguments, "-p", "hi", home=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (3, "", told)


def test_a_draft_model_that_can_not_go_back_is_refused_with_4(tmp_path: Path) -> None:
    target, draft = write_llama(tmp_path / "target.gguf"), write_recurrent(tmp_path / "draft.gguf")
    done = localspec_here("run", str(target), "hi", "--draft", str(draft), home=tmp_path)
    assert (done.returncode, done.stdout) == (4, "")
    assert "its memory can't take back rejected tokens" in done.stderr


def test_a_draft_model_with_other_tokens_drafts_text_and_a_note_says_so(tmp_path: Path) -> None:
    target = write_llama(tmp_path / "target.gguf")
    draft = write_llama(tmp_path / "draft.gguf", rename={97: "other"})
    said = []
    for drafter in ("off", str(draft)):
        done = localspec_here("run", str(target), "hi", "--draft", drafter, "-n", "8", "--seed", "1", home=tmp_path)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert said[0] == said[1]
    note = " ".join(done.stderr.split())
    assert "draft has other tokens than the target (token 97 is 'a' for the target, 'other' for the draft)" in note


def test_json_reports_a_failure_as_a_line_too(tmp_path: Path) -> None:
    done = localspec_here("run", "nope.gguf", "hi", "--json", home=tmp_path)
    (line,) = records(done.stdout)
    assert (done.returncode, line["type"], line["exit_code"]) == (3, "error", 3)


def test_old_spellings_work_with_a_note(tmp_path: Path) -> None:
    new = localspec_here(
        "run", "toy", "hello", "--seed", "1", "--draft", "toy", "--draft-max", "2", "-n", "9", home=tmp_path
    )
    old = localspec_here(
        "run", "toy", "hello", "--seed", "1", "-md", "toy", "--draft-n", "2", "--n-predict=9", "-cnv",
        "--draft-p-min", "0.5", home=tmp_path,
    )  # fmt: skip
    assert (old.returncode, old.stdout) == (0, new.stdout)
    for words in ("--draft-n is spelled --draft-max here", "-cnv has no effect", "--draft-p-min has no effect"):
        assert words in old.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("pair:nope", "hi"), 3), (("toy", "hi", "--top-p", "2"), 2), (("toy", "hi", "--resume", "zzz"), 2)],
)
def test_what_is_refused_before_anything_is_loaded_has_its_line_of_json(
    tmp_path: Path, arguments: tuple[str, ...], code: int
) -> None:
    done = localspec_here("run", *arguments, "--json", home=tmp_path)
    (record,) = records(done.stdout)
    assert (done.returncode, record["type"], record["exit_code"]) == (code, "error", code)
    assert record["title"] in done.stderr


REFUSED = {
    "a value": (("toy", "hi", "--json", "--temp", "abc"), "Invalid value for '--temp': 'abc' is not a valid float."),
    "a flag": (("toy", "--json", "--bogus"), "No such option '--bogus'."),
    "a setting": (("toy", "hi", "--json"), "unknown setting 'tmep'."),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("command", ["run", "complete"])
def test_what_is_refused_before_a_command_runs_has_its_line_of_json(tmp_path: Path, command: str, what: str) -> None:
    arguments, title = REFUSED[what]
    (tmp_path / "settings.toml").write_text("tmep = 1\n" if what == "a setting" else "")
    extra = {"LOCALSPEC_CONFIG": str(tmp_path / "settings.toml")}
    done = localspec_here(command, *arguments[1:] if command == "complete" else arguments, home=tmp_path, extra=extra)
    (record,) = records(done.stdout)
    assert (done.returncode, record["type"], record["exit_code"]) == (2, "error", 2)
    assert record["title"].endswith(title)
    assert title in done.stderr


@pytest.mark.parametrize(
    "arguments", [("run", "toy", "--bogus", "--", "--json"), ("bench", "toy", "--bogus", "--json")]
)
def test_what_has_no_lines_of_json_has_none_for_what_is_refused(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = localspec_here(*arguments, home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")


def test_the_environment_names_model_and_drafter(tmp_path: Path) -> None:
    extra = {"LOCALSPEC_MODEL": "toy", "LOCALSPEC_DRAFT": "off"}
    done = localspec_here("run", "-p", "hello", "-n", "3", "--json", home=tmp_path, extra=extra)
    assert (records(done.stdout)[0]["model"], records(done.stdout)[0]["drafter"]) == ("toy-0", "off")


def test_a_closed_pipe_is_no_error_message(tmp_path: Path) -> None:
    command = f"{sys.executable} -m app run toy hello -q -c 4000 --json | head -1"
    done = subprocess.run(
        command, shell=True, cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True, check=False, input=""
    )
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
