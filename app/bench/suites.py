"""Prompt files of published benchmarks of speculative decoding, read as they are published.

Spec-Bench (Xia et al. 2024, arXiv 2401.07851): a line has `question_id`, `category` and `turns`. Its eight categories
of MT-bench are one class, as in its own tables.

SPEED-Bench (NVIDIA 2026, arXiv 2604.09557): a line has `question_id`, `category`, and `messages` in the files that its
preparation writes, or `turns` in the data set itself, which has a placeholder where a source has to be fetched first.
"""

import json
from dataclasses import dataclass
from typing import Any

from app.bench.measuring.arms import BenchPrompt
from app.bench.options import SPEC_BENCH, SPEED_BENCH
from app.shell.input_bytes import read_input
from app.shell.text_encoding import decoded
from models.errors import UsageError
from models.system.counted import counted
from models.system.home import at_home

_MT_BENCH = frozenset({"writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities"})
_PLACEHOLDER = "FULL BENCHMARK DATA SHOULD BE FETCHED"
"""Beginning of a turn of SPEED-Bench whose text was not published with it."""
_LARGEST = 1 << 28
"""Most bytes of a file: the longest published one, prompts of 32,000 tokens, has about 200 million."""
_FORMS = {
    SPEC_BENCH: 'A line of Spec-Bench is {"question_id": 81, "category": "writing", "turns": ["Hi", "And then?"]}.',
    SPEED_BENCH: 'A line of SPEED-Bench is {"question_id": "a", "category": "coding", "messages": [{"role": "user", '
    '"content": "Hi"}]}, or has "turns": ["Hi"].',
}


@dataclass(frozen=True, slots=True)
class Suite:
    """Prompts of a published benchmark."""

    name: str
    """A name of `app.bench.options.SUITES`."""
    path: str
    prompts: tuple[BenchPrompt, ...]
    repeated: int
    """Prompts left out because their first turn came before: a drafter that remembers would know the answer."""

    @property
    def note(self) -> str:
        """Say what was left out; "" for nothing."""
        if not self.repeated:
            return ""
        return f"{self.path}: {counted(self.repeated, 'prompt')} left out, with the first turn of an earlier prompt."


def read_suite(name: str, path: str) -> Suite:
    """Return the prompts of a file; raises UsageError with the line, the value and what was expected."""
    flag = f"--suite {name} {path}"
    text = decoded(read_input(flag, at_home(path, "--suite"), limit=_LARGEST), flag, strict=True)
    ids: dict[str, int] = {}
    prompts: dict[tuple[object, ...], BenchPrompt] = {}
    # Not splitlines: a line of JSON may hold the other characters that Python takes for a line end.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            prompt = _prompt(name, line, f"{path}, line {number}")
            if prompt.id in ids:
                raise UsageError(f"{path}, line {number}: repeats the id of line {ids[prompt.id]}.", hint=_FORMS[name])
            ids[prompt.id] = number
            prompts.setdefault(prompt.opening, prompt)
    if not prompts:
        raise UsageError(f"{path} has no prompts.", hint=_FORMS[name])
    return Suite(name, path, tuple(prompts.values()), len(ids) - len(prompts))


def _prompt(suite: str, line: str, where: str) -> BenchPrompt:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not JSON.", cause=str(error), hint=_FORMS[suite]) from error
    if not isinstance(record, dict):
        raise _unfit(suite, where, "not an object")
    number, category = record.get("question_id"), record.get("category")
    # A Boolean is an int to Python.
    if not isinstance(number, int | str) or isinstance(number, bool) or number == "":
        raise _unfit(suite, where, _found(record, "question_id"))
    if not isinstance(category, str) or not category:
        raise _unfit(suite, where, _found(record, "category"))
    class_name = "mt_bench" if suite == SPEC_BENCH and category in _MT_BENCH else category
    return BenchPrompt(str(number), class_name, _turns(suite, record, where))


def _turns(suite: str, record: dict[str, Any], where: str) -> tuple[str, ...]:
    key = "messages" if suite == SPEED_BENCH and "messages" in record else "turns"
    found = record.get(key)
    if not isinstance(found, list) or not found:
        raise _unfit(suite, where, _found(record, key))
    said = [_content(suite, each, where) for each in found] if key == "messages" else found
    turns = tuple(turn for turn in said if isinstance(turn, str) and turn)
    if len(turns) < len(said):
        raise _unfit(suite, where, f'"{key}" has a turn that is no text, or empty')
    if suite == SPEED_BENCH and any(turn.startswith(_PLACEHOLDER) for turn in turns):
        raise UsageError(
            f"{where}: a placeholder stands where the prompt should be.",
            cause=_short(turns[0]),
            hint="Fetch the sources of SPEED-Bench first: its prepare.py does that, and writes files with all prompts.",
        )
    return turns


def _content(suite: str, message: object, where: str) -> object:
    """Return the text of a message of the user; the model itself answers each."""
    if not isinstance(message, dict) or message.get("role") != "user":
        raise _unfit(suite, where, f'"messages" has {_short(message)}, which is no message of the role "user"')
    return message.get("content")


def _found(record: dict[str, Any], key: str) -> str:
    return f'"{key}" is {_short(record[key])}' if key in record else f'no "{key}"'


def _short(value: object) -> str:
    return json.dumps(value)[:60]


def _unfit(suite: str, where: str, what: str) -> UsageError:
    return UsageError(f"{where}: {what}.", hint=_FORMS[suite])
