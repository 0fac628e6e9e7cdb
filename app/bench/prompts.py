"""Prompt files: JSON lines with `id`, `class`, and either `turns` or, for a hole to fill, `prefix` and `suffix`.

A `json_schema` or a `grammar` gives all answers to a line a form.
"""

import json
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any

from app.bench.measuring.arms import BenchPrompt
from app.shell.input_bytes import read_input
from app.shell.text_encoding import decoded
from models.errors import UsageError
from models.forms.grammar import Grammar
from models.system.home import at_home

_BUILT_IN = "prompts.jsonl"


def read_prompts(path: str | None) -> list[BenchPrompt]:
    """Return the prompts of a file, or those that come with localspec; raises UsageError with the line."""
    if path is None:
        return _parse(resources.files("app.bench").joinpath(_BUILT_IN).read_text(encoding="utf-8"), _BUILT_IN)
    data = read_input(f"--prompts {path}", at_home(path, "--prompts"))
    text = decoded(data, f"--prompts {path}", strict=True)
    return _parse(text, path)


def names_in(flag: str, values: Sequence[str]) -> list[str]:
    """Return what comma lists name, each given once or more; raises UsageError where they name nothing."""
    names = [name.strip() for value in values for name in value.split(",") if name.strip()]
    if values and not names:
        raise UsageError(f"{flag} is empty.", hint=f"Leave out {flag}, or name something.")
    return names


def choose(prompts: Sequence[BenchPrompt], classes: Sequence[str], limit: int) -> list[BenchPrompt]:
    """Return the first `limit` prompts of each class named, of every class if none is; raises UsageError."""
    there = list(dict.fromkeys(prompt.class_name for prompt in prompts))
    unknown = [name for name in classes if name not in there]
    if unknown:
        raise UsageError(f"--class {unknown[0]} is not a class of these prompts.", hint=f"Classes: {', '.join(there)}.")
    chosen: list[BenchPrompt] = []
    for name in there:
        if not classes or name in classes:
            chosen += [prompt for prompt in prompts if prompt.class_name == name][:limit]
    return chosen


def _parse(text: str, name: str) -> list[BenchPrompt]:
    prompts: list[BenchPrompt] = []
    lines: dict[object, int] = {}
    # Not splitlines: a line of JSON may hold the other characters that Python takes for a line end.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        prompt = _prompt(line, f"{name}, line {number}")
        for known in (prompt.id, prompt.opening):
            if known in lines:
                # What remembers would know the answer, and a figure of an id would be two prompts'.
                raise UsageError(
                    f"{name}, line {number}: repeats line {lines[known]}.",
                    hint=f"See {prompt.id!r}: an id, a first turn and a hole may occur only once in a file.",
                )
            lines[known] = number
        prompts.append(prompt)
    if not prompts:
        raise UsageError(f"{name} has no prompts.", hint=_FORM)
    return prompts


_FORM = 'A line is {"id": "a", "class": "chat", "turns": ["Hi"]}, or has "prefix" and "suffix" in place of "turns".'


def _prompt(line: str, where: str) -> BenchPrompt:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not JSON.", cause=str(error), hint=_FORM) from error
    if not isinstance(record, dict):
        raise UsageError(f"{where}: not an object.", hint=_FORM)
    name, class_name = _text(record, "id", where), _text(record, "class", where)
    if "turns" not in record:
        texts = [_text(record, key, where, may_be_empty=True) for key in ("prefix", "suffix")]
        return BenchPrompt(name, class_name, prefix=texts[0], suffix=texts[1], grammar=_form(record, where))
    turns = record["turns"]
    if not isinstance(turns, list) or not turns or not _all_texts(turns):
        raise UsageError(f'{where}: "turns" is {_short(turns)}.', hint=f"It must list at least one text. {_FORM}")
    return BenchPrompt(name, class_name, tuple(turns), grammar=_form(record, where))


def _form(record: dict[str, Any], where: str) -> Grammar | None:
    try:
        if "json_schema" in record:
            return Grammar.of_schema(record["json_schema"])
        return Grammar.of_text(_text(record, "grammar", where)) if "grammar" in record else None
    except UsageError as error:
        raise UsageError(f"{where}: {error.title}", cause=error.cause, hint=error.hint) from error


def _text(record: dict[str, Any], key: str, where: str, *, may_be_empty: bool = False) -> str:
    value = record.get(key)
    if isinstance(value, str) and (value or may_be_empty):
        return value
    raise UsageError(f'{where}: "{key}" is {_short(value)}.' if key in record else f'{where}: no "{key}".', hint=_FORM)


def _all_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) and value for value in values)


def _short(value: object) -> str:
    return json.dumps(value)[:40]
