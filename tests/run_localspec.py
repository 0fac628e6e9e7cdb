"""Running the program as a user does: a process, its streams, its exit code."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment whose caches, logs and history are in `home`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LOCALSPEC", "XDG_"))}
    return {**kept, "HOME": str(home), "NO_COLOR": "1", **(extra or {})}


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
