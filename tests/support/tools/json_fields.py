"""The field names of every `--json` output, recorded: scripts read them, so a moved class must not rename one.

`python tests/support/run.py json_fields` records them anew, after a field was added on purpose.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from run_localspec import localspec

RECORD = Path(__file__).parents[2] / "data" / "json_fields.json"
_SHORT = ("-n", "24", "--class", "chat", "--limit", "1", "-c", "2048", "--json")
COMMANDS = {
    "run": ("run", "toy", "the sea the sea the sea", "--json", "-n", "24", "--seed", "1", "--explain", "--no-adapt"),
    "explanation": ("run", "toy", "the sea the sea the sea", "--json", "-n", "24", "--seed", "1", "--explain"),
    "bench": ("bench", "toy", "--draft", "toy", "--vs", "auto,model:2", *_SHORT),
    "verify": ("verify", "toy", "--draft", "toy", *_SHORT),
    "statistics": ("verify", "toy", "--statistics", "--samples", "400", "--json"),
    "check": ("check", "starter", "starter", "--json"),
    "models ls": ("models", "ls", "--json"),
    "models info": ("models", "info", "starter", "--json"),
    "doctor": ("doctor", "--json"),
    "drafter show": ("drafter", "show", "--json"),
    "history ls": ("history", "ls", "--json"),
}
"""By a name for the record: a command whose output holds every kind of field that it has."""
_PARTS = {"explanation": "end.explanation"}
"""Beginnings of the paths that are recorded of a command, where the others depend on the time that passes take."""


def fields_of(value: Any, path: str = "") -> Iterator[tuple[str, bool]]:
    """Give every path of a JSON value, and whether it holds anything; members of a list share one path."""
    yield path, value not in (None, [], {})
    if isinstance(value, dict):
        for name, member in value.items():
            yield from fields_of(member, f"{path}.{'<n>' if name.isdigit() else name}")
    elif isinstance(value, list):
        for member in value:
            yield from fields_of(member, f"{path}[]")


def printed_fields(name: str, home: Path) -> dict[str, bool]:
    """Run a command of `COMMANDS` and return its paths, each with whether it held anything anywhere."""
    command, part = COMMANDS[name], _PARTS.get(name, "")
    done = localspec(*command, home=home)
    texts = done.stdout.splitlines() if command[0] == "run" else [done.stdout]
    found: dict[str, bool] = {}
    for record in map(json.loads, texts):
        kind = record.get("type", "") if command[0] == "run" else ""
        for path, is_full in fields_of(record, kind):
            if path.startswith(part):
                found[path] = found.get(path, False) or is_full
    return found


def differences(recorded: dict[str, bool], found: dict[str, bool]) -> list[str]:
    """Return the paths that only one side has, but for those below a value that the other side has empty."""
    return sorted(
        [f"gone: {path}" for path in recorded.keys() - found.keys() if not _below_empty(path, found)]
        + [f"new: {path}" for path in found.keys() - recorded.keys() if not _below_empty(path, recorded)]
    )


def _below_empty(path: str, fields: dict[str, bool]) -> bool:
    above = [path[:end] for end in range(len(path)) if path[end] in ".["]
    return any(fields.get(each) is False for each in above)


def _record() -> None:
    with tempfile.TemporaryDirectory() as home:
        found = {name: printed_fields(name, Path(home)) for name in COMMANDS}
    RECORD.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    _record()
