"""Running the program as a user does: a process, its streams, its exit code."""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TEST_PATH = os.pathsep.join(
    map(str, (ROOT, *sorted(path for path in (ROOT / "tests" / "support").iterdir() if path.is_dir())))
)
"""A PYTHONPATH under which a child process imports what tests import."""


def environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment whose caches, logs and history are in `home`."""
    left_out = ("LOCALSPEC", "XDG_", "PYTHONDONTWRITEBYTECODE", "COLUMNS", "LINES")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    # Where no bytecode is wanted beside the sources, each of hundreds of processes would compile every library anew.
    elsewhere = {"PYTHONPYCACHEPREFIX": _bytecode_folder()} if sys.dont_write_bytecode else {}
    return {**kept, "HOME": str(home), "NO_COLOR": "1", **elsewhere, **(extra or {})}


@cache
def shared_folder(name: str) -> str:
    """Return a folder for all processes of these tests, gone with them; "measured" is a cache that knows models."""
    folder = tempfile.mkdtemp(prefix=name)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _bytecode_folder() -> str:
    """Return a folder for bytecode, with the kernels that are there: compiling takes half a minute, or several."""
    folder, beside = shared_folder("bytecode"), ROOT / "models" / "kernels"
    kept = Path(folder, *beside.parts[1:])
    kept.mkdir(parents=True, exist_ok=True)
    # With the checksum beside each: a library without one is compiled anew. A build that was killed leaves a folder.
    for part in (*beside.glob("__pycache__/*.so"), *beside.glob("__pycache__/*.so.sha256")):
        shutil.copy(part, kept)
    return folder


def localspec(
    *arguments: str, home: Path, stdin: str = "", extra: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run localspec to its end; a pipe is its standard input."""
    return subprocess.run(
        [sys.executable, "-m", "app", *arguments],
        cwd=ROOT,
        env=environment(home, extra),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
