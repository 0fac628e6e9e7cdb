"""Answers of real models, recorded once (`record_answers.py`) and told again message by message, on any machine.

A file holds a line of JSON for each answer. Values are written by the names of their fields, bytes as the characters of
the same numbers, so that what is read back is equal to what the engine said.
"""

import gzip
import json
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from app.engine.conversation.messages import Ended, Message, Ready, Said, Watched
from app.engine.conversation.session import Reading

FILE = Path(__file__).parents[2] / "data" / "answers.jsonl.gz"
_KINDS: dict[str, type] = {kind.__name__: kind for kind in (Ready, Reading, Said, Watched, Ended)}


@dataclass(frozen=True, slots=True)
class Recorded:
    """A question, and all that the engine said from the load to the end of the answer."""

    name: str
    prompt: str
    messages: tuple[Message, ...]

    @property
    def ready(self) -> Ready:
        return next(message for message in self.messages if isinstance(message, Ready))

    @property
    def told(self) -> tuple[Message, ...]:
        """What was said after the load."""
        return tuple(message for message in self.messages if not isinstance(message, Ready))

    def until(self, text: str) -> tuple[Message, ...]:
        """Return what was told up to the round that completes a text."""
        so_far = ""
        for place, message in enumerate(self.told):
            so_far += message.text if isinstance(message, Said) else ""
            if text in so_far:
                return self.told[: place + 1]
        raise AssertionError(f"{self.name} never says {text!r}")


@lru_cache
def recorded(name: str) -> Recorded:
    """Return what was recorded under a name."""
    lines = gzip.decompress(FILE.read_bytes()).splitlines()
    line = next(line for line in map(json.loads, lines) if line["name"] == name)
    messages = tuple(read(_KINDS[kind], plain) for kind, plain in line["messages"])
    return Recorded(name, line["prompt"], messages)


def write(answers: Iterable[Recorded], file: Path = FILE) -> None:
    """Write answers to a file, the same bytes for the same answers."""
    lines = (
        {
            "name": one.name,
            "prompt": one.prompt,
            "messages": [[type(said).__name__, plain(said)] for said in one.messages],
        }
        for one in answers
    )
    text = "\n".join(json.dumps(line, separators=(",", ":")) for line in lines)
    file.write_bytes(gzip.compress(text.encode(), mtime=0))


def plain(value: Any) -> Any:
    """Return a message, or a part of one, as JSON has it."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return [plain(one) for one in value] if isinstance(value, tuple) else value


def read(kind: Any, value: Any) -> Any:
    """Return the value of a kind that was written as plain JSON."""
    if get_origin(kind) is UnionType:
        return None if value is None else read(next(one for one in get_args(kind) if one is not NoneType), value)
    if get_origin(kind) is tuple:
        inner = get_args(kind)
        kinds = [inner[0]] * len(value) if inner[-1] is Ellipsis else inner
        return tuple(read(one, part) for one, part in zip(kinds, value, strict=True))
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{name: read(hints[name], part) for name, part in value.items()})
    if issubclass(kind, Enum):
        return kind(value)
    return value.encode("latin-1") if kind is bytes else value
