"""Prompt files: the one that ships, those of a user, and what is wrong with a bad one."""

import json
from collections import Counter
from pathlib import Path

import pytest

from app.bench.measuring.arms import BenchPrompt
from app.bench.prompts import choose, read_prompts
from models.errors import UsageError
from models.forms.grammar import Grammar
from models.text.fim import fim_prompt
from models.toy import ToyVocab

CLASSES = ["chat", "code", "edit", "fim", "math", "qa", "rag", "summarize", "translate", "json"]
GOOD = {"id": "a", "class": "chat", "turns": ["Hi", "And then?"]}


def file_of(folder: Path, *lines: object) -> str:
    path = folder / "mine.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return str(path)


def test_the_built_in_set_has_four_prompts_of_each_class() -> None:
    prompts = read_prompts(None)
    assert Counter(prompt.class_name for prompt in prompts) == dict.fromkeys(CLASSES, 4)
    assert all(bool(prompt.turns) != (prompt.class_name == "fim") for prompt in prompts)
    assert any(len(prompt.turns) > 1 for prompt in prompts)
    for prompt in prompts:
        if prompt.class_name in ("rag", "summarize"):
            assert 150 <= len(prompt.turns[0].split()) <= 450, prompt.id


def test_lines_become_prompts_and_empty_ones_are_nothing(tmp_path: Path) -> None:
    infill = {"id": "b", "class": "fim", "prefix": "def f():\n", "suffix": "", "middle": "    pass"}
    text = {"id": "c", "class": "mine", "turns": ["one\u2028line"]}
    assert read_prompts(file_of(tmp_path, GOOD, "", infill, json.dumps(text, ensure_ascii=False))) == [
        BenchPrompt("a", "chat", ("Hi", "And then?")),
        BenchPrompt("b", "fim", prefix="def f():\n"),
        BenchPrompt("c", "mine", ("one\u2028line",)),
    ]


def test_a_line_may_give_its_answers_a_form(tmp_path: Path) -> None:
    schema, grammar = {"type": "boolean"}, 'root ::= "yes"'
    lines = {**GOOD, "json_schema": schema}, {"id": "b", "class": "x", "turns": ["Well?"], "grammar": grammar}
    forms = [prompt.grammar for prompt in read_prompts(file_of(tmp_path, *lines))]
    assert forms == [Grammar.of_schema(schema), Grammar.of_text(grammar)]
    with pytest.raises(UsageError, match="line 1: The JSON schema can't be used") as refused:
        read_prompts(file_of(tmp_path, {**GOOD, "json_schema": {"type": "objct"}}))
    assert "objct" in refused.value.cause
    with pytest.raises(UsageError, match='line 1: "grammar" is 5'):
        read_prompts(file_of(tmp_path, {**GOOD, "grammar": 5}))


def test_a_file_may_begin_with_the_mark_of_its_encoding(tmp_path: Path) -> None:
    """As some editors and PowerShell write it; all other files that are read may, too."""
    assert read_prompts(file_of(tmp_path, "\ufeff" + json.dumps(GOOD))) == read_prompts(file_of(tmp_path, GOOD))


BAD = {
    "not JSON": ("{", "line 2: not JSON"),
    "lists in lists without end": ("[" * 100_000, "line 2: not JSON"),
    "no object": ("[1]", "line 2: not an object"),
    "no id": ({"class": "chat", "turns": ["Hi there"]}, 'line 2: no "id"'),
    "an id that is a number": ({"id": 7, "class": "chat", "turns": ["x"]}, 'line 2: "id" is 7'),
    "no class": ({"id": "b", "turns": ["x"]}, 'line 2: no "class"'),
    "neither turns nor hole": ({"id": "b", "class": "chat"}, 'line 2: no "prefix"'),
    "half a hole": ({"id": "b", "class": "fim", "prefix": "x"}, 'line 2: no "suffix"'),
    "turns that are a text": ({"id": "b", "class": "chat", "turns": "x"}, 'line 2: "turns" is "x"'),
    "no turn": ({"id": "b", "class": "chat", "turns": []}, 'line 2: "turns" is []'),
    "an empty turn": ({"id": "b", "class": "chat", "turns": ["x", ""]}, 'line 2: "turns" is'),
    "an id again": ({**GOOD, "turns": ["other"]}, "line 2: repeats line 1"),
    "a prompt again": ({**GOOD, "id": "b"}, "line 2: repeats line 1"),
    "a first turn again": ({**GOOD, "id": "b", "turns": [*GOOD["turns"], "more"]}, "line 2: repeats line 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_is_named_with_what_is_wrong(tmp_path: Path, name: str) -> None:
    line, words = BAD[name]
    with pytest.raises(UsageError) as failure:
        read_prompts(file_of(tmp_path, GOOD, line))
    assert words in failure.value.title
    assert "mine.jsonl" in failure.value.title
    assert failure.value.hint


def test_a_file_that_is_not_there_or_empty_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nope.jsonl can't be read"):
        read_prompts(str(tmp_path / "nope.jsonl"))
    with pytest.raises(UsageError, match="has no prompts"):
        read_prompts(file_of(tmp_path, ""))
    (tmp_path / "mine.jsonl").write_bytes(b"caf\xe9")
    with pytest.raises(UsageError, match=r"mine\.jsonl is not UTF-8") as failure:
        read_prompts(str(tmp_path / "mine.jsonl"))
    assert "iconv -f ISO-8859-1" in failure.value.hint


def test_classes_and_their_first_prompts_are_chosen() -> None:
    prompts = read_prompts(None)
    assert [prompt.id for prompt in choose(prompts, ["qa", "chat"], 2)] == ["chat/1", "chat/2", "qa/1", "qa/2"]
    assert len(choose(prompts, [], 12)) == 40
    with pytest.raises(UsageError, match="poetry is not a class") as failure:
        choose(prompts, ["chat", "poetry"], 1)
    assert ", ".join(CLASSES) in failure.value.hint


class Spelled(ToyVocab):
    """A vocabulary with the markers of one family, as its last ids, and perhaps a BOS token."""

    def __init__(self, markers: list[str], bos: int | None = None) -> None:
        super().__init__()
        self.bos = bos
        self._markers = markers

    def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        if special and text in self._markers:
            return [100 + self._markers.index(text)]
        return super().tokenize(text, special=special)

    def text(self, token: int) -> str:
        return self._markers[token - 100] if token >= 100 else super().text(token)


@pytest.mark.parametrize(
    "markers",
    [["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"], ["<fim_prefix>", "<fim_suffix>", "<fim_middle>"]],
)
def test_a_infill_is_spelled_with_the_markers_of_the_family(markers: list[str]) -> None:
    vocab = Spelled(markers)
    before, after = vocab.tokenize("ab"), vocab.tokenize("cd")
    assert fim_prompt(vocab, "ab", "cd") == [100, *before, 101, *after, 102]
    assert fim_prompt(Spelled(markers, bos=5), "ab", "") == [5, 100, *before, 101, 102]


def test_a_marker_inside_the_text_stays_text() -> None:
    vocab = Spelled(["<fim_prefix>", "<fim_suffix>", "<fim_middle>"])
    tokens = fim_prompt(vocab, "<fim_suffix>", "<end>")
    assert tokens is not None
    assert [token for token in tokens if token >= 100 or vocab.is_end(token)] == [100, 101, 102]


def test_without_markers_or_with_some_of_them_there_is_no_prompt() -> None:
    assert fim_prompt(ToyVocab(), "ab", "cd") is None
    assert fim_prompt(Spelled(["<fim_prefix>", "<fim_suffix>"]), "ab", "cd") is None
