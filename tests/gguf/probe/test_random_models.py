"""Files of right structure with random types, shapes and vocabularies: each ends in seconds, none blames the build."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, and reads /proc")
SCRIPT = Path(__file__).parents[2] / "support" / "gguf" / "random_models.py"


def tried(first: int, count: int, seconds: int) -> dict[str, Any]:
    command = [sys.executable, str(SCRIPT), str(first), str(count)]
    done = subprocess.run(command, capture_output=True, timeout=seconds)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["of"] == count
    return found


def test_a_sample_ends_in_words() -> None:
    found = tried(0, 20, 600)
    assert found["problems"] == []
    assert found["passed"], "some of them are good"


@pytest.mark.hostile
def test_two_thousand_end_within_ten_seconds_each() -> None:
    found = tried(0, 2000, 3600 * 3)
    print(f"random models: {found}")
    assert found["problems"] == []
    assert found["slowest"] < 10
