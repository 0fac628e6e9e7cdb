"""Answers of a trial on disk: each prompt's are whole or not there, and a trial that was stopped goes on after them."""

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from app.bench.measuring.arms import ArmAnswer
from app.engine.decoding.ending import Finish
from app.engine.decoding.stats import Snapshot
from models.system.whole_file import write_whole

_FORM = ("grammar", "preface")
"""Fields of an answer that say nothing about its speed, and are not stored."""


class TrialAnswers:
    """The answers of one trial in one file."""

    def __init__(self, file: Path, conditions: dict[str, Any]) -> None:
        """Read the file; one that is missing, damaged, or of a trial under other conditions counts as empty."""
        self._file = file
        self._conditions = json.loads(json.dumps(conditions))
        self.finished = False
        """Whether the trial has ended with them."""
        self.answers = self._read()

    def has(self, prompt: str, temperature: float) -> bool:
        """Return whether a prompt, by its id, was answered at a temperature, with all its turns."""
        return any((answer.prompt, answer.temperature) == (prompt, temperature) for answer in self.answers)

    def add(self, answers: Sequence[ArmAnswer]) -> None:
        """Add the answers of all arms to all turns of a prompt; raises OSError, and then the file is as before."""
        self.answers += answers
        self._write()

    def finish(self) -> None:
        """Note that the trial has ended; raises OSError."""
        self.finished = True
        self._write()

    def _write(self) -> None:
        records = [_record(answer) for answer in self.answers]
        stored = {"conditions": self._conditions, "finished": self.finished, "answers": records}
        write_whole(self._file, json.dumps(stored))

    def _read(self) -> list[ArmAnswer]:
        try:
            stored = json.loads(self._file.read_text(encoding="utf-8"))
            if stored["conditions"] != self._conditions:
                return []
            answers = [_answer(record) for record in stored["answers"]]
            self.finished = stored["finished"] is True
            return answers
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return []


def _record(answer: ArmAnswer) -> dict[str, Any]:
    values = {each.name: getattr(answer, each.name) for each in fields(answer) if each.name not in _FORM}
    return {**values, "stats": asdict(answer.stats)}


def _answer(record: dict[str, Any]) -> ArmAnswer:
    values = _with_tuples(record)
    return ArmAnswer(**{**values, "finish": Finish(values["finish"]), "stats": Snapshot(**values["stats"])})


def _with_tuples(value: Any) -> Any:
    """Return parsed JSON with tuples in place of its lists."""
    if isinstance(value, dict):
        return {name: _with_tuples(each) for name, each in value.items()}
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value
