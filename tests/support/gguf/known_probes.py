"""Test decodes in child processes, once for files with equal bytes: most tests write the same tiny models."""

import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from models.abort import AbortFlag
from models.llama import probe
from models.llama.probe_watch import Outcome

_CHILD = (sys.executable, "-P", "-m", "models.llama.probe_child")
_LARGEST = 64 << 20
"""Bytes of a file that is worth a checksum."""


@cache
def _passed() -> dict[tuple[object, ...], Outcome]:
    """Return the outcomes of children that ended well, by what they were given."""
    return {}


def remember_probes(patch: pytest.MonkeyPatch) -> None:
    """Run no second child for a file with the bytes of one that passed; failures are always tried anew."""
    run = probe.watch

    def watch(command: Sequence[str], seconds: float, variables: Mapping[str, str], abort: AbortFlag) -> Outcome:
        key = _key(command, variables)
        if key is None or abort.is_set:
            return run(command, seconds, variables, abort)
        if key in _passed():
            return _passed()[key]
        outcome = run(command, seconds, variables, abort)
        if outcome.code == 0:
            _passed()[key] = outcome
        return outcome

    patch.setattr(probe, "watch", watch)


def _key(command: Sequence[str], variables: Mapping[str, str]) -> tuple[object, ...] | None:
    child, (path, *rest) = tuple(command[: len(_CHILD)]), command[len(_CHILD) :] or ("",)
    if child != _CHILD or not Path(path).is_file() or Path(path).stat().st_size > _LARGEST:
        return None
    ours = {name: value for name, value in os.environ.items() if name.startswith(("LOCALSPEC", "GGML", "OMP"))}
    content = hashlib.sha256(Path(path).read_bytes()).digest()
    return content, *rest, *sorted({**ours, **variables}.items())
