"""Answers in a form on the command line: what the flags take, what they refuse in words, and what a chat says of it."""

import json
from pathlib import Path

import pytest
from run_here import Done, localspec_here

SHORT = 'root ::= "yes" | "no"'
LONG = 'root ::= "the cat sat on the mat"'


def run(home: Path, *arguments: str, typed: str | None = None) -> Done:
    words = () if typed is not None else ("-p", "is it")
    return localspec_here("run", "toy", "--temp", "0", *words, *arguments, home=home, typed=typed)


def test_a_form_is_given_as_it_is_or_in_a_file(tmp_path: Path) -> None:
    grammar, schema = tmp_path / "g.gbnf", tmp_path / "s.json"
    grammar.write_text(SHORT)
    schema.write_text('\ufeff{"type": "boolean"}\n')
    for flags in (("--grammar", SHORT), ("--grammar-file", str(grammar))):
        assert run(tmp_path, *flags).stdout in ("yes\n", "no\n")
    for flags in (("-j", '{"type": "boolean"}'), ("-jf", str(schema))):
        assert run(tmp_path, *flags).stdout in ("true\n", "false\n")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["-j", "{}", "--grammar", SHORT], "--grammar and --json-schema both set"),
        (["-jf", "gone.json"], "--json-schema-file gone.json can't be read."),
        (["-jf", "empty"], "--json-schema-file empty is empty."),
        (["--grammar-file", "latin-1"], "--grammar-file latin-1 is not UTF-8.\n  Byte 13 is 0xe9."),
        (["-j", " "], "--json-schema is empty."),
        (["--grammar", ""], "--grammar is empty."),
        (["--grammar-file", ""], "the name is empty"),
        (["-j", '{"enum": ["\udce9"]}'], "--json-schema is not valid UTF-8."),
        (["--grammar", 'root ::= "\udce9"'], "--grammar is not valid UTF-8."),
        (["-j", '{"enum": ["\\ud800"]}'], "The JSON schema can't be used."),
        (["-j", '{"type": '], 'It has to be a JSON object, as in {"type": "boolean"}'),
        (["-j", '{"not": {}}'], "Leave out or replace what is named there"),
        (["--grammar", "root ::= other"], "other"),
        (["--edit", "a.py", "-j", "{}"], "--edit opens an editor, and --json-schema works only in a chat."),
    ],
)
def test_what_can_be_no_form_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str], words: str
) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "latin-1").write_bytes('root ::= "caf\xe9"'.encode("latin-1"))
    monkeypatch.chdir(tmp_path)
    done = run(tmp_path, *flags) if "--edit" not in flags else localspec_here("run", "toy", *flags, home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_an_answer_that_is_cut_before_its_form_is_complete_says_so(tmp_path: Path) -> None:
    note = "may lack the rest of its form"
    cut, whole = (run(tmp_path, "--grammar", LONG, "-n", count) for count in ("5", "50"))
    assert (cut.stdout, whole.stdout) == ("the c\n", "the cat sat on the mat\n")
    assert (cut.returncode, note in cut.stderr, note in whole.stderr) == (0, True, False)
    assert note not in run(tmp_path, "-n", "5").stderr
    assert note in run(tmp_path, "--grammar", LONG, "-n", "5", typed="is it\n").stderr


def test_a_chat_says_that_answers_have_a_form_and_lifts_it(tmp_path: Path) -> None:
    typed = "is it\n/set\n/set form on\n/set temp 0\nis it\n/set form off\n/set\nis it\n"
    done = run(tmp_path, "--grammar", SHORT, "-n", "30", typed=typed)
    first, second, third = (part.split("\n", 1)[0] for part in done.stdout.splitlines(keepends=True)[:3])
    assert {first, second} <= {"yes", "no"}
    assert third not in ("yes", "no")
    before, refused, after = done.stderr.partition("form can't be 'on'.")
    assert refused
    assert "Every answer follows the JSON schema or grammar" in before
    assert "form              as given at the start" in before
    assert "form              off" in after
    assert "Every answer gets" not in run(tmp_path, typed="").stderr


def test_a_form_is_for_one_run_and_no_setting(tmp_path: Path) -> None:
    settings = tmp_path / ".config/localspec/config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("json-schema = '{}'\n")
    done = run(tmp_path)
    assert (done.returncode, "--json-schema applies to a single run" in done.stderr) == (2, True)
    settings.unlink()
    shown = json.loads(localspec_here("config", "show", "--all", "--json", home=tmp_path).stdout)
    assert not [one for one in shown["settings"] if "grammar" in one["key"] or "schema" in one["key"]]
