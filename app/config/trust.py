"""Rules for a project's settings file: free settings, and settings that wait until the user trusts the file.

Trust holds for a path and the SHA-256 of the file's bytes: a changed or moved file counts as a new one.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any

from app.shell.paths import state_folder
from drafters.registry import names_without_model
from models.library.catalog import STARTER
from models.system.bounded_read import parse_json, read_regular
from models.system.whole_file import write_whole

USERS = frozenset(
    {"host", "api_key", "allow_host", "allow_origin", "card", "plot", "slot_save_path", "rpc", "rpc_no_authentication"}
)
"""Parameters that open a server, send text to other machines or name files to write.

A project's file never sets them, even if trusted.
"""
_KEPT = frozenset({"no_history", "no_memory"})
"""Parameters that save less: a project's file may turn them on, never off."""
_FREE = frozenset(
    {
        *_KEPT,
        "overflow", "think", "stop", "predict", "ctx_size", "threads", "threads_batch", "gpu_layers", "flash_attn",
        "cpu_moe", "n_cpu_moe", "tensor_split",
        "cache_type_k", "cache_type_v", "no_draft_copy", "draft_max", "no_adapt", "strict", "explain", "temp", "top_k",
        "top_p", "min_p", "repeat_penalty", "repeat_last_n", "presence_penalty", "frequency_penalty", "seed", "as_json",
        "plain", "theme", "vim", "key", "classes", "limit", "samples", "seconds", "no_card", "max_lines", "time_limit",
        "raw_output", "port", "fim", "alias", "debounce",
    }
)  # fmt: skip
"""Parameters that name no file, reach no other machine and weaken no limit. New flags need trust until listed."""
_WITHOUT_FILE: Mapping[str, frozenset[str]] = {
    "draft": frozenset(names_without_model()),
    "model": frozenset({STARTER}),
    "model_option": frozenset({STARTER}),
}
"""Values that load no file which could come with the project."""
_ARM = re.compile(rf"(?:{'|'.join(names_without_model())})(?::\d+)?")
"""An arm of a comparison without a draft model."""
_LARGEST = 1 << 22
"""Maximum bytes of the record; some 20,000 projects."""
_FORMAT = 1
_VERSIONS = 16
"""Remembered contents per file; branches of a repository may differ in it."""


class Trust(StrEnum):
    """The decision about a settings file with its present bytes."""

    NEW = "new"
    """Never seen with these bytes."""
    SEEN = "seen"
    """Shown, and not decided."""
    TRUSTED = "trusted"
    REFUSED = "refused"


def is_users_own(parameter: str, value: object) -> bool:
    """Tell whether only the user's file may have a setting."""
    return parameter in USERS or (parameter in _KEPT and value is False)


def needs_trust(parameter: str, value: object) -> bool:
    """Tell whether a project's setting counts only in a trusted file."""
    if parameter in _FREE or value in _WITHOUT_FILE.get(parameter, ()):
        return False
    if parameter == "vs":
        arms = [arm.strip() for each in _texts(value) for arm in each.split(",")]
        return not all(map(_ARM.fullmatch, arms))
    return True


def trust_of(path: Path, content: bytes) -> Trust:
    """Return the decision about a file with these bytes."""
    decision = _entries().get(str(path), {}).get(_digest(content))
    return next((trust for trust in Trust if trust == decision), Trust.NEW)


def decide(path: Path, content: bytes, trust: Trust) -> None:
    """Store a decision about a file with these bytes; raises OSError. A refusal withdraws all trust in that path."""
    entries = _entries()
    before = {} if trust is Trust.REFUSED else entries.get(str(path), {})
    held = {**before, _digest(content): str(trust)}
    entries[str(path)] = dict([*held.items()][-_VERSIONS:])
    _file().parent.mkdir(parents=True, exist_ok=True)
    write_whole(_file(), json.dumps({"format": _FORMAT, "files": entries}, indent=1))


def trusted_files() -> list[str]:
    """Return the paths of all files that were trusted, including changed ones."""
    return sorted(path for path, entry in _entries().items() if Trust.TRUSTED in entry.values())


def _entries() -> dict[str, dict[str, Any]]:
    """Return the decisions by path; none if another user could have written the record."""
    with suppress(OSError, ValueError):
        if _is_own(_file()):
            record = parse_json(read_regular(_file(), _LARGEST))
            files = record.get("files") if isinstance(record, dict) and record.get("format") == _FORMAT else None
            if isinstance(files, dict):
                return {path: entry for path, entry in files.items() if isinstance(entry, dict)}
    return {}


def _is_own(path: Path) -> bool:
    if not hasattr(os, "getuid"):
        return True
    state = path.stat()
    return state.st_uid == os.getuid() and not state.st_mode & 0o022


def _file() -> Path:
    return state_folder() / "trusted-projects.json"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _texts(value: object) -> Iterable[str]:
    return [str(each) for each in value] if isinstance(value, list | tuple) else [str(value)]
